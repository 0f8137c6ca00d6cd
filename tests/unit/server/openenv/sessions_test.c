/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/openenv/sessions.h"

#include "tests/unit/net/net_testing.h"

struct room {
    struct loop *l;
    struct sessions *s;
};

static struct room open_room(unsigned max) {
    struct room r = {.l = test_loop()};
    struct err err = {0};
    assert_ok(sessions_new(r.l, max, &r.s, &err), &err);
    return r;
}

static void close_room(struct room *r) {
    sessions_free(r->s);
    loop_free(r->l);
}

static struct session *open_one(struct room *r, bool over_http) {
    struct session *one = NULL;
    struct err err = {0};
    assert_ok(sessions_open(r->s, over_http, &one, &err), &err);
    return one;
}

static void there_are_as_many_sessions_as_places(void **state) {
    (void)state;
    struct room r = open_room(2);
    struct session *third = NULL;
    struct err err = {0};
    struct session *one = open_one(&r, false);
    struct session *two = open_one(&r, true);
    assert_err(sessions_open(r.s, false, &third, &err), ERR_QUOTA, &err,
               "Server at capacity: 2/2 sessions active");
    assert_string_not_equal(one->id, two->id);
    assert_ptr_equal(sessions_find(r.s, sv_from(two->id)), two);
    assert_null(sessions_find(r.s, SV("nobody")));
    sessions_close(r.s, one);
    assert_int_equal(sessions_active(r.s), 1);
    open_one(&r, false);
    close_room(&r);
}

static void a_closed_session_lives_as_long_as_it_is_used(void **state) {
    (void)state;
    struct room r = open_room(0);
    struct session *one = open_one(&r, true);
    session_use(one);
    sessions_close(r.s, one);
    assert_int_equal(sessions_active(r.s), 0);
    assert_null(sessions_find(r.s, sv_from(one->id)));
    sessions_close(r.s, one); /* Again: nothing. */
    session_release(one);
    close_room(&r);
}

static void a_session_forgotten_over_http_makes_place(void **state) {
    (void)state;
    struct room r = open_room(3);
    struct session *socket = open_one(&r, false);
    struct session *busy = open_one(&r, true);
    struct session *idle = open_one(&r, true);
    struct session *more = NULL;
    struct err err = {0};
    busy->calls = 1;
    socket->used_ms = busy->used_ms = idle->used_ms = loop_now_ms(r.l) - SESSIONS_UNUSED_MS + 60000;
    assert_int_equal(sessions_open(r.s, true, &more, &err), ERR_QUOTA);
    socket->used_ms = busy->used_ms = idle->used_ms = loop_now_ms(r.l) - SESSIONS_UNUSED_MS;
    more = open_one(&r, true);
    assert_int_equal(sessions_active(r.s), 3);
    assert_ptr_equal(sessions_find(r.s, sv_from(socket->id)), socket);
    assert_ptr_equal(sessions_find(r.s, sv_from(busy->id)), busy);
    assert_ptr_equal(sessions_find(r.s, sv_from(more->id)), more);
    busy->calls = 0;
    close_room(&r);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(there_are_as_many_sessions_as_places),
    cmocka_unit_test(a_closed_session_lives_as_long_as_it_is_used),
    cmocka_unit_test(a_session_forgotten_over_http_makes_place),
};

RUN_TESTS(tests)
