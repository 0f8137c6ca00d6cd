/* SPDX-License-Identifier: BSD-3-Clause */
#include "sandbox/hf/rate.h"

#include "base/mem.h"
#include "tests/testing.h"

/* Takes a call if it may be made at once; else 0, or how many seconds it is told to wait. */
static int wait_of(struct hf_rate *r) {
    struct err err = {0};
    int rc = hf_rate_take(r, deadline_in_ms(0), NULL, &err);
    if (rc == 0) {
        return 0;
    }
    assert_int_equal(rc, ERR_QUOTA);
    const char *at = strstr(err.msg, "another ");
    assert_non_null(at);
    return (int)strtol(at + strlen("another "), NULL, 10);
}

static void a_field_of_a_head_is_found_whatever_its_case(void **state) {
    (void)state;
    struct sv head = SV("HTTP/1.1 200 OK\r\nRateLimit-Policy: x\r\nratelimit:  \"api\";r=1 \r\n"
                        "Empty:\r\nLast: end");
    struct sv limit = hf_head_field(head, SV("RateLimit"));
    assert_true(sv_eq(limit, SV("\"api\";r=1")));
    assert_true(sv_eq(hf_head_field(head, SV("Last")), SV("end")));
    assert_int_equal(hf_head_field(head, SV("Empty")).n, 0);
    assert_int_equal(hf_head_field(head, SV("Missing")).n, 0);
}

static void the_bucket_is_what_the_answers_tell(void **state) {
    (void)state;
    struct hf_rate r = HF_RATE_INIT;
    assert_int_equal(wait_of(&r), 0); /* Nothing is known: it may. */
    hf_rate_learn(&r, 200, SV("HTTP/1.1 200 OK\r\nRateLimit: \"api\";r=2;t=55\r\n"));
    assert_int_equal(wait_of(&r), 0);
    assert_int_equal(wait_of(&r), 0);
    int wait = wait_of(&r);
    assert_true(wait >= 55 && wait <= 57);
    hf_rate_learn(&r, 200, SV("HTTP/1.1 200 OK\r\nRateLimit: \"api\";r=5;t=10\r\n"));
    assert_int_equal(wait_of(&r), 0);
}

static void retry_after_counts_only_in_a_refusal(void **state) {
    (void)state;
    static const struct {
        int status;
        const char *head;
        int least, most;
    } rows[] = {
        {200, "Retry-After: 9\r\n", 0, 0},
        {429, "Retry-After: 9\r\n", 9, 11},
        {429, "Retry-After: 0\r\n", 0, 1},
        {429, "", 30, 32},                                               /* Blind. */
        {429, "Retry-After: Fri, 31 Dec 1999 23:59:59 GMT\r\n", 30, 32}, /* A date: as blind. */
        {429, "Retry-After: -5\r\n", 30, 32},
        {429, "Retry-After: 99999999\r\n", 30, 32},
        {429, "RateLimit: \"api\";r=0;t=7\r\nRetry-After: 90\r\n", 7, 9},
        {429, "RateLimit: \"api\";r=;t=7\r\nRetry-After: 4\r\n", 4, 6},
        {429, "RateLimit: \"api\";r=999999999999999999999;t=7\r\nRetry-After: 4\r\n", 4, 6},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct hf_rate r = HF_RATE_INIT;
        AUTO_FREE char *head = mem_printf("HTTP/1.1 429 x\r\n%s\r\n", rows[i].head);
        hf_rate_learn(&r, rows[i].status, sv_from(head));
        int wait = wait_of(&r);
        if (wait < rows[i].least || wait > rows[i].most) {
            fail_msg("'%s' with %d makes %d s", rows[i].head, rows[i].status, wait);
        }
    }
}

static void a_wait_within_the_deadline_is_waited(void **state) {
    (void)state;
    struct hf_rate r = HF_RATE_INIT;
    struct err err = {0};
    hf_rate_learn(&r, 429, SV("HTTP/1.1 429 x\r\nRetry-After: 1\r\n"));
    int64_t began = clock_ms();
    assert_ok(hf_rate_take(&r, deadline_in_s(30), NULL, &err), &err);
    assert_true(clock_ms() - began >= 900);
}

/* The head of an answer is the Hub's: cut anywhere, it makes no wait that was not told. */
static void a_head_cut_at_every_byte_is_read_within_its_bounds(void **state) {
    (void)state;
    static const char whole[] =
        "HTTP/1.1 429 Too Many\r\nRateLimit: \"api\";r=0;t=55\r\nRetry-After: 30\r\n\r\n";
    for (size_t n = 0; n < sizeof whole; n++) {
        struct hf_rate r = HF_RATE_INIT;
        AUTO_FREE char *cut = mem_strndup(whole, n); /* Sanitizers see a read past its end. */
        hf_rate_learn(&r, 429, (struct sv){cut, n});
        int wait = wait_of(&r);
        assert_true(wait >= 0 && wait <= 57);
    }
}

/* Less of a head is never more calls, and no longer wait. */
static void a_head_cut_anywhere_grants_no_more(void **state) {
    (void)state;
    struct sv head = SV("HTTP/1.1 429 Slow\r\nRateLimit: \"api\";r=20;t=55\r\n");
    for (size_t n = 0; n <= head.n; n++) {
        struct hf_rate r = HF_RATE_INIT;
        hf_rate_learn(&r, 200, (struct sv){head.p, n});
        assert_true(r.left == 0 || r.left == 20);
        assert_true(!r.known || deadline_left_ms(r.renewed) <= 56000);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_field_of_a_head_is_found_whatever_its_case),
    cmocka_unit_test(the_bucket_is_what_the_answers_tell),
    cmocka_unit_test(retry_after_counts_only_in_a_refusal),
    cmocka_unit_test(a_wait_within_the_deadline_is_waited),
    cmocka_unit_test(a_head_cut_at_every_byte_is_read_within_its_bounds),
    cmocka_unit_test(a_head_cut_anywhere_grants_no_more),
};

RUN_TESTS(tests)
