/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/tool/answer.h"

#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "tests/testing.h"

#define IDS 1000

/* A turn with a thousand of everything. */
static json_t *turn(int number, const char *role) {
    json_t *tokens = json_array();
    json_t *ids = json_array();
    json_t *logps = json_array();
    for (int i = 0; i < IDS; i++) {
        json_array_append_new(tokens, json_string("\"t\""));
        json_array_append_new(ids, json_integer(10000 + i));
        json_array_append_new(logps, json_real(-0.125));
    }
    return json_pack("{s:i, s:s, s:o, s:o, s:o}", "turn", number, "role", role, "completion_tokens",
                     tokens, "completion_token_ids", ids, "per_token_logps", logps);
}

static json_t *result(void) {
    return json_pack("{s:s, s:s, s:[], s:[o, o, o, o]}", "run", "run-1", "rollout", "r-1",
                     "findings", "proxy_turns", turn(1, "agent"), turn(2, "auxiliary"),
                     turn(3, "discarded"), turn(4, "agent"));
}

static size_t ids_of(const json_t *r, size_t i) {
    return json_array_size(json_object_get(json_array_get(json_object_get(r, "proxy_turns"), i),
                                           "completion_token_ids"));
}

static void make(json_t *r, const struct answer_options *o, struct answer *a) {
    struct err err = {0};
    assert_ok(answer_make(r, o, a, &err), &err);
    AUTO_JSON json_t *parsed = NULL;
    assert_ok(json_parse(buf_sv(&a->text), "text", &parsed, &err), &err);
    assert_true(json_equal(parsed, r));
    AUTO_JSON json_t *quoted = NULL;
    assert_ok(json_parse(buf_sv(&a->quoted), "quoted", &quoted, &err), &err);
    assert_string_equal(json_string_value(quoted), buf_cstr(&a->text));
}

static void assert_fits(const struct answer *a, size_t most) {
    assert_true(2 * a->quoted.len + 65536 <= most);
}

static void a_small_answer_stays_whole(void **state) {
    (void)state;
    AUTO_JSON json_t *r = result();
    AUTO_JSON json_t *before = json_deep_copy(r);
    struct answer a = {0};
    make(r, &(struct answer_options){0}, &a);
    assert_true(json_equal(r, before));
    answer_deinit(&a);
}

static void what_is_not_the_agent_s_goes_first(void **state) {
    (void)state;
    AUTO_JSON json_t *r = result();
    struct answer a = {0};
    make(r, &(struct answer_options){0}, &a);
    size_t most = 65536 + 2 * a.quoted.len; /* Less the finding's room: a turn has to go. */
    make(r, &(struct answer_options){.bytes_max = most - 2}, &a);
    assert_fits(&a, most);
    assert_int_equal(ids_of(r, 0), IDS);
    assert_int_equal(ids_of(r, 1), 0);
    assert_int_equal(ids_of(r, 2), IDS);
    assert_int_equal(ids_of(r, 3), IDS);
    assert_non_null(strstr(buf_cstr(&a.text), "\"answer_cut\""));
    assert_non_null(strstr(buf_cstr(&a.text), "token arrays of 1 turns"));
    assert_non_null(strstr(buf_cstr(&a.text), "stored as run-1/r-1"));
    answer_deinit(&a);
}

static void then_the_oldest_and_the_newest_last(void **state) {
    (void)state;
    AUTO_JSON json_t *r = result();
    struct answer a = {0};
    make(r, &(struct answer_options){0}, &a);
    size_t most = 65536 + a.quoted.len; /* Half of it: two are not enough, three are. */
    make(r, &(struct answer_options){.bytes_max = most}, &a);
    assert_fits(&a, most);
    assert_int_equal(ids_of(r, 0), 0);
    assert_int_equal(ids_of(r, 1), 0);
    assert_int_equal(ids_of(r, 2), 0);
    assert_int_equal(ids_of(r, 3), IDS);
    answer_deinit(&a);
}

static void at_last_whole_turns_go(void **state) {
    (void)state;
    AUTO_JSON json_t *r = result();
    json_t *turns = json_object_get(r, "proxy_turns");
    for (int i = 0; i < 200; i++) {
        json_array_append_new(turns, json_pack("{s:i, s:s, s:s}", "turn", 5 + i, "role", "agent",
                                               "upstream_error", "a text of some length"));
    }
    struct answer a = {0};
    size_t most = 65536 + 2 * 8000;
    make(r, &(struct answer_options){.bytes_max = most}, &a);
    assert_fits(&a, most);
    size_t left = json_array_size(turns);
    assert_true(left > 0 && left < 200);
    const json_t *last = json_array_get(turns, left - 1);
    assert_int_equal(json_integer_value(json_object_get(last, "turn")), 204);
    answer_deinit(&a);
}

static void prompts_come_from_the_stored_trace(void **state) {
    (void)state;
    char dir[] = "/tmp/snaffle-answer-XXXXXX";
    assert_non_null(mkdtemp(dir));
    struct err err = {0};
    AUTO_FREE char *path = file_join(dir, "trace.jsonl");
    assert_ok(file_write(path,
                         SV("{\"turn\":1,\"prompt_token_ids\":[1,2,3]}\n{\"turn\":2}\n"
                            "{\"turn\":3,\"prompt_token_ids\":null}\n{\"turn\":4,"
                            "\"prompt_token_ids\":[9]}\n"),
                         0600, &err),
              &err);
    AUTO_JSON json_t *r = result();
    struct answer a = {0};
    make(r, &(struct answer_options){.dir = dir, .include_prompt_ids = true}, &a);
    const json_t *turns = json_object_get(r, "proxy_turns");
    static const size_t want[] = {3, 0, 0, 1};
    for (size_t i = 0; i < 4; i++) {
        const json_t *ids = json_object_get(json_array_get(turns, i), "prompt_token_ids");
        assert_true(json_is_array(ids));
        assert_int_equal(json_array_size(ids), want[i]);
    }
    assert_ok(file_remove_tree(dir, &err), &err);
    AUTO_JSON json_t *gone = result();
    make(gone, &(struct answer_options){.dir = dir, .include_prompt_ids = true}, &a);
    assert_non_null(strstr(buf_cstr(&a.text), "prompt_ids_unreadable"));
    answer_deinit(&a);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_small_answer_stays_whole),
    cmocka_unit_test(what_is_not_the_agent_s_goes_first),
    cmocka_unit_test(then_the_oldest_and_the_newest_last),
    cmocka_unit_test(at_last_whole_turns_go),
    cmocka_unit_test(prompts_come_from_the_stored_trace),
};

RUN_TESTS(tests)
