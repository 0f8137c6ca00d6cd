/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "sandbox/hf/hf.h"
#include "tests/testing.h"

/* The job that is asked of the Hub. */

#define TOKEN "hf_testtoken"
#define NONCE "0123456789abcdef0123456789abcdef"
/* By another implementation of HMAC-SHA256 than ours. */
#define DERIVED "5cf28c16ad4abf833285d845029b04c56728b043bdfff245dda3e9f866f34864"

static json_t *spec_of(double lifetime_s, const struct sandbox_machine *m) {
    struct hf_hub *hub = NULL;
    struct err err = {0};
    struct sandbox_spec spec = {
        .owner = "o", .run = "r", .rollout = "t", .lifetime_s = lifetime_s, .machine = *m};
    /* With a namespace nobody is asked. */
    assert_ok(hf_hub_of(TOKEN, "acme", deadline_in_s(1), NULL, &hub, &err), &err);
    json_t *job = hf_spec(hub, &spec, "/root", NONCE);
    assert_non_null(job);
    return job;
}

static const char *text(const json_t *job, const char *object, const char *name) {
    return json_string_value(json_object_get(json_object_get(job, object), name));
}

static void the_hub_ends_a_job_two_minutes_after_its_budget_and_within_a_day(void **state) {
    (void)state;
    static const struct {
        double lifetime_s;
        json_int_t want;
    } rows[] = {{900, 1020}, {0.9, 120}, {86279, 86399}, {86281, 86400}, {1e9, 86400}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        AUTO_JSON json_t *job = spec_of(rows[i].lifetime_s, &(struct sandbox_machine){0});
        assert_int_equal(json_integer_value(json_object_get(job, "timeoutSeconds")), rows[i].want);
    }
}

static void the_server_s_token_is_derived_from_the_nonce_and_secret(void **state) {
    (void)state;
    AUTO_JSON json_t *job = spec_of(60, &(struct sandbox_machine){0});
    assert_string_equal(text(job, "labels", HF_LABEL_NONCE), NONCE);
    assert_string_equal(text(job, "secrets", "SBX_TOKEN"), DERIVED);
    assert_null(text(job, "secrets", "HF_TOKEN"));
    AUTO_FREE char *shown = json_dumps(job, JSON_COMPACT);
    assert_null(strstr(shown, TOKEN));
    json_object_del(job, "secrets");
    AUTO_FREE char *rest = json_dumps(job, JSON_COMPACT);
    assert_null(strstr(rest, DERIVED));
}

static void what_the_server_goes_by_is_not_the_user_s_to_set(void **state) {
    (void)state;
    AUTO_JSON json_t *env = json_pack("{s:s, s:s}", "SBX_PORT", "1", "MINE", "kept");
    AUTO_JSON json_t *secrets = json_pack("{s:s, s:s}", "SBX_TOKEN", "x", "PASSWORD", "kept");
    AUTO_JSON json_t *job = spec_of(60, &(struct sandbox_machine){.env = env, .secrets = secrets});
    assert_string_equal(text(job, "environment", "SBX_PORT"), "49983");
    assert_string_equal(text(job, "environment", "MINE"), "kept");
    assert_string_equal(text(job, "secrets", "SBX_TOKEN"), DERIVED);
    assert_string_equal(text(job, "secrets", "PASSWORD"), "kept");
    assert_string_equal(json_string_value(json_object_get(env, "SBX_PORT")), "1"); /* Untouched. */
}

static void labels_say_whose_it_is_in_words_that_the_hub_takes(void **state) {
    (void)state;
    AUTO_JSON json_t *job = spec_of(60, &(struct sandbox_machine){.user = "agent"});
    static const char *const wanted[][2] = {
        {"snaffle", "1"},        {"hf-sandbox", "1"},  {"hf-sandbox-mode", "dedicated"},
        {"snaffle-owner", "o"},  {"snaffle-run", "r"}, {"snaffle-rollout", "t"},
        {HF_LABEL_USER, "agent"}};
    for (size_t i = 0; i < ARRAY_LEN(wanted); i++) {
        assert_string_equal(text(job, "labels", wanted[i][0]), wanted[i][1]);
    }
    const char *name;
    json_t *value;
    json_object_foreach(json_object_get(job, "labels"), name, value) {
        size_t n = strspn(json_string_value(value), "abcdefghijklmnopqrstuvwxyz"
                                                    "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_");
        assert_int_equal(n, json_string_length(value));
        assert_in_range(n, 1, 100);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(the_hub_ends_a_job_two_minutes_after_its_budget_and_within_a_day),
    cmocka_unit_test(the_server_s_token_is_derived_from_the_nonce_and_secret),
    cmocka_unit_test(what_the_server_goes_by_is_not_the_user_s_to_set),
    cmocka_unit_test(labels_say_whose_it_is_in_words_that_the_hub_takes),
};

RUN_TESTS(tests)
