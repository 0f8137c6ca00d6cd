/* SPDX-License-Identifier: BSD-3-Clause */
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/json_valid.h"
#include "tests/gateway/engine.h"
#include "tests/hostile/hostile.h"

/* Whatever an agent, a verifier or an engine says: what is written down is valid and bounded, and
 * so is the memory that it takes. */

#define RESULT_MAX (4u << 20) /* 32 files of 8,000 characters, escaped, and the outputs. */
/* The log's 16 MB, a copy or two of it, and what a rollout needs anyway. */
#define MEMORY_KB 150000

static long memory_kb(void) {
    struct rusage usage;
    assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
    return usage.ru_maxrss;
}

/* One JSON value in valid UTF-8. */
static void check_json(struct sv text, const char *name) {
    if (!json_valid(text)) {
        fail_msg("%s is not valid: %.*s", name, (int)(text.n < 200 ? text.n : 200), text.p);
    }
}

static void check_result(const struct rollout_result *r) {
    AUTO_FREE char *text = ground_read(r, "result.json");
    check_json(sv_from(text), "result.json");
}

/* Each line is one; gives their number. */
static size_t check_lines(const struct rollout_result *r, const char *name) {
    size_t n = 0;
    AUTO_FREE char *text = ground_read(r, name);
    for (struct sv rest = sv_from(text); rest.n > 0; n++) {
        const char *end = memchr(rest.p, '\n', rest.n);
        size_t length = end ? (size_t)(end - rest.p) : rest.n;
        check_json((struct sv){rest.p, length}, name);
        rest = sv_cut(rest, length + (end ? 1 : 0));
    }
    return n;
}

static void bounded(const struct rollout_result *r, const char *name, size_t most) {
    struct stat st;
    AUTO_FREE char *path = file_join(r->dir, name);
    assert_int_equal(stat(path, &st), 0);
    if ((size_t)st.st_size > most) {
        fail_msg("%s has %lld bytes", name, (long long)st.st_size);
    }
}

static void a_flood_of_output_is_cut_and_told_validly(void **state) {
    NEED_SANDBOX();
    struct rollout_result r = {0};
    AUTO_FREE char *vars = mem_printf("export MEGABYTES=%d", hostile_is_long() ? 1024 : 64);
    long before = memory_kb();
    hostile_roll(*state, "output_flood.py", vars,
                 "{'verify': ['true'], 'limits': {'agent_s': 600, 'disk_mb': 4000}}", NULL, &r);
    hostile_assert_reward(&r, "output_flood.py", 1);
    bounded(&r, "agent.log", ROLLOUT_LOG_MAX + 128);
    bounded(&r, "result.json", RESULT_MAX);
    check_result(&r);
    const char *tail = json_string_value(json_object_get(r.json, "agent_log_tail"));
    assert_non_null(strstr(tail + json_string_length(json_object_get(r.json, "agent_log_tail")) - 7,
                           "THE-END"));
    assert_true(memory_kb() - before < MEMORY_KB);
    rollout_result_deinit(&r);
}

static void floods_of_setup_and_verify_are_cut_too(void **state) {
    NEED_SANDBOX();
    struct rollout_result r = {0};
    long before = memory_kb();
    AUTO_FREE char *task = mem_printf(
        "{'files': {'flood.txt': '\\ud83d\\ude00 \\u2028 \\u0001'},"
        " 'setup': ['head -c %d /dev/urandom; head -c 5000000 /dev/zero >&2'],"
        " 'verify': ['head -c %d /dev/urandom', 'cat flood.txt; printf \\\"\\\\\\\\355\\\\\\\\240"
        "\\\\\\\\200\\\"']}",
        hostile_is_long() ? 1 << 30 : 1 << 26, hostile_is_long() ? 1 << 30 : 1 << 26);
    hostile_roll(*state, "output_files.py", NULL, task, NULL, &r);
    hostile_assert_reward(&r, "output_files.py", 1);
    bounded(&r, "result.json", RESULT_MAX);
    assert_true(memory_kb() - before < MEMORY_KB);
    rollout_result_deinit(&r);
}

static void names_and_texts_of_files_come_out_validly_and_few(void **state) {
    NEED_SANDBOX();
    struct rollout_result r = {0};
    hostile_roll(*state, "output_files.py", NULL, "{'verify': ['true']}", NULL, &r);
    hostile_assert_reward(&r, "output_files.py", 1);
    const json_t *files = json_object_get(r.json, "files");
    const json_t *extra = json_object_get(r.json, "files_extra");
    assert_true(json_object_size(files) + json_array_size(extra) <= 32);
    assert_true(json_object_size(files) > 0);
    check_result(&r);
    rollout_result_deinit(&r);
}

/* Everything that JSON allows a text to hold, and something that it does not. */
#define ODD                                                                                        \
    "\\u0000 \\ud800 \\udc00 \\ud83d\\ude00 \\u2028 \xe2\x80\xa8 \xf0\x9f\x98\x80 \\u001b[2J "
#define WRONG "\xff\xfe \xed\xa0\x80 "

static void say_odd_things(struct engine_request *r, void *arg) {
    unsigned *n = arg;
    bool wrong = ++*n > 2; /* The first ones stay within what JSON allows. */
    const char *text = wrong ? ODD WRONG : ODD;
    AUTO_FREE char *body = NULL;
    if (sv_find(r->body, SV("\"stream\":true")) != (size_t)-1 ||
        sv_find(r->body, SV("\"stream\": true")) != (size_t)-1) {
        body = mem_printf("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"%s\"}}]}\n\n"
                          "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":"
                          "\"stop\"}]}\n\ndata: [DONE]\n\n",
                          text);
        engine_sse(r, body);
        return;
    }
    body = mem_printf("{\"choices\":[{\"index\":0,\"finish_reason\":\"stop\",\"message\":"
                      "{\"role\":\"assistant\",\"content\":\"%s\"}}]}",
                      text);
    engine_json(r, 200, body);
}

static void what_agent_and_engine_say_to_each_other_is_recorded_validly(void **state) {
    NEED_SANDBOX();
    struct ground *g = *state;
    struct rollout_result r = {0};
    unsigned n = 0;
    struct engine *engine = engine_start(say_odd_things, &n);
    g->config.agent.base_url = engine_url(engine);
    hostile_roll(g, "output_model.py", NULL, "{'verify': ['true']}", NULL, &r);
    hostile_assert_reward(&r, "output_model.py", 1);
    assert_int_equal(check_lines(&r, "trace.jsonl"), 6);
    check_result(&r);
    assert_int_equal(json_integer_value(json_object_get(r.json, "calls")), 6);
    rollout_result_deinit(&r);
    ground_drop_factory(g);
    engine_stop(engine);
}

static const struct CMUnitTest tests[] = {
    HOSTILE_CASE(a_flood_of_output_is_cut_and_told_validly),
    HOSTILE_CASE(floods_of_setup_and_verify_are_cut_too),
    HOSTILE_CASE(names_and_texts_of_files_come_out_validly_and_few),
    HOSTILE_CASE(what_agent_and_engine_say_to_each_other_is_recorded_validly),
};

HOSTILE_MAIN(tests)
