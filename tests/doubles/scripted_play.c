/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/doubles/scripted_play.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/json.h"
#include "tests/doubles/scripted_answer.h"
#include "tests/doubles/scripted_log.h"

#define SEND_BATCH (64u * 1024) /* Without a pace, this much goes out in one write. */
#define REPLY_HEADERS_MAX 16    /* Of a status fault: more than a real answer has. */

struct play {
    struct play_job job;
    struct turn turn;
    struct events events;
    size_t next;       /* The event to send. */
    bool has_waited;   /* The pause before it is over. */
    struct buf pieces; /* Framed chunks on their way out. */
};

static void play_free(struct play *p) {
    turn_deinit(&p->turn);
    events_deinit(&p->events);
    buf_deinit(&p->pieces);
    ask_deinit(&p->job.ask);
    free(p);
}

static void finish(struct play *p, const char *how) {
    scripted_log_end(p->job.log_fd, p->job.number, how, p->next);
    struct exchange *x = p->job.x;
    play_free(p);
    exchange_end(x);
}

static void cut(struct play *p, enum exchange_cut how) {
    scripted_log_end(p->job.log_fd, p->job.number, "fault", p->next);
    struct exchange *x = p->job.x;
    play_free(p);
    exchange_cut(x, how);
}

static void on_gone(struct exchange *x, void *arg) {
    struct play *p = arg;
    scripted_log_end(p->job.log_fd, p->job.number, "gone", p->next);
    play_free(p);
    exchange_cut(x, EXCHANGE_CUT_RESET);
}

static void reply(struct play *p, int status, struct sv type, struct sv body, const char *how) {
    scripted_log_end(p->job.log_fd, p->job.number, how, 0);
    struct server_field fields[] = {{SV("Content-Type"), type}, {SV("Server"), SV("llama.cpp")}};
    size_t n = p->job.script->voice == VOICE_LLAMACPP ? 2 : 1;
    (void)exchange_start(p->job.x, status, fields, n, HTTP1_LENGTH, body.n);
    (void)exchange_send(p->job.x, body);
    exchange_end(p->job.x);
    play_free(p);
}

/* Sends as chunks of at most `split` bytes, each in a write of its own. */
static void send_split(struct play *p, struct sv bytes, size_t split) {
    while (bytes.n > 0) {
        size_t n = split && split < bytes.n ? split : bytes.n;
        (void)exchange_send(p->job.x, (struct sv){bytes.p, n}); /* on_gone tells of failure. */
        bytes = sv_cut(bytes, n);
    }
}

static bool add_framed(struct buf *out, struct sv bytes) {
    char head[HTTP1_CHUNK_HEAD_MAX];
    return buf_add_sv(out, http1_chunk_head(head, bytes.n)) == 0 && buf_add_sv(out, bytes) == 0 &&
           buf_add_sv(out, HTTP1_CHUNK_TAIL) == 0;
}

/* How long to wait before the next event. */
static int64_t pause_before(const struct play *p) {
    const struct scene *c = p->job.scene;
    return p->next == p->events.usage_at && c->usage_delay_ms ? c->usage_delay_ms
                                                              : c->event_delay_ms;
}

/* The event after which the stream does what the fault says. */
static size_t fault_at(const struct play *p) {
    const struct fault *f = &p->job.scene->fault;
    switch (f->kind) {
    case FAULT_EOF:
    case FAULT_CUT:
    case FAULT_RESET:
    case FAULT_HANG:
    case FAULT_ERROR_EVENT:
        return f->after_events < 0 ? 0 : (size_t)f->after_events;
    case FAULT_NO_BLANK_LINE:
        return p->events.n - 1;
    default:
        return SIZE_MAX;
    }
}

static void send_error_event(struct play *p) {
    AUTO_BUF struct buf event = {0};
    const json_t *body = p->job.scene->fault.body;
    int r = buf_adds(&event, "data: {\"error\":");
    if (r == 0) {
        r = body ? json_compact(body, &event)
                 : buf_adds(&event, "{\"message\":\"the engine died\",\"type\":"
                                    "\"InternalServerError\",\"param\":null,\"code\":500}");
    }
    if (r == 0) {
        r = buf_adds(&event, "}\n\ndata: [DONE]\n\n");
    }
    if (r == 0) {
        (void)exchange_send(p->job.x, buf_sv(&event));
    }
    finish(p, "fault");
}

static void send_without_blank_line(struct play *p) {
    struct sv event = events_get(&p->events, p->next++);
    event.n -= p->job.scene->crlf ? 4 : 2;
    (void)exchange_send(p->job.x, event);
    finish(p, "fault");
}

/* Half an event in a chunk that says it is a whole one. */
static void send_cut(struct play *p) {
    char head[HTTP1_CHUNK_HEAD_MAX];
    struct sv event = events_get(&p->events, p->next < p->events.n ? p->next : 0);
    (void)exchange_send_raw(p->job.x, http1_chunk_head(head, event.n));
    (void)exchange_send_raw(p->job.x, (struct sv){event.p, event.n / 2});
    cut(p, EXCHANGE_CUT_FIN);
}

static void do_fault(struct play *p) {
    switch (p->job.scene->fault.kind) {
    case FAULT_EOF:
        finish(p, "fault");
        return;
    case FAULT_CUT:
        send_cut(p);
        return;
    case FAULT_RESET:
        cut(p, EXCHANGE_CUT_RESET);
        return;
    case FAULT_ERROR_EVENT:
        send_error_event(p);
        return;
    case FAULT_NO_BLANK_LINE:
        send_without_blank_line(p);
        return;
    default:
        return; /* FAULT_HANG: until the client leaves. */
    }
}

/* Events that need no pause, up to `stop`, in one write. */
static bool send_batch(struct play *p, size_t stop) {
    buf_reset(&p->pieces);
    do {
        if (!add_framed(&p->pieces, events_get(&p->events, p->next))) {
            cut(p, EXCHANGE_CUT_RESET);
            return false;
        }
        p->next++;
    } while (p->next < stop && p->pieces.len < SEND_BATCH && pause_before(p) == 0);
    (void)exchange_send_raw(p->job.x, buf_sv(&p->pieces));
    return true;
}

static void end_stream(struct play *p) {
    enum fault_kind kind = p->job.scene->fault.kind;
    if (kind != FAULT_OPEN_AFTER_DONE) { /* Which stays open until the client leaves. */
        finish(p, kind == FAULT_NONE ? "complete" : "fault");
    }
}

static void on_paused(struct exchange *x, void *arg);

/* Sends what comes next; false: the stream waits, or has ended. */
static bool send_next(struct play *p) {
    size_t stop = fault_at(p);
    if (p->next == stop) {
        do_fault(p);
        return false;
    }
    if (p->next == p->events.n) {
        end_stream(p);
        return false;
    }
    if (exchange_is_full(p->job.x)) {
        return false; /* on_drain goes on. */
    }
    int64_t pause = pause_before(p);
    if (pause > 0 && !p->has_waited) {
        exchange_after(p->job.x, pause, on_paused, p);
        return false;
    }
    p->has_waited = false;
    if (p->job.scene->split > 0) {
        send_split(p, events_get(&p->events, p->next++), (size_t)p->job.scene->split);
        return true;
    }
    return send_batch(p, stop < p->events.n ? stop : p->events.n);
}

static void pump(struct play *p) {
    while (send_next(p)) {
    }
}

static void on_paused(struct exchange *x, void *arg) {
    (void)x;
    struct play *p = arg;
    p->has_waited = true;
    pump(p);
}

static void on_drain(struct exchange *x, void *arg) {
    (void)x;
    pump(arg);
}

static void start_stream_head(struct play *p) {
    struct server_field fields[] = {{SV("Content-Type"), SV("text/event-stream; charset=utf-8")},
                                    {SV("Server"), SV("llama.cpp")}};
    size_t n = p->job.script->voice == VOICE_LLAMACPP ? 2 : 1;
    (void)exchange_start(p->job.x, 200, fields, n, HTTP1_CHUNKED, 0);
}

static void play_stream(struct play *p) {
    if (events_build(&p->turn, &p->events) < 0) {
        cut(p, EXCHANGE_CUT_RESET);
        return;
    }
    start_stream_head(p);
    exchange_on_drain(p->job.x, on_drain, p);
    pump(p);
}

/* A fault inside one body comes in its middle. */
static void play_unary_fault(struct play *p, struct sv body) {
    struct server_field type = {SV("Content-Type"), SV("application/json")};
    (void)exchange_start(p->job.x, 200, &type, 1, HTTP1_LENGTH, body.n);
    (void)exchange_send(p->job.x, (struct sv){body.p, body.n / 2});
    if (p->job.scene->fault.kind == FAULT_RESET) {
        cut(p, EXCHANGE_CUT_RESET);
    } else if (p->job.scene->fault.kind != FAULT_HANG) {
        cut(p, EXCHANGE_CUT_FIN);
    }
}

static void play_unary(struct play *p) {
    AUTO_BUF struct buf body = {0};
    if (answer_unary(&p->turn, &body) < 0) {
        cut(p, EXCHANGE_CUT_RESET);
        return;
    }
    switch (p->job.scene->fault.kind) {
    case FAULT_RESET:
    case FAULT_HANG:
    case FAULT_CUT:
    case FAULT_EOF:
        play_unary_fault(p, buf_sv(&body));
        return;
    default:
        reply(p, 200, SV("application/json"), buf_sv(&body), "complete");
    }
}

static void play_status(struct play *p) {
    const struct fault *f = &p->job.scene->fault;
    struct server_field fields[REPLY_HEADERS_MAX] = {{SV("Content-Type"), SV("application/json")}};
    size_t n = 1;
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)f->headers, name, value) {
        if (n < REPLY_HEADERS_MAX && json_is_string(value)) {
            bool is_type = sv_eq_nocase(sv_from(name), SV("content-type"));
            fields[is_type ? 0 : n++] =
                (struct server_field){sv_from(name), sv_from(json_string_value(value))};
        }
    }
    AUTO_BUF struct buf body = {0};
    int status = f->status ? (int)f->status : 500;
    int r = json_is_string(f->body) ? buf_adds(&body, json_string_value(f->body))
            : f->body               ? json_compact(f->body, &body)
                      : answer_error(status, "InternalServerError", "scripted fault", &body);
    if (r == 0) {
        (void)exchange_start(p->job.x, status, fields, n, HTTP1_LENGTH, body.len);
        (void)exchange_send(p->job.x, buf_sv(&body));
    }
    finish(p, "fault");
}

static void play_raw(struct play *p) {
    start_stream_head(p);
    send_split(p, (struct sv){p->job.scene->fault.raw, p->job.scene->fault.raw_n},
               (size_t)p->job.scene->split);
    finish(p, "fault");
}

/* Before the head: silence, a reset, or an end without an answer. */
static void play_no_head(struct play *p) {
    if (p->job.scene->fault.kind == FAULT_RESET) {
        cut(p, EXCHANGE_CUT_RESET);
    } else if (p->job.scene->fault.kind != FAULT_HANG) {
        cut(p, EXCHANGE_CUT_FIN);
    }
}

static void play_begin(struct exchange *x, void *arg) {
    (void)x;
    struct play *p = arg;
    const struct fault *f = &p->job.scene->fault;
    if (f->kind == FAULT_STATUS) {
        play_status(p);
    } else if (f->kind == FAULT_RAW) {
        play_raw(p);
    } else if (f->kind != FAULT_NONE && f->after_events < 0) {
        play_no_head(p);
    } else if (p->job.ask.stream && f->kind != FAULT_JSON) {
        play_stream(p);
    } else {
        play_unary(p);
    }
}

void play_start(const struct play_job *job) {
    struct play *p = calloc(1, sizeof *p);
    if (!p) {
        abort(); /* A test server without memory has no answer to give. */
    }
    p->job = *job;
    p->turn = (struct turn){.script = job->script,
                            .scene = job->scene,
                            .ask = &p->job.ask,
                            .number = job->number,
                            .created = (long long)clock_unix()};
    exchange_on_gone(job->x, on_gone, p);
    if (turn_begin(&p->turn) < 0) {
        cut(p, EXCHANGE_CUT_RESET);
    } else if (job->scene->delay_ms > 0) {
        exchange_after(job->x, job->scene->delay_ms, play_begin, p);
    } else {
        play_begin(job->x, p);
    }
}
