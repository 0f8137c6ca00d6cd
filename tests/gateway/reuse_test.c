/* SPDX-License-Identifier: BSD-3-Clause */
/* Kept connections that die at the worst moment. `--long` makes ten thousand calls of it. */
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "fixture.h"
#include "gateway/upstream.h"

#define STREAM "{\"model\":\"m\",\"stream\":true}"
#define GOOD                                                                                       \
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}" \
    "\n\ndata: [DONE]\n\n"
#define CALLS_CI 500
#define CALLS_LONG 10000

static unsigned calls = CALLS_CI;

/*
 * Answers the first request of each connection. Then, at the instant of reuse: the connection is
 * closed when the first bytes of a second request are there, unread (a reset), or read in part or
 * whole (a FIN), or right behind the answer, so that FIN and request cross.
 */
static void answer_once(struct engine_request *r, void *arg) {
    atomic_uint *answered = arg;
    char byte[65536];
    if (r->on_connection > 1) {
        r->close = true; /* Read whole, unanswered. */
        r->reset = r->number % 2;
        return;
    }
    engine_sse(r, GOOD);
    atomic_fetch_add(answered, 1);
    struct pollfd p = {.fd = r->fd, .events = POLLIN};
    switch (r->connection % 5) {
    case 0:
        break; /* The next request is read. */
    case 1:
        r->close = true; /* At once: the request crosses it, or finds it closed. */
        break;
    case 2:
        (void)poll(&p, 1, 3000); /* The request is there: closing with it unread resets. */
        r->close = true;
        break;
    case 3:
        (void)recv(r->fd, byte, 10, 0);
        r->close = true;
        break;
    default:
        (void)recv(r->fd, byte, sizeof byte, 0);
        r->close = r->reset = true;
    }
}

static void no_call_fails_on_a_connection_that_dies_at_the_instant_of_reuse(void **state) {
    struct fixture f;
    atomic_uint answered = 0;
    struct gateway_stats all;
    (void)state;
    fixture_open(&f, answer_once, &answered, NULL);
    struct agent a = agent_connect_tcp(f.port);
    for (unsigned i = 0; i < calls; i++) {
        agent_post(&a, "/v1/chat/completions", gateway_session_token(f.session), SV(STREAM));
        struct answer r = agent_read(&a);
        if (r.status != 200 || !r.has_end || !sv_eq(buf_sv(&r.body), SV(GOOD))) {
            fail_msg("call %u: status %d, '%s'", i, r.status, buf_cstr(&r.body));
        }
        answer_deinit(&r);
    }
    agent_close(&a);
    gateway_stats(f.gateway, &all);
    assert_int_equal(all.calls, calls);
    assert_int_equal(all.calls_stored, calls);
    assert_true(engine_requests(f.engine) > calls); /* Connections were used again, and died. */
    assert_int_equal(answered, calls); /* No answer was thrown away and asked for again. */
    fixture_close(&f);
}

static void answer_by_half(struct engine_request *r, void *arg) {
    (void)arg;
    if (r->number == 1) {
        engine_sse(r, GOOD);
        return;
    }
    engine_sse_head(r);
    engine_chunk(r, SV("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n"));
    r->close = true;
}

static void answer_with_a_byte(struct engine_request *r, void *arg) {
    (void)arg;
    if (r->number == 1) {
        engine_sse(r, GOOD);
        return;
    }
    engine_puts(r, "H");
    r->close = true;
}

static void nothing_is_tried_again_once_a_byte_of_the_answer_came(void **state) {
    static const engine_fn engines[] = {answer_by_half, answer_with_a_byte};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct fixture f;
        fixture_open(&f, engines[i], NULL, NULL);
        for (int k = 0; k < 2; k++) {
            struct answer a = fixture_call(&f, STREAM);
            assert_int_equal(a.status, k == 0 || i == 0 ? 200 : 502);
            assert_int_equal(a.has_end, k == 0 || i == 1);
            answer_deinit(&a);
        }
        assert_int_equal(engine_requests(f.engine), 2);
        fixture_close(&f);
    }
}

static void answer_status(struct engine_request *r, void *arg) {
    engine_json(r, *(int *)arg, "{\"error\":{\"message\":\"busy\"}}");
}

static void no_status_makes_the_gateway_try_again(void **state) {
    static int statuses[] = {408, 409, 429, 500, 502, 503, 504, 529};
    (void)state;
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++) {
        struct fixture f;
        fixture_open(&f, answer_status, &statuses[i], NULL);
        struct answer a = fixture_call(&f, STREAM);
        assert_int_equal(a.status, statuses[i]);
        assert_int_equal(engine_requests(f.engine), 1);
        answer_deinit(&a);
        fixture_close(&f);
    }
}

struct idler {
    int64_t idle_ms; /* From the answer to our leaving. */
    atomic_bool done;
};

static void answer_and_time(struct engine_request *r, void *arg) {
    struct idler *i = arg;
    engine_sse(r, GOOD);
    int64_t since = clock_ms();
    if (engine_peer_left(r, 20000)) {
        i->idle_ms = clock_ms() - since;
    }
    i->done = true;
    r->close = true;
}

/* uvicorn's 5 s is the shortest of the engines'. */
static void an_idle_connection_is_left_before_an_engine_would_leave_it(void **state) {
    struct idler i = {0};
    struct fixture f;
    (void)state;
    assert_true(UPSTREAM_IDLE_MS < 5000);
    fixture_open(&f, answer_and_time, &i, NULL);
    struct answer a = fixture_call(&f, STREAM);
    answer_deinit(&a);
    while (!i.done) {
        clock_sleep_ms(10);
    }
    assert_true(i.idle_ms >= 1000); /* It was kept, and left by us. */
    fixture_close(&f);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(no_call_fails_on_a_connection_that_dies_at_the_instant_of_reuse),
    cmocka_unit_test(nothing_is_tried_again_once_a_byte_of_the_answer_came),
    cmocka_unit_test(no_status_makes_the_gateway_try_again),
    cmocka_unit_test(an_idle_connection_is_left_before_an_engine_would_leave_it),
};

static const struct CMUnitTest long_tests[] = {
    cmocka_unit_test(no_call_fails_on_a_connection_that_dies_at_the_instant_of_reuse),
};

int main(int argc, char **argv) {
    cmocka_set_message_output(CM_OUTPUT_TAP);
    if (argc > 1 && strcmp(argv[1], "--long") == 0) {
        calls = CALLS_LONG;
        return cmocka_run_group_tests(long_tests, NULL, NULL);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
