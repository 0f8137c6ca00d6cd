/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/server/tool/bench.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/thread.h"
#include "tests/testing.h"

#define PATIENCE_MS 20000

int bench_set_up(void **state) {
    struct bench *b = calloc(1, sizeof *b);
    struct err err = {0};
    fake_ground_set_up(&b->ground, "tool", &b->rollout);
    b->options = (struct tool_options){.rollout = &b->rollout};
    assert_ok(loop_new(&b->loop, &err), &err);
    *state = b;
    return 0;
}

void bench_open(struct bench *b) {
    struct err err = {0};
    assert_ok(tool_box_new(&b->options, &b->box, &err), &err);
}

int bench_take_down(void **state) {
    struct bench *b = *state;
    loop_free(b->loop);
    tool_box_free(b->box);
    fake_ground_take_down(&b->ground);
    free(b);
    return 0;
}

static void on_progress(void *arg, const struct tool_progress *p) {
    struct caller *c = arg;
    pthread_mutex_lock(&c->lock);
    BUG_IF(!loop_is_current(c->bench->loop) || c->done);
    BUG_IF(!p->tick && buf_addf(&c->events, "%s: %s\n", p->phase, p->text) < 0);
    pthread_cond_signal(&c->changed);
    pthread_mutex_unlock(&c->lock);
}

static void on_done(void *arg, const struct tool_result *r) {
    struct caller *c = arg;
    pthread_mutex_lock(&c->lock);
    BUG_IF(!loop_is_current(c->bench->loop) || c->done);
    c->done = true;
    c->outcome = r->outcome;
    BUG_IF(buf_add_sv(&c->text, r->text) < 0 || buf_add_sv(&c->quoted, r->quoted) < 0);
    snprintf(c->task_id, sizeof c->task_id, "%s", r->task_id ? r->task_id : "");
    c->has_reward = r->has_reward;
    c->reward = r->reward;
    pthread_cond_signal(&c->changed);
    pthread_mutex_unlock(&c->lock);
}

struct start {
    struct caller *caller;
    const json_t *arguments;
    int code;
};

static void start(void *arg) {
    struct start *s = arg;
    struct caller *c = s->caller;
    struct tool_watch w = {c->bench->loop, on_progress, on_done, c};
    s->code = tool_call_start(c->bench->box, s->arguments, &w, &c->call, NULL);
}

void caller_start(struct caller *c, struct bench *b, const char *arguments) {
    struct err err = {0};
    AUTO_JSON json_t *parsed = NULL;
    if (arguments) {
        assert_ok(json_parse(sv_from(arguments), "arguments", &parsed, &err), &err);
    }
    *c = (struct caller){.bench = b};
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->changed, NULL);
    struct start s = {c, parsed, 0};
    loop_call(b->loop, start, &s);
    assert_int_equal(s.code, 0);
}

void caller_wait_event(struct caller *c, const char *words) {
    deadline_ms until = deadline_in_ms(PATIENCE_MS);
    pthread_mutex_lock(&c->lock);
    while (!strstr(buf_cstr(&c->events), words) && !c->done && !deadline_passed(until)) {
        thread_wait(&c->changed, &c->lock, until);
    }
    bool seen = strstr(buf_cstr(&c->events), words) != NULL;
    pthread_mutex_unlock(&c->lock);
    if (!seen) {
        fail_msg("'%s' was not told; events: %s; end: %s", words, buf_cstr(&c->events),
                 buf_cstr(&c->text));
    }
}

void caller_wait(struct caller *c) {
    deadline_ms until = deadline_in_ms(PATIENCE_MS);
    pthread_mutex_lock(&c->lock);
    while (!c->done && !deadline_passed(until)) {
        thread_wait(&c->changed, &c->lock, until);
    }
    bool done = c->done;
    pthread_mutex_unlock(&c->lock);
    assert_true(done);
}

static void cancel(void *arg) {
    struct caller *c = arg;
    if (!c->done) {
        tool_call_cancel(c->call);
    }
}

void caller_cancel(struct caller *c) {
    loop_call(c->bench->loop, cancel, c);
}

void caller_deinit(struct caller *c) {
    buf_deinit(&c->events);
    buf_deinit(&c->text);
    buf_deinit(&c->quoted);
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->lock);
}
