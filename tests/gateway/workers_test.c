/* SPDX-License-Identifier: BSD-3-Clause */
/* Many threads at one gateway of several workers: sessions open, change and close between calls. */
#include "fixture.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/thread.h"

#define WORKERS 4
#define CALLERS 6
#define ROUNDS 12
#define CHANGES 40

static void answer(struct engine_request *r, void *arg) {
    (void)arg;
    engine_json(r, 200,
                "{\"choices\":[{\"index\":0,\"message\":{\"content\":\"x\"},\"logprobs\":{"
                "\"content\":[{\"token\":\"x\",\"logprob\":-0.5}]},\"token_ids\":[5],"
                "\"finish_reason\":\"stop\"}],\"prompt_token_ids\":[1],"
                "\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":1}}");
}

struct caller {
    struct fixture *f;
    unsigned number;
    unsigned good;
    unsigned bad;
};

static void call_once(struct caller *c, const char *token) {
    struct agent a = agent_connect_tcp(c->f->port);
    agent_post(&a, "/v1/chat/completions", token, SV("{\"model\":\"m\"}"));
    struct answer r = agent_read(&a);
    *(r.status == 200 && r.has_end ? &c->good : &c->bad) += 1;
    answer_deinit(&r);
    agent_close(&a);
}

/* A session of its own each round, and calls to the common one beside. */
static void *call_often(void *arg) {
    struct caller *c = arg;
    for (unsigned i = 0; i < ROUNDS; i++) {
        struct gateway_session *s = NULL;
        struct err e = {0};
        char name[32];
        snprintf(name, sizeof name, "c%u-%u.1", c->number, i);
        const struct gateway_session_options o = {
            .name = name, .edits = true, .record = true, .top_logprobs = 1};
        if (gateway_session_open(c->f->gateway, &o, &s, &e) < 0) {
            c->bad++;
            continue;
        }
        call_once(c, gateway_session_token(s));
        call_once(c, gateway_session_token(c->f->session));
        c->bad += gateway_session_close(s, deadline_in_s(20), &e) < 0;
    }
    return NULL;
}

/* Everything that an admin may change, and all that he may look at. */
static void *change_often(void *arg) {
    struct caller *c = arg;
    const char *const engines[] = {engine_url(c->f->engine), NULL};
    for (unsigned i = 0; i < CHANGES; i++) {
        AUTO_BUF struct buf settings = {0};
        struct gateway_stats all;
        struct gateway_session_stats one;
        struct err e = {0};
        char version[16];
        snprintf(version, sizeof version, "%u", i);
        const struct gateway_session_change change = {
            .has_policy_version = true,
            .policy_version = version,
            .has_upstreams = i % 3 == 0,
            .upstreams = i % 2 ? engines : NULL,
            .has_model = true,
            .model_override = version,
        };
        c->bad += gateway_session_change(c->f->session, &change, &e) < 0;
        c->bad += gateway_set_upstreams(c->f->gateway, engines, &e) < 0;
        c->bad += gateway_session_put_settings(c->f->session, &settings) < 0;
        gateway_session_stats(c->f->session, &one);
        gateway_stats(c->f->gateway, &all);
        c->bad += all.calls < one.calls || one.calls_ended > one.calls;
    }
    return NULL;
}

static void sessions_and_changes_between_calls_on_all_workers_lose_none(void **state) {
    struct caller callers[CALLERS + 1] = {0};
    pthread_t threads[CALLERS + 1];
    struct gateway_stats stats;
    struct fixture f;
    struct err e = {0};
    unsigned good = 0;
    (void)state;
    fixture_open_with(&f, answer, NULL,
                      (struct gateway_options){.host = "127.0.0.1", .workers = WORKERS}, NULL);
    const char *const engines[] = {engine_url(f.engine), NULL};
    assert_ok(gateway_set_upstreams(f.gateway, engines, &e), &e);
    for (unsigned i = 0; i <= CALLERS; i++) {
        callers[i] = (struct caller){.f = &f, .number = i};
        assert_int_equal(
            thread_start(&threads[i], 0, i == CALLERS ? change_often : call_often, &callers[i]), 0);
    }
    for (unsigned i = 0; i <= CALLERS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(callers[i].bad, 0);
        good += callers[i].good;
    }
    assert_int_equal(good, 2 * CALLERS * ROUNDS);
    gateway_stats(f.gateway, &stats);
    assert_int_equal(stats.calls, good);
    assert_int_equal(stats.calls_stored, good);
    assert_int_equal(stats.ended_complete, good);
    assert_int_equal(stats.sessions, 1);
    uint64_t timed = 0;
    for (unsigned i = 0; i < GATEWAY_TIMES; i++) {
        timed += stats.added.counts[i];
    }
    assert_int_equal(timed, good);
    fixture_close(&f);
}

static atomic_bool may_go;

static void answer_when_told(struct engine_request *r, void *arg) {
    engine_sse_head(r);
    engine_chunk(r, SV("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"}}]}\n\n"));
    while (!may_go) {
        clock_sleep_ms(5);
    }
    (void)arg;
    engine_chunk(r, SV("data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]"
                       "}\n\ndata: [DONE]\n\n"));
    engine_puts(r, "0\r\n\r\n");
}

static void a_drained_gateway_ends_open_calls_and_listens_no_more(void **state) {
    struct fixture f;
    (void)state;
    may_go = false;
    fixture_open_with(&f, answer_when_told, NULL,
                      (struct gateway_options){.host = "127.0.0.1", .workers = 2}, NULL);
    struct agent idle = agent_connect_tcp(f.port);
    struct agent a = agent_connect_tcp(f.port);
    agent_post(&a, "/v1/chat/completions", gateway_session_token(f.session),
               SV("{\"model\":\"m\",\"stream\":true}"));
    while (engine_requests(f.engine) == 0) {
        clock_sleep_ms(5);
    }
    gateway_drain(f.gateway);
    assert_int_equal(gateway_connections(f.gateway), 2);
    may_go = true;
    struct answer r = agent_read(&a);
    assert_int_equal(r.status, 200);
    assert_true(r.has_end);
    assert_non_null(strstr(buf_cstr(&r.body), "[DONE]"));
    answer_deinit(&r);
    while (gateway_connections(f.gateway) > 0) { /* The idle one has its time first. */
        clock_sleep_ms(5);
    }
    agent_close(&a);
    agent_close(&idle);
    const struct sockaddr_in at = {.sin_family = AF_INET,
                                   .sin_port = htons(f.port),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&at, sizeof at), -1);
    close(fd);
    fixture_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sessions_and_changes_between_calls_on_all_workers_lose_none),
        cmocka_unit_test(a_drained_gateway_ends_open_calls_and_listens_no_more),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
