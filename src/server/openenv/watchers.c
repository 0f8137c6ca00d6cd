/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/openenv/watchers.h"

#include <stdlib.h>
#include <time.h>

#include "base/json.h"
#include "base/mem.h"
#include "net/websocket.h"

#define HEARD_MAX 65536 /* Keep-alives are a few bytes. */

struct watcher {
    struct watcher *prev, *next;
    struct watchers *all;
    struct websocket *socket;
};

struct watched_step {
    struct watched_step *next;
    struct buf text;
};

/* --- the episode --- */

static void drop_oldest(struct watchers *w) {
    struct watched_step *s = w->steps;
    w->steps = s->next;
    w->last = w->steps ? w->last : NULL;
    w->n_steps--;
    w->bytes -= s->text.len;
    buf_deinit(&s->text);
    free(s);
}

static void forget_steps(struct watchers *w) {
    while (w->steps) {
        drop_oldest(w);
    }
    buf_reset(&w->observation);
}

/* Takes the text. */
static void keep_step(struct watchers *w, struct buf *text) {
    struct watched_step *s = calloc(1, sizeof *s);
    if (!s) {
        return; /* One step less to look at. */
    }
    s->text = *text;
    *text = (struct buf){0};
    *(w->last ? w->last : &w->steps) = s;
    w->last = &s->next;
    w->n_steps++;
    w->bytes += s->text.len;
    while (w->steps->next && (w->n_steps > WATCHERS_STEPS_MAX || w->bytes > WATCHERS_BYTES_MAX)) {
        drop_oldest(w);
    }
}

/* The caller owns it; NULL: no memory. */
static json_t *answer_of(struct sv payload) {
    json_t *answer = NULL;
    if (payload.n > WATCHERS_ANSWER_MAX || json_parse(payload, "answer", &answer, NULL) < 0) {
        return json_pack("{s:{s:I}, s:n, s:b}", "observation", "bytes", (json_int_t)payload.n,
                         "reward", "done", 0);
    }
    return answer;
}

static void note_observation(struct watchers *w, const json_t *answer) {
    buf_reset(&w->observation);
    if (json_compact(json_object_get(answer, "observation"), &w->observation) < 0) {
        buf_reset(&w->observation);
    }
}

static int put_steps(const struct watchers *w, struct buf *out) {
    int r = 0;
    for (const struct watched_step *s = w->steps; s && r == 0; s = s->next) {
        r = s == w->steps ? 0 : buf_addc(out, ',');
        r = r < 0 ? r : buf_add_sv(out, buf_sv(&s->text));
    }
    return r;
}

static int put_state(const struct watchers *w, const struct environment *shown, struct buf *out) {
    int r = buf_adds(out, "{\"type\":\"state_update\",\"episode_state\":{\"episode_id\":");
    r = r < 0 ? r : shown ? json_quote(sv_from(shown->episode_id), out) : buf_adds(out, "null");
    r = r < 0 ? r
              : buf_addf(out, ",\"step_count\":%llu,\"current_observation\":",
                         shown ? shown->step_count : 0);
    r = r < 0                ? r
        : w->observation.len ? buf_add_sv(out, buf_sv(&w->observation))
                             : buf_adds(out, "null");
    r = r < 0 ? r : buf_adds(out, ",\"action_logs\":[");
    r = r < 0 ? r : put_steps(w, out);
    return r < 0 ? r : buf_addf(out, "],\"is_reset\":%s}}", w->is_reset ? "true" : "false");
}

/* --- who looks at it --- */

static void end(struct watcher *one) {
    *(one->prev ? &one->prev->next : &one->all->first) = one->next;
    if (one->next) {
        one->next->prev = one->prev;
    }
    one->all->n--;
    free(one);
}

static void on_text(struct websocket *w, struct sv text, void *arg) {
    (void)w;
    (void)text;
    (void)arg;
}

static void on_gone(struct websocket *w, void *arg) {
    (void)w;
    end(arg);
}

static void tell(struct watcher *one, struct sv text) {
    if (websocket_unsent(one->socket) > WATCHERS_UNSENT_MAX ||
        websocket_send(one->socket, text) == ERR_LIMIT) {
        websocket_close(one->socket, WEBSOCKET_POLICY, SV("it reads too slowly"));
        end(one);
    }
}

static void tell_all(struct watchers *w, const struct environment *shown) {
    AUTO_BUF struct buf text = {0};
    if (!w->first || put_state(w, shown, &text) < 0) {
        return;
    }
    for (struct watcher *one = w->first, *next; one; one = next) {
        next = one->next;
        tell(one, buf_sv(&text));
    }
}

void watchers_join(struct watchers *w, struct exchange *x, const struct environment *shown) {
    AUTO_BUF struct buf text = {0};
    struct watcher *one = calloc(1, sizeof *one);
    const struct websocket_options o = {
        .message_max = HEARD_MAX, .on_text = on_text, .on_gone = on_gone, .arg = one};
    if (!one) {
        exchange_cut(x, EXCHANGE_CUT_RESET);
        return;
    }
    if (websocket_accept(x, &o, &one->socket, NULL) < 0) {
        free(one);
        return;
    }
    if (w->n >= WATCHERS_MAX || put_state(w, shown, &text) < 0) {
        websocket_close(one->socket, WEBSOCKET_POLICY, SV("too many look at this page"));
        free(one);
        return;
    }
    one->all = w;
    one->next = w->first;
    if (w->first) {
        w->first->prev = one;
    }
    w->first = one;
    w->n++;
    tell(one, buf_sv(&text));
}

void watchers_tell_reset(struct watchers *w, const struct environment *shown, struct sv payload) {
    AUTO_JSON json_t *answer = answer_of(payload);
    forget_steps(w);
    note_observation(w, answer);
    w->is_reset = true;
    tell_all(w, shown);
}

void watchers_tell_step(struct watchers *w, const struct environment *shown, const json_t *action,
                        struct sv payload) {
    AUTO_JSON json_t *answer = answer_of(payload);
    AUTO_BUF struct buf text = {0};
    char when[32] = "";
    time_t now = time(NULL);
    struct tm utc;
    (void)strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
    AUTO_JSON json_t *log = json_pack(
        "{s:s, s:O, s:O, s:O, s:O, s:I}", "timestamp", when, "action", action, "observation",
        json_object_get(answer, "observation"), "reward", json_object_get(answer, "reward"), "done",
        json_object_get(answer, "done"), "step_count", (json_int_t)shown->step_count);
    note_observation(w, answer);
    w->is_reset = false;
    if (log && json_compact(log, &text) == 0) {
        keep_step(w, &text);
    }
    tell_all(w, shown);
}

void watchers_end(struct watchers *w) {
    while (w->first) {
        websocket_close(w->first->socket, WEBSOCKET_GOING_AWAY, SV("the server ends"));
        end(w->first);
    }
    forget_steps(w);
    buf_deinit(&w->observation);
}
