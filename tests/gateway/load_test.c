/* SPDX-License-Identifier: BSD-3-Clause */
#include "fixture.h"

#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/file.h"

#define SESSIONS 64
#define CALLS 10
#define TOKENS 20

/* Twenty tokens of which the first is the request's own number, so that answers can't be mixed up.
 */
static void answer_numbered(struct engine_request *r, void *arg) {
    AUTO_BUF struct buf b = {0};
    size_t at = sv_find(r->body, SV("\"seed\":"));
    int seed = at == (size_t)-1 ? -1 : (int)strtol(r->body.p + at + 7, NULL, 10);
    (void)arg;
    engine_sse_head(r);
    for (int i = 0; i < TOKENS; i++) {
        buf_reset(&b);
        if (buf_addf(
                &b,
                "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"t%d \"},\"logprobs\":"
                "{\"content\":[{\"token\":\"t\",\"logprob\":-0.5}]},\"token_ids\":[%d]%s}]}\n\n",
                i, i == 0 ? seed : i, i == TOKENS - 1 ? ",\"finish_reason\":\"stop\"" : "") < 0 ||
            !engine_chunk(r, buf_sv(&b))) {
            return;
        }
    }
    engine_chunk(r, SV("data: {\"choices\":[],\"usage\":{\"completion_tokens\":20},"
                       "\"prompt_token_ids\":[1]}\n\ndata: [DONE]\n\n"));
    engine_puts(r, "0\r\n\r\n");
}

struct worker {
    struct fixture *f;
    struct gateway_session *session;
    char name[32];
    unsigned number;
    unsigned good;
};

static void *call_often(void *arg) {
    struct worker *w = arg;
    struct agent a = agent_connect_tcp(w->f->port);
    for (unsigned i = 0; i < CALLS; i++) {
        char body[128];
        snprintf(body, sizeof body, "{\"model\":\"m\",\"stream\":true,\"seed\":%u}",
                 w->number * 1000 + i);
        agent_post(&a, "/v1/chat/completions", gateway_session_token(w->session), sv_from(body));
        struct answer r = agent_read(&a);
        w->good += r.status == 200 && r.has_end && strstr(buf_cstr(&r.body), "[DONE]") != NULL &&
                   strstr(buf_cstr(&r.body), "token_ids\":[") == NULL;
        answer_deinit(&r);
    }
    agent_close(&a);
    return NULL;
}

static void open_all(struct fixture *f, struct worker *w) {
    struct err e = {0};
    for (unsigned i = 0; i < SESSIONS; i++) {
        w[i] = (struct worker){.f = f, .number = i};
        snprintf(w[i].name, sizeof w[i].name, "load-%u.1", i);
        const struct gateway_session_options o = {.name = w[i].name,
                                                  .upstream_url = engine_url(f->engine),
                                                  .edits = true,
                                                  .record = true,
                                                  .top_logprobs = 5};
        assert_ok(gateway_session_open(f->gateway, &o, &w[i].session, &e), &e);
    }
}

/* Every result stands under its own session and call, with as many ids as usage says. */
static void count_records(struct fixture *f) {
    static unsigned intents[SESSIONS][CALLS + 1];
    static unsigned results[SESSIONS][CALLS + 1];
    struct journal_reader *reader;
    struct journal_record record;
    struct err e = {0};
    assert_ok(journal_flush(f->journal, &e), &e);
    assert_ok(journal_reader_open(f->journal_dir, &reader, &e), &e);
    while (journal_reader_next(reader, &record, &e) == 1) {
        unsigned long long session;
        if (record.call == 0 || record.call > CALLS ||
            !sv_starts_with(record.session, SV("load-")) ||
            !sv_parse_u64((struct sv){record.session.p + 5, record.session.n - 7}, SESSIONS - 1,
                          &session)) {
            continue;
        }
        intents[session][record.call] += record.type == JOURNAL_INTENT;
        if (record.type != JOURNAL_RESULT) {
            continue;
        }
        results[session][record.call]++;
        for (unsigned i = 0; i < record.n_parts; i++) {
            if (sv_eq(record.parts[i].name, SV("completion_token_ids"))) {
                AUTO_BUF struct buf want = {0};
                assert_int_equal(buf_addf(&want,
                                          "[%llu,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19]",
                                          session * 1000 + record.call - 1),
                                 0);
                assert_true(sv_eq(record.parts[i].bytes, buf_sv(&want)));
            }
        }
        assert_non_null(memmem(record.head.p, record.head.n, "\"findings\":[]", 13));
    }
    journal_reader_close(reader);
    for (unsigned s = 0; s < SESSIONS; s++) {
        for (unsigned c = 1; c <= CALLS; c++) {
            assert_int_equal(intents[s][c], 1);
            assert_int_equal(results[s][c], 1);
        }
    }
}

/* Some calls besides: one that fails, one whose agent leaves, one of a session that records
 * nothing, and two requests that are none. */
static void call_oddly(struct fixture *f) {
    struct gateway_session *bare;
    struct err e = {0};
    const struct gateway_session_options o = {.name = "bare.1",
                                              .upstream_url = engine_url(f->engine)};
    assert_ok(gateway_session_open(f->gateway, &o, &bare, &e), &e);
    const char *const tokens[] = {gateway_session_token(bare), "unknown",
                                  gateway_session_token(f->session)};
    const char *const bodies[] = {"{\"stream\":true}", "{\"stream\":true}", "{\"stream\":"};
    for (size_t i = 0; i < 3; i++) {
        struct agent a = agent_connect_tcp(f->port);
        agent_post(&a, "/v1/chat/completions", tokens[i], sv_from(bodies[i]));
        struct answer r = agent_read(&a);
        assert_int_equal(r.status, i == 0 ? 200 : i == 1 ? 401 : 400);
        answer_deinit(&r);
        agent_close(&a);
    }
    struct agent leaver = agent_connect_tcp(f->port);
    agent_post(&leaver, "/v1/chat/completions", gateway_session_token(f->session),
               SV("{\"stream\":true}"));
    struct answer r = agent_read_until(&leaver, "t0");
    answer_deinit(&r);
    agent_close(&leaver);
    fixture_await_result(f, 1);
    assert_ok(gateway_session_close(bare, deadline_in_s(5), &e), &e);
}

static void check_counters(struct fixture *f, uint64_t stored) {
    struct gateway_stats all;
    gateway_stats(f->gateway, &all);
    assert_int_equal(all.calls, stored + 1);
    assert_int_equal(all.calls_stored, stored);
    assert_int_equal(all.calls_passed, 1);
    assert_int_equal(all.calls_open, 0);
    assert_int_equal(all.calls_lost, 0);
    assert_int_equal(all.refused, 2);
    assert_int_equal(all.sessions, 1);
}

static void every_call_of_parallel_sessions_is_stored_once_and_counted(void **state) {
    static struct worker workers[SESSIONS];
    pthread_t threads[SESSIONS];
    struct fixture f;
    struct err e = {0};
    (void)state;
    fixture_open(&f, answer_numbered, NULL, NULL);
    open_all(&f, workers);
    for (unsigned i = 0; i < SESSIONS; i++) {
        pthread_create(&threads[i], NULL, call_often, &workers[i]);
    }
    for (unsigned i = 0; i < SESSIONS; i++) {
        struct gateway_session_stats stats;
        pthread_join(threads[i], NULL);
        assert_int_equal(workers[i].good, CALLS);
        gateway_session_stats(workers[i].session, &stats);
        assert_int_equal(stats.calls, CALLS);
        assert_int_equal(stats.completion_tokens, CALLS * TOKENS);
        assert_ok(gateway_session_close(workers[i].session, deadline_in_s(5), &e), &e);
    }
    count_records(&f);
    call_oddly(&f);
    check_counters(&f, SESSIONS * CALLS + 1);
    fixture_close(&f);
}

#define STREAM_BYTES (100u << 20)
#define SLOW_READS 30
/* The queue to a slow reader and what is read ahead of it are less than 1 MB; the rest is room for
 * the allocator and, in a sanitized build, for its bookkeeping. */
#define GROWTH_MAX (16u << 20)
/* Socket buffers of four ends hold some MB; more would have to be in the gateway. */
#define AHEAD_MAX (24u << 20)

/* As many events as the peer takes, up to 100 MB. */
static void answer_without_end(struct engine_request *r, void *arg) {
    AUTO_BUF struct buf b = {0};
    uint64_t *sent = arg;
    int rc = 0;
    for (int i = 0; rc == 0 && i < 500; i++) {
        rc = buf_adds(&b, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"0123456789\"},"
                          "\"logprobs\":null,\"token_ids\":[17]}]}\n\n");
    }
    engine_sse_head(r);
    while (rc == 0 && __atomic_load_n(sent, __ATOMIC_RELAXED) < STREAM_BYTES &&
           engine_chunk(r, buf_sv(&b))) {
        __atomic_add_fetch(sent, b.len, __ATOMIC_RELAXED);
    }
    r->close = true;
}

static uint64_t resident_bytes(void) {
    AUTO_BUF struct buf b = {0};
    struct err e = {0};
    assert_ok(file_read("/proc/self/statm", 4096, &b, &e), &e);
    char *second;
    (void)strtoull(buf_cstr(&b), &second, 10);
    return strtoull(second, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void a_reader_of_1_kb_a_second_slows_the_engine_and_costs_no_memory(void **state) {
    struct fixture f;
    uint64_t sent = 0;
    char bytes[1024];
    (void)state;
    fixture_open(&f, answer_without_end, &sent, NULL);
    struct agent a = agent_connect_tcp(f.port);
    int small = 4096;
    setsockopt(a.fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    uint64_t before = resident_bytes();
    agent_post(&a, "/v1/chat/completions", gateway_session_token(f.session),
               SV("{\"stream\":true}"));
    uint64_t most = 0;
    for (int i = 0; i < SLOW_READS;
         i++) { /* Ten a second: the wait is shorter, the point the same. */
        assert_true(recv(a.fd, bytes, sizeof bytes, 0) > 0);
        clock_sleep_ms(100);
        uint64_t now = resident_bytes();
        most = now > most ? now : most;
    }
    uint64_t ahead = __atomic_load_n(&sent, __ATOMIC_RELAXED);
    if (ahead >= AHEAD_MAX || most > before + GROWTH_MAX) {
        fail_msg("%llu bytes were taken from the engine, %llu bytes of memory were added",
                 (unsigned long long)ahead, (unsigned long long)(most - before));
    }
    agent_close(&a);
    fixture_await_result(&f, 1);
    fixture_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_call_of_parallel_sessions_is_stored_once_and_counted),
        cmocka_unit_test(a_reader_of_1_kb_a_second_slows_the_engine_and_costs_no_memory),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
