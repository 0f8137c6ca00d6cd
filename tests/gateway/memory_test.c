/* SPDX-License-Identifier: BSD-3-Clause */
/* Whichever allocation fails while a call is under way: the call ends, and the next one works. */
#include "fixture.h"
#include "memory.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define TRIES_MAX 1000 /* A call needs some hundred allocations at most. */
#define PATIENCE_S 20  /* A busy machine is slow; a hang is told from it by this. */

#define UNARY "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"hello\"}]}"
#define STREAM                                                                                     \
    "{\"model\":\"m\",\"stream\":true,\"messages\":[{\"role\":\"user\",\"content\":\"hello\"}]}"
#define LATE_MS 3          /* The end of a body comes behind what it holds. */
#define LARGE_BYTES 300000 /* Buffers grow, and not all goes out with the first write. */
#define TEXT                                                                                       \
    "data: {\"id\":\"1\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a long word\"},"       \
    "\"token_ids\":[7],\"logprobs\":{\"content\":[{\"token\":\"a\",\"logprob\":-0.5,"              \
    "\"top_logprobs\":[]}]}}]}\n\n"
#define EVENTS                                                                                     \
    "data: {\"id\":\"1\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"},\"token_ids\":"   \
    "[1],\"logprobs\":{\"content\":[{\"token\":\"a\",\"logprob\":-0.5,\"top_logprobs\":[]}]}}]}"   \
    "\n\n"                                                                                         \
    "data: {\"id\":\"1\",\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,"       \
    "\"id\":\"c\",\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}]},\"finish_reason\":"        \
    "\"tool_calls\",\"token_ids\":[2],\"logprobs\":null}]}\n\n"                                    \
    "data: {\"choices\":[],\"usage\":{\"completion_tokens\":2},\"prompt_token_ids\":[5]}\n\n"      \
    "data: [DONE]\n\n"
#define WHOLE                                                                                      \
    "{\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"a\"},"           \
    "\"logprobs\":{\"content\":[{\"token\":\"a\",\"logprob\":-0.5,\"top_logprobs\":[]}]},"         \
    "\"finish_reason\":\"stop\",\"token_ids\":[1]}],\"usage\":{\"completion_tokens\":1},"          \
    "\"prompt_token_ids\":[5]}"

static void answer(struct engine_request *r, void *closes) {
    if (sv_find(r->body, SV("\"refuse\":1")) != (size_t)-1 &&
        sv_find(r->body, SV("return_token_ids")) != (size_t)-1) {
        engine_json(r, 400, "{\"error\":\"unknown field: return_token_ids\"}");
    } else if (r->body.n > LARGE_BYTES) {
        engine_sse_head(r);
        for (int i = 0; i < 400; i++) {
            engine_chunk(r, SV(TEXT TEXT TEXT TEXT TEXT TEXT TEXT TEXT TEXT TEXT));
        }
        engine_chunk(r, SV(EVENTS));
        engine_puts(r, "0\r\n\r\n");
    } else if (sv_find(r->body, SV("\"late\":1")) != (size_t)-1) {
        engine_sse_head(r);
        engine_chunk(r, SV(EVENTS));
        clock_sleep_ms(LATE_MS);
        engine_puts(r, "0\r\n\r\n");
    } else if (sv_find(r->body, SV("\"stream\":true")) != (size_t)-1) {
        engine_sse(r, EVENTS);
    } else {
        engine_json(r, 200, WHOLE);
    }
    r->close = *(const bool *)closes;
}

/* A unix socket holds little: the gateway has to queue what is large. */
static int connect_to(struct fixture *f, bool is_large) {
    const struct timeval patience = {.tv_sec = PATIENCE_S};
    struct agent a = is_large ? agent_connect_unix(f->unix_path) : agent_connect_tcp(f->port);
    assert_int_equal(setsockopt(a.fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience), 0);
    return a.fd;
}

/* All that comes over a connection of its own; its reset is an end. False: none came in time. */
static bool call(struct fixture *f, const char *body, struct buf *got) {
    AUTO_BUF struct buf request = {0};
    char piece[4096];
    bool is_large = strlen(body) > LARGE_BYTES;
    int fd = connect_to(f, is_large);
    assert_int_equal(buf_addf(&request,
                              "POST /v1/chat/completions HTTP/1.1\r\nHost: gw\r\nConnection: "
                              "close\r\nAuthorization: Bearer %s\r\nContent-Length: %zu\r\n\r\n%s",
                              gateway_session_token(f->session), strlen(body), body),
                     0);
    for (size_t at = 0; at < request.len;) {
        ssize_t sent = send(fd, request.data + at, request.len - at, MSG_NOSIGNAL);
        at = sent > 0 ? at + (size_t)sent : request.len; /* It may have been refused by now. */
    }
    ssize_t n;
    if (is_large) {
        clock_sleep_ms(20);
    }
    while ((n = recv(fd, piece, sizeof piece, 0)) > 0) {
        assert_int_equal(buf_add(got, piece, (size_t)n), 0);
    }
    bool ended = n == 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
    close(fd);
    return ended;
}

static bool is_whole(const struct buf *got, bool is_stream) {
    struct sv v = buf_sv(got);
    return sv_starts_with(v, SV("HTTP/1.1 200 ")) &&
           (is_stream ? sv_ends_with(v, SV("data: [DONE]\n\n\r\n0\r\n\r\n"))
                      : sv_ends_with(v, SV("}")) && sv_find(v, SV("\"choices\"")) != (size_t)-1);
}

static struct gateway_stats await_none_open(struct fixture *f) {
    deadline_ms until = deadline_in_s(PATIENCE_S);
    struct gateway_stats s;
    for (;;) {
        gateway_stats(f->gateway, &s);
        if (s.calls_open == 0 && memory_open_calls(f->gateway) == 0) {
            return s;
        }
        if (deadline_passed(until)) {
            fail_msg("%llu calls stay open", (unsigned long long)s.calls_open);
        }
        clock_sleep_ms(1);
    }
}

/* A call whose allocation `n` fails; false: it needed fewer. */
static bool call_failing_at(struct fixture *f, const char *body, int n, bool stays) {
    AUTO_BUF struct buf got = {0};
    AUTO_BUF struct buf after = {0};
    bool is_stream = strstr(body, "\"stream\"") != NULL;
    struct gateway_stats before = await_none_open(f);
    memory_fail_at(n, stays);
    bool ended = call(f, body, &got);
    bool hit = memory_failures() > 0;
    memory_heal();
    if (!ended) {
        fail_msg("with allocation %d failing%s the call never ends; so far: %s", n,
                 stays ? " and all behind it" : "", buf_cstr(&got));
    }
    struct gateway_stats s = await_none_open(f);
    assert_int_equal(s.calls, s.calls_stored + s.calls_lost);
    if (is_whole(&got, is_stream) && s.calls_stored != before.calls_stored + 1) {
        fail_msg("with allocation %d failing an end came that is not recorded", n);
    }
    assert_true(call(f, body, &after));
    if (!is_whole(&after, is_stream)) {
        size_t cut = after.len > 300 ? after.len - 300 : 0;
        fail_msg("after allocation %d failed the next call got %zu bytes, ...%s", n, after.len,
                 buf_cstr(&after) + cut);
    }
    (void)await_none_open(f);
    return hit;
}

struct plan {
    bool closes;  /* The engine, after each answer. */
    bool stays;   /* Memory is gone for good, not once. */
    bool is_cold; /* A new gateway for each try: nothing is there to be used again. */
};

static void open_marked(struct fixture *f, const struct plan *p) {
    fixture_open(f, answer, (void *)(uintptr_t)&p->closes, NULL);
    memory_mark(f->gateway, f->journal);
}

static void check_body(const char *body, const struct plan *p) {
    struct fixture f;
    bool hit = true;
    int n = 0;
    open_marked(&f, p);
    for (; hit && n < TRIES_MAX; n++) {
        if (p->is_cold && n > 0) {
            fixture_close(&f);
            open_marked(&f, p);
        }
        hit = call_failing_at(&f, body, n, p->stays);
    }
    fixture_close(&f);
    assert_in_range(n, 10, TRIES_MAX - 1);
    print_message("# %d allocations: %.60s\n", n - 1, body);
}

static void check(const struct plan *p) {
    AUTO_BUF struct buf large = {0};
    assert_int_equal(
        buf_adds(&large, "{\"model\":\"m\",\"tools\":[],\"messages\":[{\"content\":\""), 0);
    while (large.len < LARGE_BYTES) {
        assert_int_equal(buf_adds(&large, "all work and no play "), 0);
    }
    assert_int_equal(buf_adds(&large, "\"}],\"stream\":true}"), 0);
    check_body(UNARY, p);
    check_body(STREAM, p);
    check_body("{\"refuse\":1,\"model\":\"m\",\"stream\":true}", p);
    check_body("{\"late\":1,\"model\":\"m\",\"stream\":true}", p);
    check_body(buf_cstr(&large), p);
}

static void a_call_ends_whichever_allocation_fails(void **state) {
    (void)state;
    check(&(struct plan){0});
}

static void a_call_ends_whichever_allocation_fails_with_an_engine_that_closes(void **state) {
    (void)state;
    check(&(struct plan){.closes = true});
}

static void a_first_call_ends_whichever_allocation_fails(void **state) {
    (void)state;
    check(&(struct plan){.is_cold = true});
}

static void a_call_ends_when_all_memory_is_gone_from_some_allocation_on(void **state) {
    (void)state;
    check(&(struct plan){.stays = true, .closes = true});
    check(&(struct plan){.stays = true, .is_cold = true});
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_ends_whichever_allocation_fails),
        cmocka_unit_test(a_call_ends_whichever_allocation_fails_with_an_engine_that_closes),
        cmocka_unit_test(a_first_call_ends_whichever_allocation_fails),
        cmocka_unit_test(a_call_ends_when_all_memory_is_gone_from_some_allocation_on),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
