/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/rand.h"
#include "base/thread.h"
#include "rollout/result.h"
#include "sandbox/sandbox.h"
#include "server/tool/answer.h"
#include "server/tool/arguments.h"
#include "server/tool/box.h"

/* As a batch's threads: what an engine wrote nests deeply. */
#define STACK_BYTES (1u << 20)

/* A progress message on its way to the loop. */
struct note {
    struct tool_call *call;
    struct tool_progress progress;
    char phase[16];
    char text[256];
};

static void deliver_note(void *arg) {
    struct note *n = arg;
    n->progress.phase = n->phase;
    n->progress.text = n->text;
    n->call->watch.on_progress(n->call->watch.arg, &n->progress);
    free(n);
}

void call_tell(struct tool_call *c, const struct tool_progress *p) {
    struct note *n = c->watch.on_progress ? calloc(1, sizeof *n) : NULL;
    if (!n) {
        return; /* Without memory a message less. */
    }
    n->call = c;
    n->progress = *p;
    snprintf(n->phase, sizeof n->phase, "%s", p->phase);
    snprintf(n->text, sizeof n->text, "%s", p->text);
    loop_post(c->watch.loop, deliver_note, n);
}

/* Into a buffer of its own, since a note takes no long text. */
static const char *discreet(const struct tool_call *c, const char *text, struct buf *out) {
    return discreet_text(&c->box->places, sv_from(text), out) < 0 ? "" : buf_cstr(out);
}

static void on_event(void *arg, const struct rollout_event *e) {
    struct tool_call *c = arg;
    AUTO_BUF struct buf text = {0};
    if (!c->began) {
        c->began = true;
        ledger_began(c);
    }
    call_tell(c, &(struct tool_progress){.phase = rollout_phase_name(e->phase),
                                         .text = discreet(c, e->text, &text),
                                         .tick = e->tick,
                                         .elapsed_s = e->elapsed_s,
                                         .calls = e->calls,
                                         .completion_tokens = e->completion_tokens});
}

static void one_line(char *text, size_t n) {
    for (size_t i = 0; i < n; i++) {
        text[i] = (unsigned char)text[i] < ' ' || text[i] == 0x7f ? ' ' : text[i];
    }
}

/* What the call itself named it may be told, where it did something wrong. */
static int tell_fault(const struct tool_call *c, const struct err *why, bool invalid,
                      struct buf *out) {
    AUTO_FREE char *known = invalid && c->arguments ? json_dumps(c->arguments, 0) : NULL;
    return discreet_fault(&c->box->places, known, sv_from(why->msg), out);
}

static void fail(struct tool_call *c, struct err *why) {
    bool invalid = why->code == ERR_INPUT || why->code == ERR_DENIED || why->code == ERR_USAGE ||
                   why->code == ERR_UNSUPPORTED;
    c->outcome = why->code == ERR_CANCELLED ? TOOL_CANCELLED : invalid ? TOOL_INVALID : TOOL_FAILED;
    buf_reset(&c->answer.text);
    buf_reset(&c->answer.quoted);
    /* One line: a name that the call gave may hold anything. */
    one_line(why->msg, strlen(why->msg));
    ledger_never_began(c, why);
    if (tell_fault(c, why, invalid, &c->answer.text) < 0 ||
        json_quote(buf_sv(&c->answer.text), &c->answer.quoted) < 0) {
        buf_reset(&c->answer.quoted); /* Told as want of memory. */
    }
}

static const char *text_in(const json_t *object, const char *field) {
    const char *text = json_string_value(json_object_get(object, field));
    return text ? text : "";
}

/* Of a result that says less than is known, the log has all. */
static int hide_paths(const struct tool_call *c, json_t *result, struct err *err) {
    AUTO_BUF struct buf whole = {0};
    if (discreet_result(&c->box->places, result, &whole) < 0) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    if (whole.len > 0) {
        one_line(whole.data, whole.len);
        log_warning("%s: %s", c->rollout, buf_cstr(&whole));
    }
    return 0;
}

static int give_result(struct tool_call *c, const struct tool_request *q, json_t *result,
                       const char *dir, struct err *err) {
    int r =
        q->ignored_template
            ? answer_add_finding(result, "template_ignored",
                                 "the backend has no templates; the sandbox is its usual one", err)
            : 0;
    r = r < 0 ? r : hide_paths(c, result, err);
    r = r < 0 ? r
              : answer_make(result,
                            &(struct answer_options){.dir = dir,
                                                     .include_prompt_ids = q->include_prompt_ids},
                            &c->answer, err);
    if (r < 0) {
        return r;
    }
    c->result = json_incref(result);
    c->outcome = TOOL_DONE;
    return 0;
}

/* It began, and its folder could not be written. */
static json_t *without_result(const struct tool_call *c, const struct tool_request *q,
                              const struct rollout_names *names, double started,
                              const struct err *why) {
    const struct rollout_options *o = &q->options;
    const char *mode = o->mode == ROLLOUT_BLACK_BOX ? "black_box" : "transparent_proxy";
    AUTO_BUF struct buf text = {0};
    struct err told = {0};
    log_warning("%s: %s", names->rollout, why->msg);
    if (discreet_fault(&c->box->places, NULL, sv_from(why->msg), &text) < 0) {
        return NULL;
    }
    (void)err_set(&told, why->code, "%s", buf_cstr(&text));
    return answer_without_result(&(struct answer_known){.task_id = q->task.id,
                                                        .mode = mode,
                                                        .run = c->box->records->run,
                                                        .rollout = names->rollout,
                                                        .backend = o->using     ? o->using->name
                                                                   : o->backend ? o->backend
                                                                                : "local",
                                                        .agent = o->running ? o->running->name
                                                                 : o->agent ? o->agent
                                                                            : "opencode",
                                                        .model = q->endpoint.model,
                                                        .started = started},
                                 &told);
}

static int roll(struct tool_call *c, struct tool_request *q, struct rollout_factory *f,
                struct err *err) {
    struct rollout_result result = {0};
    struct rollout_control control = {
        .cancel = c->cancel, .hard = c->box->hard, .progress = on_event, .progress_arg = c};
    struct rollout_names names = {.rollout = c->rollout};
    double started = clock_unix();
    unsigned index = 0;
    rand_bytes(&index, sizeof index);
    store_name_from(q->task.id, index, c->rollout);
    int r = rollout_run(f, &q->task, &names, &control, &result, err);
    if (r < 0 && c->began) {
        result.json = without_result(c, q, &names, started, err);
        r = result.json ? 0 : err_set(err, ERR_NOMEM, "out of memory");
    }
    if (r == 0) {
        ledger_ended(c, result.json, clock_unix() - started);
    }
    r = r < 0 ? r : give_result(c, q, result.json, result.dir, err);
    rollout_result_deinit(&result);
    return r;
}

static int in_turn(struct tool_call *c, struct tool_request *q, struct err *err) {
    struct rollout_factory *f = NULL;
    q->options.records = c->box->records;
    int r = rollout_factory_new(&q->options, &f, err);
    if (r < 0) {
        return r;
    }
    int64_t since = clock_ms();
    r = box_take_turn(c, err);
    if (r == 0) {
        c->waited_s = (double)(clock_ms() - since) / 1000;
        r = roll(c, q, f, err);
        box_end_turn(c->box);
    }
    rollout_factory_free(f);
    return r;
}

static void call_free(struct tool_call *c) {
    answer_deinit(&c->answer);
    json_decref(c->result);
    json_decref(c->arguments);
    cancel_free(c->cancel);
    free(c);
}

static void deliver_end(void *arg) {
    struct tool_call *c = arg;
    bool done = c->outcome == TOOL_DONE;
    bool told = c->answer.quoted.len > 0;
    const json_t *reward = json_object_get(c->result, "reward");
    pthread_join(c->thread, NULL); /* This was the last that it did. */
    box_leave(c);
    c->watch.on_done(c->watch.arg,
                     &(struct tool_result){
                         .outcome = c->outcome,
                         .text = told ? buf_sv(&c->answer.text) : SV("out of memory"),
                         .quoted = told ? buf_sv(&c->answer.quoted) : SV("\"out of memory\""),
                         .task_id = done ? text_in(c->result, "task_id") : NULL,
                         .sandbox_id = done ? text_in(c->result, "sandbox_id") : NULL,
                         .has_reward = json_is_number(reward),
                         .reward = json_number_value(reward),
                     });
    call_free(c);
}

static void *run(void *arg) {
    struct tool_call *c = arg;
    struct tool_request q = {0};
    struct err err = {0};
    int r = tool_request_read(&c->box->o, c->arguments, &q, &err);
    if (r == 0) {
        r = in_turn(c, &q, &err);
        tool_request_deinit(&q);
    }
    if (r < 0) {
        fail(c, &err);
    }
    loop_post(c->watch.loop, deliver_end, c);
    return NULL;
}

static int call_begin(struct tool_call *c, const json_t *arguments, struct err *err) {
    if (arguments && !(c->arguments = json_deep_copy(arguments))) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    int r = cancel_new_under(c->box->soft, &c->cancel, err);
    if (r < 0) {
        return r;
    }
    int why = thread_start(&c->thread, STACK_BYTES, run, c);
    return why ? err_sys(err, ERR_SYS, why, "cannot start a thread for a rollout") : 0;
}

static void deliver_refusal(void *arg) {
    struct tool_call *c = arg;
    c->watch.on_done(c->watch.arg, &(struct tool_result){.outcome = TOOL_FAILED,
                                                         .text = buf_sv(&c->answer.text),
                                                         .quoted = buf_sv(&c->answer.quoted)});
    call_free(c);
}

int tool_call_start(struct tool_box *b, const json_t *arguments, const struct tool_watch *w,
                    struct tool_call **out, struct err *err) {
    struct tool_call *c = calloc(1, sizeof *c);
    struct err refused = {0};
    if (!c) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    c->box = b;
    c->watch = *w;
    snprintf(c->client, sizeof c->client, "%s", w->client ? w->client : "-");
    c->watch.client = NULL; /* It was lent. */
    if (box_admit(c, &refused) < 0) {
        fail(c, &refused);
        loop_post(w->loop, deliver_refusal, c);
        *out = c;
        return 0;
    }
    int r = call_begin(c, arguments, err);
    if (r < 0) {
        box_leave(c);
        call_free(c);
        return r;
    }
    *out = c;
    return 0;
}

void tool_call_cancel(struct tool_call *c) {
    cancel_throw(c->cancel);
    pthread_mutex_lock(&c->box->lock);
    pthread_cond_broadcast(&c->box->turn);
    pthread_mutex_unlock(&c->box->lock);
}
