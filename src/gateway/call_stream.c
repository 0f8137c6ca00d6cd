/* SPDX-License-Identifier: BSD-3-Clause */
/* A streamed answer: events are read, put right, recorded and sent on. */
#include "base/clock.h"
#include "base/json.h"
#include "gateway/call.h"

static void on_hold_over(struct exchange *x, void *arg) {
    struct call *c = arg;
    (void)x;
    if (c->is_holding && !c->is_ending) {
        c->hold_over = true;
        call_advance(c);
    }
}

/* From here on nothing goes to the agent before the result is in the journal. */
static void hold(struct call *c) {
    if (c->is_holding || !c->record) {
        return;
    }
    c->is_holding = true;
    if (c->x && c->written == WRITTEN_NONE && !c->journal_pending) {
        c->hold_over = exchange_after(c->x, CALL_HOLD_MS, on_hold_over, c) < 0;
    }
}

int call_stream_pass(struct call *c, struct sv payload) {
    return buf_add_sv(c->is_holding ? &c->held : &c->out, payload);
}

static int send_on(struct call *c, struct sv bytes) {
    return c->copies ? 0 : call_stream_pass(c, bytes);
}

/* An event of several data lines: the edits are made where they stand. */
static int send_joined(struct call *c, const struct sse_event *event) {
    AUTO_BUF struct buf unused = {0};
    int rc = restore_chunk(&c->plan, &c->chunk, event->data, &c->splice, &unused);
    return rc < 0 ? rc : call_edit_lines(event, &c->splice, c->is_holding ? &c->held : &c->out);
}

static int send_restored(struct call *c, const struct sse_event *event) {
    const char *raw_end = event->raw.p + event->raw.n;
    if (restore_drops(&c->plan, &c->chunk)) {
        return 0;
    }
    if (event->data.p < event->raw.p || event->data.p > raw_end) {
        return send_joined(c, event);
    }
    return restore_chunk(&c->plan, &c->chunk, event->raw, &c->splice,
                         c->is_holding ? &c->held : &c->out);
}

/* The last choice that was asked for has come to its end. */
static bool is_finished(const struct call *c) {
    return c->capture.n_finished > 0 && c->capture.n_finished >= c->n_choices;
}

/* What stands in c->chunk. */
static int take_parsed(struct call *c, const struct sse_event *event) {
    int rc = 0;
    if (c->written != WRITTEN_WHOLE) { /* Else the journal has the lists in its hands. */
        rc = capture_add(&c->capture, &c->chunk);
    }
    if (rc < 0) {
        return rc;
    }
    if (is_finished(c) && c->written == WRITTEN_NONE) {
        hold(c);
    }
    return c->restores ? send_restored(c, event) : send_on(c, event->raw);
}

static int take_chunk(struct call *c, const struct sse_event *event) {
    int rc = chunk_parse(&c->chunk, event->data);
    if (rc < 0) {
        c->capture.n_bad_events++;
        return rc == ERR_NOMEM ? rc : send_on(c, event->raw);
    }
    return take_parsed(c, event);
}

/* Most events are one line that holds a chunk like those before it, and came whole: then its end
 * need not be looked for. *used: 0 if it is not so. */
static int take_known(struct call *c, struct sv in, size_t *used) {
    static const struct sv front = {"data: ", 6};
    static const struct sv end = {"\n\n", 2};
    *used = 0;
    if (!sv_starts_with(in, front) || !sse_is_between(&c->sse)) {
        return 0;
    }
    size_t n = chunk_take_known(&c->chunk, sv_cut(in, front.n));
    if (n == 0 || !sv_starts_with(sv_cut(in, front.n + n), end)) {
        return 0;
    }
    const struct sse_event event = {.raw = {in.p, front.n + n + end.n},
                                    .data = {in.p + front.n, n},
                                    .has_data = true,
                                    .whole = true};
    *used = event.raw.n;
    sse_pass(&c->sse, event.raw);
    if (c->first_us == 0) {
        c->first_us = clock_us();
    }
    return take_parsed(c, &event);
}

static int take_event(struct call *c, const struct sse_event *event) {
    if (!event->has_data) {
        return send_on(c, event->raw);
    }
    if (c->first_us == 0) {
        c->first_us = clock_us();
    }
    if (sv_eq(sv_trim(event->data), SV("[DONE]"))) {
        hold(c);
        c->saw_done = true;
        c->is_ending = true;
        return send_on(c, event->raw);
    }
    return take_chunk(c, event);
}

int call_stream_body(struct call *c, struct sv payload, struct err *err) {
    struct sse_event event;
    size_t used;
    int rc = 0;
    do {
        rc = take_known(c, payload, &used);
        if (rc == 0 && used == 0 && (rc = sse_feed(&c->sse, payload, &used, &event, err)) > 0) {
            rc = take_event(c, &event);
        }
        payload = sv_cut(payload, used);
    } while (rc == 0 && payload.n > 0);
    return rc < 0 ? err_set(err, rc, "cannot take the engine's event: %s", err_name(rc)) : 0;
}

int call_stream_end(struct call *c) {
    struct sse_event event;
    int rc = sse_finish(&c->sse, &event, NULL);
    if (rc <= 0) {
        return rc;
    }
    hold(c);
    size_t before = c->held.len + c->out.len;
    uint64_t bad = c->capture.n_bad_events;
    rc = take_event(c, &event);
    bool sent = c->held.len + c->out.len > before;
    if (rc < 0 || !sent || event.whole || !c->edits || c->copies || bad < c->capture.n_bad_events) {
        return rc;
    }
    /* Strict readers drop a last event without its blank line, though it is whole. */
    char last = event.raw.p[event.raw.n - 1];
    return send_on(c, last == '\n' || last == '\r' ? SV("\n") : SV("\n\n"));
}

/* Agents that see a stream break off without a word try again at once, for ever. OpenCode waits
 * between its tries after an error of this type, and gives up after one that it does not know. */
void call_stream_error(struct call *c, const char *code, const char *why) {
    AUTO_BUF struct buf event = {0};
    int rc = buf_adds(&event, "data: {\"error\":{\"message\":");
    rc = rc < 0 ? rc : json_quote(sv_from(why), &event);
    rc = rc < 0 ? rc : buf_addf(&event, ",\"type\":\"server_error\",\"code\":\"%s\"}}\n\n", code);
    if (rc == 0) {
        reply_send(c, buf_sv(&event));
    }
}
