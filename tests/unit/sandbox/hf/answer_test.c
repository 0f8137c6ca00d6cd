/* SPDX-License-Identifier: BSD-3-Clause */
#include "sandbox/hf/answer.h"

#include <limits.h>

#include "base/json.h"
#include "base/mem.h"
#include "tests/testing.h"

static void what_the_hub_says_is_wrong_is_one_line_whatever_its_form(void **state) {
    (void)state;
    static const struct {
        const char *head, *body, *want;
    } rows[] = {
        {"", "{\"error\":\"no credit\"}", "no credit"},
        {"", "{\"error\":[\"one\",\"two\"]}", "one"},
        {"", "{\"error\":\"code\",\"error_description\":\"x\"}", "code"},
        {"", "{\"errors\":[{\"message\":\"no such flavor\"}]}", "no such flavor"},
        {"X-Error-Message: by header\r\n", "{\"error\":\"x\"}", "by header"},
        {"", "plain\nwords\t.", "plain words ."},
        {"", "{\"error\":\"caf\\u00e9\\r\\nX: y\"}", "caf\xc3\xa9  X: y"},
        {"", "<html>bad gateway</html>", ""},
        {"", "{\"errors\":{}}", ""},
        {"", "{\"error\":7}", ""},
        {"", "", ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        AUTO_BUF struct buf b = {0};
        assert_int_equal(hf_answer_fault(sv_from(rows[i].head), sv_from(rows[i].body), &b), 0);
        assert_string_equal(buf_cstr(&b), rows[i].want);
    }
}

static void a_line_is_cut_between_characters(void **state) {
    (void)state;
    static const size_t want[] = {0, 1, 2, 2, 4, 4, 4, 7, 7};
    struct sv said = SV("ab\xc3\xa9\xe2\x82\xac");
    for (size_t n = 0; n < ARRAY_LEN(want); n++) {
        AUTO_BUF struct buf b = {0};
        assert_int_equal(hf_answer_line(said, n, &b), 0);
        assert_int_equal(b.len, want[n]);
    }
}

static void the_next_page_is_followed_only_on_the_same_hub(void **state) {
    (void)state;
    static const struct {
        const char *head, *want;
    } rows[] = {
        {"Link: <https://hub/api/x?c=1>; rel=\"next\"\r\n", "https://hub/api/x?c=1"},
        {"Link: <https://hub/api/x>; rel=\"prev\"\r\n", NULL},
        {"Link: <https://hub.evil/x>; rel=\"next\"\r\n", NULL},
        {"Link: <https://hub@evil/x>; rel=\"next\"\r\n", NULL},
        {"Link: https://hub/x>; rel=\"next\"\r\n", NULL},
        {"Link: <https://hub/x; rel=\"next\"\r\n", NULL},
        {"Link:\r\n", NULL},
        {"", NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        AUTO_FREE char *next = hf_answer_next_page(sv_from(rows[i].head), "https://hub");
        assert_string_equal(next ? next : "none", rows[i].want ? rows[i].want : "none");
    }
}

static void a_list_gives_the_stage_of_each_job_that_has_one(void **state) {
    (void)state;
    struct err err = {0};
    AUTO_JSON json_t *all = json_array();
    struct sv first = SV("[{\"id\":\"a\",\"status\":{\"stage\":\"RUNNING\"}},{\"id\":7},[]]");
    struct sv second = SV("[{\"id\":\"b\",\"status\":{\"stage\":null}},"
                          "{\"id\":\"c\",\"status\":{\"stage\":\"ERROR\"}}]");
    assert_ok(hf_answer_jobs(first, all, &err), &err);
    assert_ok(hf_answer_jobs(second, all, &err), &err);
    AUTO_JSON json_t *stages = hf_answer_stages(all);
    AUTO_JSON json_t *want = json_pack("{s:s, s:s}", "a", "RUNNING", "c", "ERROR");
    assert_true(json_equal(stages, want));
    assert_err(hf_answer_jobs(SV("{}"), all, &err), ERR_PROTOCOL, &err, "no array");
}

static void a_log_is_its_lines_data(void **state) {
    (void)state;
    AUTO_BUF struct buf b = {0};
    struct sv log = SV("data: {\"data\":\"one\\n\",\"timestamp\":\"t\"}\n\n: keep-alive\n"
                       "data: {\"data\":7}\ndata: [\ndata: {\"data\":\"last\"}");
    assert_int_equal(hf_answer_log(log, &b), 0);
    assert_string_equal(buf_cstr(&b), " | one  | last");
}

static void numbers_keep_their_range(void **state) {
    (void)state;
    static const struct {
        const char *body;
        int protocol; /* Negative: none is told. */
        long long size;
    } rows[] = {
        {"{\"status\":\"ok\"}", 1, -1},
        {"{\"protocol\":3,\"type\":\"file\",\"size\":5}", 3, 5},
        {"{\"protocol\":-3,\"size\":-5}", 1, -1},
        {"{\"protocol\":99999999999,\"size\":9223372036854775807}", 99, LLONG_MAX},
        {"{\"protocol\":\"3\",\"type\":\"dir\",\"size\":5}", 1, -1},
        {"[]", -1, -1},
        {"<html>", -1, -1},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct err err = {0};
        int protocol = -1;
        uint64_t size = UINT64_MAX;
        int r = hf_answer_protocol(sv_from(rows[i].body), &protocol, &err);
        assert_int_equal(r, rows[i].protocol < 0 ? ERR_PROTOCOL : 0);
        assert_int_equal(protocol, rows[i].protocol);
        r = hf_answer_size(sv_from(rows[i].body), "f", &size, &err);
        assert_int_equal(r < 0, rows[i].size < 0);
        assert_int_equal(size, (uint64_t)rows[i].size);
    }
}

/* A cut answer is told as a fault, and never read as another value. */
static void an_answer_cut_anywhere_is_an_error(void **state) {
    (void)state;
    struct sv health = SV("{\"protocol\":3,\"status\":\"ok\"}");
    struct sv size = SV("{\"type\":\"file\",\"size\":123}");
    struct sv list = SV("[{\"id\":\"a\",\"status\":{\"stage\":\"RUNNING\"}}]");
    struct sv fault = SV("{\"error\":\"no such file: /x\"}");
    struct sv link = SV("Link: <https://hub/api/x?c=1>; rel=\"next\"");
    AUTO_JSON json_t *all = json_array();
    struct err err = {0};
    int protocol = 0;
    uint64_t bytes = 0;
    for (size_t n = 0; n < health.n; n++) {
        assert_true(hf_answer_protocol((struct sv){health.p, n}, &protocol, &err) < 0);
    }
    for (size_t n = 0; n < size.n; n++) {
        assert_true(hf_answer_size((struct sv){size.p, n}, "f", &bytes, &err) < 0);
    }
    for (size_t n = 0; n < list.n; n++) {
        assert_true(hf_answer_jobs((struct sv){list.p, n}, all, &err) < 0);
    }
    for (size_t n = 0; n < fault.n; n++) {
        AUTO_BUF struct buf b = {0};
        assert_int_equal(hf_answer_server_fault((struct sv){fault.p, n}, &b), 0);
        assert_int_equal(b.len, 0);
    }
    for (size_t n = 0; n < link.n; n++) {
        AUTO_FREE char *next = hf_answer_next_page((struct sv){link.p, n}, "https://hub");
        assert_null(next);
    }
    assert_int_equal(json_array_size(all), 0);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(what_the_hub_says_is_wrong_is_one_line_whatever_its_form),
    cmocka_unit_test(a_line_is_cut_between_characters),
    cmocka_unit_test(the_next_page_is_followed_only_on_the_same_hub),
    cmocka_unit_test(a_list_gives_the_stage_of_each_job_that_has_one),
    cmocka_unit_test(a_log_is_its_lines_data),
    cmocka_unit_test(numbers_keep_their_range),
    cmocka_unit_test(an_answer_cut_anywhere_is_an_error),
};

RUN_TESTS(tests)
