/* SPDX-License-Identifier: BSD-3-Clause */
#include "journal/trace.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "base/json.h"
#include "base/json_valid.h"
#include "tests/unit/journal/fixture.h"

#define SESSION "r1.1"

static struct journal_record intent(uint64_t call, struct sv agent_body, struct sv sent_body) {
    struct journal_record r = {
        .type = JOURNAL_INTENT,
        .session = SV(SESSION),
        .call = call,
        .time = 100.25,
        .head = SV("{\"dialect\":\"openai_chat\",\"model\":\"asked\",\"edits\":[{\"field\":"
                   "\"logprobs\",\"action\":\"set\",\"to\":true}],\"sampling\":{\"asked\":"
                   "{\"temperature\":0.70},\"sent\":{}},\"agent_session\":\"ses_1\"}"),
        .parts = {{SV("agent_body"), agent_body}, {SV("sent_body"), sent_body}},
        .n_parts = sent_body.n > 0 ? 2 : 1,
    };
    return r;
}

static struct journal_record whole_result(uint64_t call) {
    return (struct journal_record){
        .type = JOURNAL_RESULT,
        .session = SV(SESSION),
        .call = call,
        .time = 101.5,
        .head = SV("{\"status\":200,\"end\":\"complete\",\"finish_reason\":\"stop\",\"latency_s\":"
                   "0.10,\"ttft_s\":0.05,\"engine\":\"vllm\",\"model\":\"given\",\"findings\":"
                   "[\"usage_mismatch\"]}"),
        .parts = {{SV("response"), SV("{\n \"choices\": [1.0],\r\n \"a\": \"b\\n\"}")},
                  {SV("logprobs"), SV("[{\"token\":\"a\",\"logprob\":-1.0e-5}]")},
                  {SV("completion_tokens"), SV("[\"a\"]")},
                  {SV("completion_token_ids"), SV("[7]")},
                  {SV("per_token_logps"), SV("[-1.0e-5]")},
                  {SV("prompt_token_ids"), SV("[1, 2]")},
                  {SV("usage"), SV("{\"completion_tokens\":1}")}},
        .n_parts = 7,
    };
}

static void write_records(const struct journal_record *records, size_t n) {
    struct journal *j = open_journal(&(struct journal_options){.dir = root});
    for (size_t i = 0; i < n; i++) {
        append(j, records[i]);
    }
    journal_close(j);
}

#define WRITE(...)                                                                                 \
    do {                                                                                           \
        const struct journal_record list_[] = {__VA_ARGS__};                                       \
        write_records(list_, ARRAY_LEN(list_));                                                    \
    } while (0)

/* The trace of the session, each of its lines valid. */
static struct trace_summary traced(trace_judge_fn judge, void *arg, struct buf *out) {
    struct err err = {0};
    struct trace_summary summary = {0};
    const struct trace_source from = {
        .journal_dir = root, .session = SESSION, .judge = judge, .arg = arg};
    assert_ok(trace_to_buf(&from, out, &summary, &err), &err);
    struct sv rest = buf_sv(out);
    while (rest.n > 0) {
        size_t n = sv_find(rest, SV("\n"));
        assert_true(n < rest.n);
        if (!json_valid((struct sv){rest.p, n})) {
            fail_msg("not valid: %.*s", (int)n, rest.p);
        }
        rest = sv_cut(rest, n + 1);
    }
    return summary;
}

static void holds(const struct buf *b, const char *words) {
    if (!strstr(buf_cstr(b), words)) {
        fail_msg("no %s in %s", words, buf_cstr(b));
    }
}

static void a_whole_call_becomes_one_line_with_every_number_as_it_was(void **state) {
    (void)state;
    WRITE({.type = JOURNAL_SESSION_OPEN,
           .session = SV(SESSION),
           .head = SV("{\"engine\":\"x\",\"policy_version\":3}")},
          intent(1, SV("{\"model\":\"asked\",\"temperature\":0.70}"),
                 SV("{\"model\":\"asked\",\"temperature\":0.70,\"logprobs\":true}")),
          whole_result(1));
    AUTO_BUF struct buf out = {0};
    struct trace_summary s = traced(NULL, NULL, &out);
    assert_int_equal(s.calls, 1);
    assert_int_equal(s.open, 0);
    assert_int_equal(s.plain_bytes, out.len);
    assert_string_equal(
        buf_cstr(&out),
        "{\"turn\": 1, \"request\": {\"model\":\"asked\",\"temperature\":0.70,\"logprobs\":true}, "
        "\"response\": {  \"choices\": [1.0],   \"a\": \"b\\n\"}, "
        "\"logprobs\": [{\"token\":\"a\",\"logprob\":-1.0e-5}], \"completion_tokens\": [\"a\"], "
        "\"completion_token_ids\": [7], \"per_token_logps\": [-1.0e-5], "
        "\"finish_reason\": \"stop\", \"latency_s\": 0.10, \"timestamp\": 101.500000, "
        "\"schema\": \"snaffle.trace/1\", \"session\": \"r1.1\", \"dialect\": \"openai_chat\", "
        "\"prompt_token_ids\": [1, 2], \"role\": \"agent\", \"parent\": null, "
        "\"edits\": [{\"field\":\"logprobs\",\"action\":\"set\",\"to\":true}], "
        "\"sampling\": {\"asked\":{\"temperature\":0.70},\"sent\":{}}, "
        "\"usage\": {\"completion_tokens\":1}, \"status\": 200, \"end\": \"complete\", "
        "\"trainable\": null, \"findings\": [\"usage_mismatch\"], \"ttft_s\": 0.05, "
        "\"engine\": \"vllm\", \"model\": \"given\", \"policy_version\": 3, "
        "\"agent_session\": \"ses_1\"}\n");
}

static void calls_stand_in_the_order_of_their_numbers(void **state) {
    (void)state;
    WRITE(intent(2, SV("2"), SV("")), intent(1, SV("1"), SV("")), intent(3, SV("3"), SV("")),
          whole_result(2), whole_result(1));
    AUTO_BUF struct buf out = {0};
    struct trace_summary s = traced(NULL, NULL, &out);
    assert_int_equal(s.calls, 3);
    assert_int_equal(s.open, 1);
    const char *one = strstr(buf_cstr(&out), "{\"turn\": 1, \"request\": 1,");
    const char *two = strstr(buf_cstr(&out), "{\"turn\": 2, \"request\": 2,");
    const char *three = strstr(buf_cstr(&out), "{\"turn\": 3, \"request\": 3,");
    assert_true(one && one < two && two < three);
}

static void the_last_of_a_call_s_intents_counts(void **state) {
    (void)state;
    WRITE(intent(1, SV("{}"), SV("{\"n\":1}")), intent(1, SV("{}"), SV("{\"n\":2}")),
          whole_result(1));
    AUTO_BUF struct buf out = {0};
    assert_int_equal(traced(NULL, NULL, &out).calls, 1);
    holds(&out, "\"request\": {\"n\":2}");
}

static void a_call_without_a_result_is_open(void **state) {
    (void)state;
    WRITE(intent(1, SV("{}"), SV("")));
    AUTO_BUF struct buf out = {0};
    assert_int_equal(traced(NULL, NULL, &out).open, 1);
    holds(&out, "\"response\": null, \"logprobs\": [], \"completion_tokens\": [], "
                "\"completion_token_ids\": [], \"per_token_logps\": [], \"finish_reason\": null, "
                "\"latency_s\": null, \"timestamp\": 100.250000,");
    holds(&out, "\"end\": \"open\"");
    holds(&out, "\"model\": \"asked\"");
}

static void a_failed_call_answers_as_the_reference_writes_it(void **state) {
    (void)state;
    WRITE(intent(1, SV("{}"), SV("")),
          {.type = JOURNAL_RESULT,
           .session = SV(SESSION),
           .call = 1,
           .head = SV("{\"status\":429,\"end\":\"error\",\"upstream_status\":429,"
                      "\"upstream_error\":\"slow\\ndown\",\"finish_reason\":null}")},
          intent(2, SV("{}"), SV("")),
          {.type = JOURNAL_RESULT,
           .session = SV(SESSION),
           .call = 2,
           .head = SV("{\"status\":502,\"end\":\"error\",\"upstream_error\":\"no connection\"}")});
    AUTO_BUF struct buf out = {0};
    traced(NULL, NULL, &out);
    holds(&out, "\"response\": {\"choices\": [], \"usage\": null, \"upstream_status\": 429, "
                "\"upstream_error\": \"slow\\ndown\"}");
    holds(&out, "\"upstream_status\": 429, \"upstream_error\": \"slow\\ndown\"}\n");
    holds(&out, "\"upstream_status\": null, \"upstream_error\": \"no connection\"}, \"logprobs\"");
    holds(&out, "\"agent_session\": \"ses_1\", \"upstream_error\": \"no connection\"}\n");
}

static void a_tail_completes_what_was_left_open(void **state) {
    (void)state;
    struct journal_record first = whole_result(1);
    first.head =
        SV("{\"end\":\"complete\",\"tail_open\":true,\"latency_s\":1,\"findings\":[\"a\"]}");
    WRITE(intent(1, SV("{}"), SV("")), first,
          {.type = JOURNAL_TAIL,
           .session = SV(SESSION),
           .call = 1,
           .time = 500,
           .head = SV("{\"latency_s\":2.0,\"findings\":[\"b\"]}"),
           .parts = {{SV("usage"), SV("{\"late\":1}")}},
           .n_parts = 1},
          intent(2, SV("{}"), SV("")),
          {.type = JOURNAL_RESULT, .session = SV(SESSION), .call = 2, .head = first.head});
    AUTO_BUF struct buf out = {0};
    traced(NULL, NULL, &out);
    holds(&out, "\"usage\": {\"late\":1}");
    holds(&out, "\"latency_s\": 2.0, \"timestamp\": 101.500000");
    holds(&out, "\"completion_token_ids\": [7]");
    holds(&out, "\"findings\": [\"a\",\"b\"]");
    holds(&out, "\"findings\": [\"a\",\"tail_missing\"]");
}

static void damaged_parts_and_heads_never_spoil_a_line(void **state) {
    (void)state;
    static const char *const damaged[] = {"{\"a\":", "\"\xff\"", "[1]]", "",
                                          "NaN",     "\"a\nb\"", "{}x"};
    for (size_t i = 0; i < ARRAY_LEN(damaged); i++) {
        struct journal_record bad = whole_result(1);
        bad.parts[0].bytes = sv_from(damaged[i]);
        bad.parts[3].bytes = sv_from(damaged[i]);
        bad.head = sv_from(damaged[i]);
        WRITE(intent(1, sv_from(damaged[i]), SV("")), bad);
        AUTO_BUF struct buf out = {0};
        traced(NULL, NULL, &out);
        holds(&out, "\"request\": null, \"response\": null, \"logprobs\": [{");
        holds(&out, "\"completion_token_ids\": [],");
        holds(&out, "\"end\": \"error\"");
        holds(&out, "\"findings\": [\"part_invalid\",\"head_invalid\"]");
        assert_int_equal(file_remove_tree(root, NULL), 0);
        assert_int_equal(mkdir(root, 0700), 0);
    }
}

/* Flips a byte where `words` stand in the journal. */
static void damage(const char *words) {
    AUTO_FREE char *path = segment_file(1);
    AUTO_BUF struct buf all = {0};
    struct err err = {0};
    assert_ok(file_read(path, 8 << 20, &all, &err), &err);
    size_t at = sv_find(buf_sv(&all), sv_from(words));
    assert_true(at != (size_t)-1);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_int_equal(pwrite(fd, "#", 1, (off_t)at), 1);
    close(fd);
}

static int damage_the_second(void *arg, const struct trace_call *call, struct trace_judgement *j,
                             struct err *err) {
    (void)arg;
    (void)j;
    (void)err;
    if (call->call == 1) {
        damage("spoiled");
    }
    return 0;
}

/* Where the journal was looked through, records are known by their place. */
static void a_record_that_is_damaged_since_it_was_found_is_told_and_spoils_no_other(void **state) {
    (void)state;
    AUTO_BUF struct buf long_body = {0};
    for (int i = 0; i < 100000; i++) { /* More than is read at once. */
        assert_int_equal(buf_adds(&long_body, i ? ",\"a\"" : "[1"), 0);
    }
    assert_int_equal(buf_adds(&long_body, "]"), 0);
    WRITE(intent(1, buf_sv(&long_body), SV("")), whole_result(1),
          intent(2, buf_sv(&long_body), SV("")), intent(3, SV("{\"spoiled\":1}"), SV("")),
          whole_result(3), whole_result(2));
    AUTO_BUF struct buf out = {0};
    assert_int_equal(traced(damage_the_second, NULL, &out).calls, 3);
    holds(&out, "{\"turn\": 3, \"request\": null,");
    holds(&out, "\"findings\": [\"record_damaged\",\"usage_mismatch\"]");
    holds(&out, "\"findings\": [\"usage_mismatch\"]");
}

static void a_result_without_its_intent_is_kept_and_marked(void **state) {
    (void)state;
    WRITE(whole_result(4));
    AUTO_BUF struct buf out = {0};
    assert_int_equal(traced(NULL, NULL, &out).calls, 1);
    holds(&out, "{\"turn\": 4, \"request\": null,");
    holds(&out, "\"findings\": [\"usage_mismatch\",\"intent_missing\"]");
}

static void the_policy_is_that_of_the_call_s_beginning(void **state) {
    (void)state;
    WRITE({.type = JOURNAL_SESSION_OPEN,
           .session = SV(SESSION),
           .head = SV("{\"policy_version\":1}")},
          intent(1, SV("1"), SV("")),
          {.type = JOURNAL_SESSION_CHANGE,
           .session = SV(SESSION),
           .head = SV("{\"policy_version\":2}")},
          whole_result(1), intent(2, SV("2"), SV("")));
    AUTO_BUF struct buf out = {0};
    traced(NULL, NULL, &out);
    const char *second = strstr(buf_cstr(&out), "{\"turn\": 2");
    const char *one = strstr(buf_cstr(&out), "\"policy_version\": 1");
    const char *two = strstr(buf_cstr(&out), "\"policy_version\": 2");
    assert_true(one && two && one < second && second < two);
}

static void other_sessions_are_left_out(void **state) {
    (void)state;
    struct journal_record other = intent(1, SV("\"other\""), SV(""));
    other.session = SV("r1.2");
    WRITE(other, intent(1, SV("\"mine\""), SV("")));
    AUTO_BUF struct buf out = {0};
    assert_int_equal(traced(NULL, NULL, &out).calls, 1);
    holds(&out, "\"mine\"");
}

static int judge_all(void *arg, const struct trace_call *call, struct trace_judgement *j,
                     struct err *err) {
    unsigned *calls = arg;
    ++*calls;
    assert_true(sv_eq(call->session, SV(SESSION)));
    assert_true(sv_eq(call->request, SV("{\"s\":1}")));
    assert_true(sv_eq(call->agent_request, SV("{}")));
    assert_true(sv_eq(call->completion_token_ids, SV("[7]")));
    assert_string_equal(json_string_value(json_object_get(call->result, "end")), "complete");
    assert_string_equal(json_string_value(json_object_get(call->intent, "model")), "asked");
    if (call->call == 2) {
        return err_set(err, ERR_CANCELLED, "enough");
    }
    j->role = "auxiliary";
    j->trainable = 0;
    return json_array_append_new(j->findings, json_string("truncated_turn"));
}

static void a_judge_says_role_and_findings_and_may_stop_it(void **state) {
    (void)state;
    unsigned calls = 0;
    WRITE(intent(1, SV("{}"), SV("{\"s\":1}")), whole_result(1));
    AUTO_BUF struct buf out = {0};
    traced(judge_all, &calls, &out);
    assert_int_equal(calls, 1);
    holds(&out, "\"role\": \"auxiliary\"");
    holds(&out, "\"trainable\": false, \"findings\": [\"usage_mismatch\",\"truncated_turn\"]");
    WRITE(intent(2, SV("{}"), SV("{\"s\":1}")), whole_result(2));
    struct err err = {0};
    const struct trace_source from = {root, SESSION, judge_all, &calls};
    assert_err(trace_to_dir(&from, root, NULL, &err), ERR_CANCELLED, &err, "enough");
    AUTO_FREE char *path = file_join(root, "trace.jsonl");
    assert_false(file_exists(path));
}

struct counted {
    unsigned lines;
    size_t bytes;
};

static int count_line(void *arg, struct sv line, struct err *err) {
    struct counted *c = arg;
    c->lines++;
    c->bytes += line.n + 1;
    return json_valid(line) ? 0 : err_set(err, ERR_CORRUPT, "not valid");
}

static struct counted counted(const char *path) {
    struct err err = {0};
    struct counted c = {0};
    assert_ok(trace_read(path, count_line, &c, &err), &err);
    return c;
}

static void a_small_trace_is_plain_and_reads_back(void **state) {
    (void)state;
    struct err err = {0};
    struct trace_summary s;
    const struct trace_source from = {root, SESSION, NULL, NULL};
    WRITE(intent(1, SV("{}"), SV("")), whole_result(1), intent(2, SV("{}"), SV("")));
    AUTO_FREE char *path = file_join(root, "trace.jsonl");
    AUTO_FREE char *packed = file_join(root, "trace.jsonl.zst");
    assert_ok(file_write(packed, SV("old"), 0600, &err), &err);
    assert_ok(trace_to_dir(&from, root, &s, &err), &err);
    assert_false(file_exists(packed));
    const char *const ways[] = {root, path, packed};
    for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
        struct counted c = counted(ways[i]);
        assert_int_equal(c.lines, 2);
        assert_int_equal(c.bytes, s.plain_bytes);
    }
}

static void a_large_trace_is_compressed_in_its_place(void **state) {
    (void)state;
    struct err err = {0};
    struct trace_summary s;
    const struct trace_source from = {root, SESSION, NULL, NULL};
    AUTO_BUF struct buf body = {0};
    assert_int_equal(buf_reserve(&body, 3000000), 0);
    memset(body.data, 'x', 3000000);
    body.data[0] = body.data[2999999] = '"';
    body.len = 3000000;
    struct journal *j = open_journal(&(struct journal_options){.dir = root});
    for (uint64_t call = 1; call <= 6; call++) {
        append(j, intent(call, buf_sv(&body), SV("")));
    }
    journal_close(j);
    AUTO_FREE char *path = file_join(root, "trace.jsonl");
    AUTO_FREE char *packed = file_join(root, "trace.jsonl.zst");
    assert_ok(file_write(path, SV("old"), 0600, &err), &err);
    assert_ok(trace_to_dir(&from, root, &s, &err), &err);
    assert_true(s.plain_bytes > TRACE_PLAIN_MAX);
    assert_false(file_exists(path));
    struct stat st;
    assert_int_equal(stat(packed, &st), 0);
    assert_true(st.st_size < 100000);
    const char *const ways[] = {root, path, packed};
    for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
        struct counted c = counted(ways[i]);
        assert_int_equal(c.lines, 6);
        assert_int_equal(c.bytes, s.plain_bytes);
    }
    assert_int_equal(truncate(packed, st.st_size / 2), 0);
    struct counted c = {0};
    assert_err(trace_read(packed, count_line, &c, &err), ERR_CORRUPT, &err, "cut short");
}

static void no_calls_make_an_empty_trace(void **state) {
    (void)state;
    struct err err = {0};
    const struct trace_source from = {root, SESSION, NULL, NULL};
    assert_ok(trace_to_dir(&from, root, NULL, &err), &err);
    assert_int_equal(counted(root).lines, 0);
    struct counted c = {0};
    assert_err(trace_read("/nonexistent", count_line, &c, &err), ERR_NOT_FOUND, &err,
               "'/nonexistent'");
}

static void the_request_is_rebuilt_from_its_splices(void **state) {
    static const struct {
        const char *splices, *request, *findings;
    } rows[] = {
        {"[[6,1,\"2\"],[7,0,\",\\\"b\\\":3\"]]", "{\"a\": 2,\"b\":3}", "[]"},
        {"[[99,1,\"2\"]]", "{\"a\": 1}", "[\"part_invalid\"]"},
        {"[[6,1,\"\"]]", "{\"a\": 1}", "[\"part_invalid\"]"}, /* No JSON after. */
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        AUTO_BUF struct buf out = {0};
        AUTO_BUF struct buf want = {0};
        struct err err = {0};
        struct journal_record r = intent(i + 1, SV("{\"a\": 1}"), sv_from(rows[i].splices));
        r.parts[1].name = SV("splices");
        WRITE(r);
        const struct trace_source from = {root, SESSION, NULL, NULL, NULL};
        assert_ok(trace_to_buf(&from, &out, NULL, &err), &err);
        assert_int_equal(
            buf_addf(&want, "{\"turn\": %zu, \"request\": %s, ", i + 1, rows[i].request), 0);
        size_t at = sv_find(buf_sv(&out), buf_sv(&want));
        assert_true(at != (size_t)-1);
        buf_reset(&want);
        assert_int_equal(buf_addf(&want, "\"findings\": %s", rows[i].findings), 0);
        assert_true(sv_find(sv_cut(buf_sv(&out), at), buf_sv(&want)) != (size_t)-1);
    }
}

static const struct CMUnitTest tests[] = {
    TEST(a_whole_call_becomes_one_line_with_every_number_as_it_was),
    TEST(calls_stand_in_the_order_of_their_numbers),
    TEST(the_last_of_a_call_s_intents_counts),
    TEST(the_request_is_rebuilt_from_its_splices),
    TEST(a_call_without_a_result_is_open),
    TEST(a_failed_call_answers_as_the_reference_writes_it),
    TEST(a_tail_completes_what_was_left_open),
    TEST(damaged_parts_and_heads_never_spoil_a_line),
    TEST(a_record_that_is_damaged_since_it_was_found_is_told_and_spoils_no_other),
    TEST(a_result_without_its_intent_is_kept_and_marked),
    TEST(the_policy_is_that_of_the_call_s_beginning),
    TEST(other_sessions_are_left_out),
    TEST(a_judge_says_role_and_findings_and_may_stop_it),
    TEST(a_small_trace_is_plain_and_reads_back),
    TEST(a_large_trace_is_compressed_in_its_place),
    TEST(no_calls_make_an_empty_trace),
};

RUN_TESTS(tests)
