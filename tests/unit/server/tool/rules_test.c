/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/tool/rules.h"

#include "tests/testing.h"

static bool allows(const char *rule, const char *text) {
    const char *const allow[] = {"network=full", rule, NULL};
    struct url u = {0};
    struct err err = {0};
    assert_ok(url_parse(sv_from(text), &u, &err), &err);
    bool yes = rules_allow_upstream(allow, &u);
    url_deinit(&u);
    return yes;
}

static void only_the_four_kinds_are_rules(void **state) {
    (void)state;
    struct err err = {0};
    const char *const good[] = {"upstream=http://gpu-*:8000/v1", "network=full", "backend=hf",
                                "image=ghcr.io/*", NULL};
    assert_ok(rules_check(good, &err), &err);
    assert_ok(rules_check(NULL, &err), &err);
    const char *const bad[] = {"upstream", "upstream=", "host=x", "=", "", "network=model"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const char *const one[] = {bad[i], NULL};
        assert_err(rules_check(one, &err), ERR_INPUT, &err, "--allow");
    }
}

static void a_name_is_allowed_by_its_own_kind_only(void **state) {
    (void)state;
    const char *const allow[] = {"backend=hf", "image=ghcr.io/*", NULL};
    assert_true(rules_allow(allow, "backend", "hf"));
    assert_false(rules_allow(allow, "backend", "e2b"));
    assert_false(rules_allow(allow, "network", "full"));
    assert_true(rules_allow(allow, "image", "ghcr.io/a/b:1"));
    assert_false(rules_allow(allow, "image", "docker.io/ghcr.io/a"));
    assert_false(rules_allow(NULL, "backend", "hf"));
}

static void an_upstream_s_missing_parts_match_anything(void **state) {
    (void)state;
    assert_true(allows("upstream=gpu-1", "http://gpu-1:8000/v1"));
    assert_true(allows("upstream=gpu-1", "https://GPU-1/"));
    assert_true(allows("upstream=*.example.com", "https://a.b.example.com/v1"));
    assert_true(allows("upstream=gpu-?:80*", "http://gpu-7:8001/v1"));
    assert_true(allows("upstream=http://gpu:8000/v1", "http://gpu:8000/v1/"));
    assert_true(allows("upstream=http://gpu/v1", "http://gpu/v1"));
    assert_true(allows("upstream=[::1]:8000", "http://[::1]:8000/v1"));
    assert_true(allows("upstream=[::1]", "http://[::1]/v1"));
    assert_true(allows("upstream=*", "http://anything:1/x"));
}

static void an_upstream_s_given_parts_have_to_match(void **state) {
    (void)state;
    assert_false(allows("upstream=gpu-1", "http://gpu-10/v1"));
    assert_false(allows("upstream=gpu-1:8000", "http://gpu-1:8001/v1"));
    assert_false(allows("upstream=https://gpu-1", "http://gpu-1/v1"));
    assert_false(allows("upstream=gpu-1/v1", "http://gpu-1/admin"));
    assert_false(allows("upstream=[::1]:8000", "http://[::2]:8000/v1"));
    assert_false(allows("upstream=[::1", "http://[::1]/v1"));
    assert_false(allows("upstream=:8000", "http://gpu:8000/v1"));
}

static void a_host_s_glob_does_not_reach_into_the_path(void **state) {
    (void)state;
    assert_false(allows("upstream=https://*.example.com/*", "https://evil.com/.example.com/x"));
    assert_false(allows("upstream=*.example.com", "https://evil.com/a.example.com"));
    assert_false(allows("upstream=gpu/v1*", "http://gpu/v1/../admin"));
    assert_false(allows("upstream=gpu/v1*", "http://gpu/v1/%2e%2e/admin"));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(only_the_four_kinds_are_rules),
    cmocka_unit_test(a_name_is_allowed_by_its_own_kind_only),
    cmocka_unit_test(an_upstream_s_missing_parts_match_anything),
    cmocka_unit_test(an_upstream_s_given_parts_have_to_match),
    cmocka_unit_test(a_host_s_glob_does_not_reach_into_the_path),
};

RUN_TESTS(tests)
