/* SPDX-License-Identifier: BSD-3-Clause */
#include "journal/trace_follow.h"

#include "base/json.h"
#include "tests/unit/journal/fixture.h"

#define SESSION "r1.1"

struct ground {
    struct journal *journal;
    struct trace_follow *follow;
    char *path;
};

static void set_up(struct ground *g) {
    struct err err = {0};
    const struct trace_source from = {.journal_dir = root, .session = SESSION};
    g->path = mem_printf("%s/trace.jsonl", root);
    assert_non_null(g->path);
    g->journal = open_journal(&(struct journal_options){.dir = root});
    assert_ok(trace_follow_open(&from, g->path, &g->follow, &err), &err);
}

static void tear_down(struct ground *g) {
    trace_follow_close(g->follow);
    journal_close(g->journal);
    free(g->path);
}

static void put(struct ground *g, enum journal_type type, uint64_t call, const char *head) {
    append(g->journal,
           (struct journal_record){
               .type = type, .session = SV(SESSION), .call = call, .head = sv_from(head)});
}

static void step(struct ground *g) {
    struct err err = {0};
    assert_ok(trace_follow_step(g->follow, &err), &err);
}

/* The turns in the file, as a text: "1 3 ". */
static void assert_turns(const struct ground *g, const char *want) {
    AUTO_BUF struct buf text = {0};
    AUTO_BUF struct buf turns = {0};
    struct err err = {0};
    assert_ok(file_read(g->path, 1 << 20, &text, &err), &err);
    struct sv rest = buf_sv(&text);
    while (rest.n > 0) {
        AUTO_JSON json_t *line = NULL;
        size_t end = sv_find(rest, SV("\n"));
        assert_true(end != (size_t)-1);
        assert_ok(json_parse((struct sv){rest.p, end}, "line", &line, &err), &err);
        assert_int_equal(
            buf_addf(&turns, "%lld ", (long long)json_integer_value(json_object_get(line, "turn"))),
            0);
        rest = sv_cut(rest, end + 1);
    }
    assert_string_equal(buf_cstr(&turns), want);
}

static void each_call_gets_its_line_once_when_it_ends(void **state) {
    struct ground g;
    (void)state;
    set_up(&g);
    put(&g, JOURNAL_SESSION_OPEN, 0, "{\"policy_version\":1}");
    step(&g);
    assert_turns(&g, "");
    put(&g, JOURNAL_INTENT, 1, "{}");
    put(&g, JOURNAL_INTENT, 2, "{}");
    put(&g, JOURNAL_RESULT, 2, "{\"status\":200,\"end\":\"complete\"}");
    step(&g);
    step(&g);
    assert_turns(&g, "2 ");
    put(&g, JOURNAL_RESULT, 1, "{\"status\":200,\"end\":\"complete\"}");
    step(&g);
    assert_turns(&g, "2 1 ");
    tear_down(&g);
}

static void a_result_with_an_open_tail_waits_for_it(void **state) {
    struct ground g;
    (void)state;
    set_up(&g);
    put(&g, JOURNAL_INTENT, 1, "{}");
    put(&g, JOURNAL_RESULT, 1, "{\"status\":200,\"end\":\"complete\",\"tail_open\":true}");
    step(&g);
    assert_turns(&g, "");
    put(&g, JOURNAL_TAIL, 1, "{\"status\":200,\"end\":\"complete\"}");
    step(&g);
    assert_turns(&g, "1 ");
    tear_down(&g);
}

static void at_the_end_the_open_calls_get_a_line_too(void **state) {
    struct ground g;
    struct err err = {0};
    (void)state;
    set_up(&g);
    put(&g, JOURNAL_INTENT, 1, "{}");
    put(&g, JOURNAL_INTENT, 2, "{}");
    put(&g, JOURNAL_RESULT, 2, "{\"status\":200,\"end\":\"complete\"}");
    assert_ok(trace_follow_end(g.follow, &err), &err);
    assert_turns(&g, "2 1 ");
    tear_down(&g);
}

static void records_of_other_sessions_are_passed_over_and_the_file_is_appended_to(void **state) {
    struct ground g;
    (void)state;
    set_up(&g);
    struct journal_record other = record(1, SV("{}"));
    other.session = SV("other.1");
    append(g.journal, other);
    put(&g, JOURNAL_INTENT, 7, "{}");
    put(&g, JOURNAL_RESULT, 7, "{\"status\":200}");
    step(&g);
    assert_turns(&g, "7 ");
    trace_follow_close(g.follow);
    struct err err = {0};
    const struct trace_source from = {.journal_dir = root, .session = "other.1"};
    assert_ok(trace_follow_open(&from, g.path, &g.follow, &err), &err);
    step(&g);
    assert_turns(&g, "7 1 ");
    tear_down(&g);
}

static void a_file_that_cannot_be_made_is_said_at_once(void **state) {
    const struct trace_source from = {.journal_dir = root, .session = SESSION};
    struct trace_follow *follow = NULL;
    struct err err = {0};
    (void)state;
    assert_int_equal(trace_follow_open(&from, "/no/such/folder/t", &follow, &err), ERR_INPUT);
    assert_non_null(strstr(err.msg, "/no/such/folder/t"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(each_call_gets_its_line_once_when_it_ends),
        TEST(a_result_with_an_open_tail_waits_for_it),
        TEST(at_the_end_the_open_calls_get_a_line_too),
        TEST(records_of_other_sessions_are_passed_over_and_the_file_is_appended_to),
        TEST(a_file_that_cannot_be_made_is_said_at_once),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
