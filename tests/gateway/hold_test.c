/* SPDX-License-Identifier: BSD-3-Clause */
#include "fixture.h"

#include <poll.h>
#include <semaphore.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>

#define REQUEST "{\"model\":\"m\",\"stream\":true}"
#define TEXT                                                                                       \
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"},\"token_ids\":[1]}]}\n\n"
#define FINISH                                                                                     \
    "data: "                                                                                       \
    "{\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\",\"token_ids\":[2]}]}\n\n"
#define LATE                                                                                       \
    "data: {\"choices\":[],\"usage\":{\"completion_tokens\":2},\"prompt_token_ids\":[5]}\n\n"
#define DONE "data: [DONE]\n\n"

/* An engine that goes on when it is told to. */
struct steps {
    sem_t go;
    const char *const *parts; /* NULL-ended. */
    bool keeps_open;          /* Does not end the body behind the last part. */
};

static void answer_in_steps(struct engine_request *r, void *arg) {
    struct steps *s = arg;
    engine_sse_head(r);
    for (size_t i = 0; s->parts[i]; i++) {
        sem_wait(&s->go);
        engine_chunk(r, sv_from(s->parts[i]));
    }
    if (s->keeps_open) {
        engine_peer_left(r, 5000);
        r->close = true;
    } else {
        sem_wait(&s->go);
        engine_puts(r, "0\r\n\r\n");
    }
}

/* A call of such an engine, whose first part has come. */
struct talk {
    struct fixture f;
    struct steps steps;
    struct agent a;
    struct answer first;
};

static void go_on(struct talk *t, int parts) {
    for (int i = 0; i < parts; i++) {
        sem_post(&t->steps.go);
    }
}

/* Reads up to `first`, which stands in the first of the parts. */
static void talk_begin(struct talk *t, const char *const *parts, const char *body,
                       const char *first) {
    *t = (struct talk){.steps = {.parts = parts}};
    sem_init(&t->steps.go, 0, 0);
    fixture_open(&t->f, answer_in_steps, &t->steps, NULL);
    t->a = agent_connect_tcp(t->f.port);
    agent_post(&t->a, "/v1/chat/completions", gateway_session_token(t->f.session), sv_from(body));
    go_on(t, 1);
    t->first = agent_read_until(&t->a, first);
}

static void talk_end(struct talk *t) {
    answer_deinit(&t->first);
    agent_close(&t->a);
    fixture_close(&t->f);
    sem_destroy(&t->steps.go);
}

/* Something more comes. */
static void read_rest(struct talk *t) {
    char rest[4096];
    assert_true(recv(t->a.fd, rest, sizeof rest, 0) > 0);
}

static bool is_silent(const struct agent *a, int ms) {
    struct pollfd p = {.fd = a->fd, .events = POLLIN};
    return poll(&p, 1, ms) == 0;
}

/* Without a flush: what was not written yet does not count. */
static bool has_result(struct fixture *f) {
    struct journal_reader *reader;
    struct journal_record record;
    struct err e = {0};
    bool found = false;
    assert_ok(journal_reader_open(f->journal_dir, &reader, &e), &e);
    while (journal_reader_next(reader, &record, &e) == 1) {
        found = found || record.type == JOURNAL_RESULT;
    }
    journal_reader_close(reader);
    return found;
}

static void the_end_is_held_until_usage_and_late_ids_are_recorded(void **state) {
    static const char *const parts[] = {TEXT, FINISH, LATE, DONE, NULL};
    struct talk t;
    (void)state;
    talk_begin(&t, parts, REQUEST, "\"a\"");
    assert_int_equal(t.first.status, 200);
    go_on(&t, 2);
    assert_true(is_silent(&t.a, 150));
    assert_false(has_result(&t.f));
    go_on(&t, 2);
    read_rest(&t);
    assert_true(has_result(&t.f));
    struct recorded r = fixture_read(&t.f, 1);
    assert_bytes(&r.ids, SV("[1,2]"));
    assert_bytes(&r.prompt_ids, SV("[5]"));
    assert_bytes(&r.usage, SV("{\"completion_tokens\":2}"));
    assert_int_equal(r.tails, 0);
    recorded_deinit(&r);
    talk_end(&t);
}

static void after_the_time_limit_a_tail_completes_the_result(void **state) {
    static const char *const parts[] = {TEXT FINISH, LATE, DONE, NULL};
    struct talk t;
    (void)state;
    int64_t start = clock_ms();
    talk_begin(&t, parts, REQUEST, "stop");
    assert_true(clock_ms() - start >= 900);
    assert_false(t.first.has_end);
    struct recorded r = fixture_read(&t.f, 1);
    assert_int_equal(r.results, 1);
    assert_true(json_is_true(json_object_get(r.result, "tail_open")));
    assert_int_equal(r.tails, 0);
    recorded_deinit(&r);
    go_on(&t, 3);
    fixture_close_session(&t.f);
    r = fixture_read(&t.f, 1);
    assert_int_equal(r.results, 1);
    assert_int_equal(r.tails, 1);
    assert_bytes(&r.usage, SV("{\"completion_tokens\":2}"));
    assert_string_equal(text_of(r.tail, "end"), "complete");
    recorded_deinit(&r);
    talk_end(&t);
}

/* How long the agent waited. */
static int64_t call_behind_done(void) {
    static const char *const parts[] = {TEXT FINISH DONE, NULL};
    struct steps s = {.parts = parts, .keeps_open = true};
    struct fixture f;
    sem_init(&s.go, 0, 1);
    fixture_open(&f, answer_in_steps, &s, NULL);
    int64_t start = clock_ms();
    struct answer a = fixture_call(&f, REQUEST);
    int64_t took = clock_ms() - start;
    assert_true(a.has_end);
    answer_deinit(&a);
    fixture_close(&f);
    sem_destroy(&s.go);
    return took;
}

/* A machine that stands still may make one of them long, and not all. */
static void behind_done_the_agent_gets_its_end_though_the_engine_stays(void **state) {
    (void)state;
    int64_t took = call_behind_done();
    for (int i = 1; i < 20 && took >= 900; i++) {
        took = call_behind_done();
    }
    assert_true(took < 900);
}

/* --- several choices --- */

#define TWO "{\"model\":\"m\",\"stream\":true,\"n\":2}"
#define TEXT_OF(i, text, id)                                                                       \
    "data: {\"choices\":[{\"index\":" i ",\"delta\":{\"content\":\"" text "\"},\"token_ids\":[" id \
    "]}]}\n\n"
#define FINISH_OF(i, id)                                                                           \
    "data: {\"choices\":[{\"index\":" i                                                            \
    ",\"delta\":{},\"finish_reason\":\"stop\",\"token_ids\":[" id "]}]}\n\n"

static size_t count_choices(const struct recorded *r) {
    json_t *response = json_loadb(r->response.data, r->response.len, 0, NULL);
    size_t n = json_array_size(json_object_get(response, "choices"));
    json_decref(response);
    return n;
}

/* Reads on until `text` comes, which must be before any end. */
static void read_open(struct agent *a, const char *text) {
    struct answer r = {0};
    char piece[4096];
    while (!r.body.data || !strstr(buf_cstr(&r.body), text)) {
        ssize_t n = recv(a->fd, piece, sizeof piece, 0);
        assert_true(n > 0);
        assert_int_equal(buf_add(&r.body, piece, (size_t)n), 0);
    }
    assert_null(strstr(buf_cstr(&r.body), "[DONE]"));
    answer_deinit(&r);
}

static void with_several_choices_only_the_last_one_s_end_is_held(void **state) {
    static const char *const parts[] = {TEXT_OF("0", "a", "1") TEXT_OF("1", "b", "10"),
                                        FINISH_OF("0", "2"),
                                        TEXT_OF("1", "still", "11"),
                                        FINISH_OF("1", "12"),
                                        LATE,
                                        DONE,
                                        NULL};
    struct talk t;
    (void)state;
    talk_begin(&t, parts, TWO, "\"b\"");
    go_on(&t, 1);
    read_open(&t.a, "stop"); /* Of choice 0, at once. */
    go_on(&t, 1);
    read_open(&t.a, "still");
    assert_false(has_result(&t.f));
    go_on(&t, 2);
    assert_true(is_silent(&t.a, 150));
    assert_false(has_result(&t.f));
    go_on(&t, 2);
    read_rest(&t);
    assert_true(has_result(&t.f));
    struct recorded r = fixture_read(&t.f, 1);
    assert_int_equal(count_choices(&r), 2);
    assert_bytes(&r.ids, SV("[1,2]"));
    assert_bytes(&r.usage, SV("{\"completion_tokens\":2}"));
    assert_true(lists(r.result, "findings", "several_choices"));
    assert_int_equal(r.tails, 0);
    recorded_deinit(&r);
    talk_end(&t);
}

static void choices_that_end_in_one_event_are_held_with_it(void **state) {
    static const char *const parts[] = {
        TEXT_OF("1", "b", "10") TEXT_OF("0", "a", "1"),
        "data: {\"choices\":[{\"index\":1,\"delta\":{},\"finish_reason\":\"stop\"},"
        "{\"index\":0,\"delta\":{},\"finish_reason\":\"length\"}]}\n\n",
        DONE, NULL};
    struct talk t;
    (void)state;
    talk_begin(&t, parts, TWO, "\"a\"");
    go_on(&t, 1);
    assert_true(is_silent(&t.a, 150));
    go_on(&t, 2);
    read_rest(&t);
    struct recorded r = fixture_read(&t.f, 1);
    assert_int_equal(r.results, 1);
    assert_int_equal(count_choices(&r), 2);
    assert_string_equal(text_of(r.result, "finish_reason"), "length"); /* Of choice 0. */
    recorded_deinit(&r);
    talk_end(&t);
}

/* One choice was asked for: its end begins the hold, and what comes of another is in the record all
 * the same, in the tail where it is late. */
static void a_choice_that_nobody_asked_for_is_recorded_too(void **state) {
    static const char *const parts[] = {TEXT_OF("0", "a", "1") FINISH_OF("0", "2"),
                                        TEXT_OF("1", "b", "10"), FINISH_OF("1", "11") DONE, NULL};
    struct talk t;
    (void)state;
    talk_begin(&t, parts, REQUEST, "stop"); /* After the time limit. */
    go_on(&t, 3);
    fixture_close_session(&t.f);
    struct recorded r = fixture_read(&t.f, 1);
    assert_int_equal(r.results, 1);
    assert_int_equal(r.tails, 1);
    assert_int_equal(count_choices(&r), 2);
    assert_true(lists(r.tail, "findings", "several_choices"));
    recorded_deinit(&r);
    talk_end(&t);
}

/* Nothing is held but [DONE], and the record has what came. */
static void a_choice_that_never_ends_does_not_hold_the_others(void **state) {
    static const char *const parts[] = {TEXT_OF("0", "a", "1") FINISH_OF("0", "2"),
                                        TEXT_OF("1", "b", "10"), DONE, NULL};
    struct talk t;
    (void)state;
    talk_begin(&t, parts, TWO, "stop"); /* Held, it came with a record that has a tail. */
    go_on(&t, 3);
    fixture_close_session(&t.f);
    struct recorded r = fixture_read(&t.f, 1);
    assert_int_equal(r.results, 1);
    assert_int_equal(r.tails, 0);
    assert_int_equal(count_choices(&r), 2);
    assert_string_equal(text_of(r.result, "end"), "complete");
    recorded_deinit(&r);
    talk_end(&t);
}

static void answer_unary_in_steps(struct engine_request *r, void *arg) {
    sem_t *go = arg;
    engine_puts(r, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 14\r\n\r\n"
                   "{\"choices\":[]");
    sem_wait(go);
    engine_puts(r, "}");
}

static void without_edits(struct gateway_session_options *o) {
    o->edits = false;
}

static void the_last_byte_of_a_whole_answer_waits_for_the_record(void **state) {
    struct fixture f;
    sem_t go;
    (void)state;
    sem_init(&go, 0, 0);
    fixture_open(&f, answer_unary_in_steps, &go, without_edits);
    struct agent a = agent_connect_tcp(f.port);
    agent_post(&a, "/v1/chat/completions", gateway_session_token(f.session), SV("{}"));
    struct answer first = agent_read_until(&a, "\"choices\":[");
    assert_bytes(&first.body, SV("{\"choices\":["));
    assert_true(is_silent(&a, 100));
    assert_false(has_result(&f));
    sem_post(&go);
    char rest[8];
    assert_int_equal(recv(a.fd, rest, 2, MSG_WAITALL), 2);
    assert_memory_equal(rest, "]}", 2);
    assert_true(has_result(&f));
    answer_deinit(&first);
    agent_close(&a);
    fixture_close(&f);
    sem_destroy(&go);
}

static void answer_never(struct engine_request *r, void *arg) {
    (void)arg;
    engine_json(r, 200, "{}");
}

static void a_call_that_cannot_be_recorded_is_not_sent(void **state) {
    struct fixture f;
    struct rlimit was;
    struct gateway_session_stats stats;
    (void)state;
    fixture_open(&f, answer_never, NULL, NULL);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
    struct rlimit none = {.rlim_cur = 1, .rlim_max = was.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
    struct answer a = fixture_call(&f, REQUEST);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
    assert_int_equal(a.status, 507);
    assert_non_null(strstr(buf_cstr(&a.body), "can't be recorded"));
    assert_int_equal(engine_requests(f.engine), 0);
    gateway_session_stats(f.session, &stats);
    assert_true(stats.capture_fault);
    assert_int_equal(stats.failed_in_a_row, 0);
    answer_deinit(&a);
    clock_sleep_ms(1100); /* A second after a failure the journal tries again. */
    fixture_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_end_is_held_until_usage_and_late_ids_are_recorded),
        cmocka_unit_test(after_the_time_limit_a_tail_completes_the_result),
        cmocka_unit_test(behind_done_the_agent_gets_its_end_though_the_engine_stays),
        cmocka_unit_test(with_several_choices_only_the_last_one_s_end_is_held),
        cmocka_unit_test(choices_that_end_in_one_event_are_held_with_it),
        cmocka_unit_test(a_choice_that_nobody_asked_for_is_recorded_too),
        cmocka_unit_test(a_choice_that_never_ends_does_not_hold_the_others),
        cmocka_unit_test(the_last_byte_of_a_whole_answer_waits_for_the_record),
        cmocka_unit_test(a_call_that_cannot_be_recorded_is_not_sent),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
