/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/tool/box.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/thread.h"
#include "server/tool/arguments.h"
#include "server/tool/rules.h"

#define TICK_MS 1000 /* As a rollout's own. */

static int box_begin(struct tool_box *b, struct err *err) {
    AUTO_JSON json_t *schema = argument_schema(&b->o);
    const struct rollout_records_options ro = {
        .runs_dir = b->rollout.runs_dir,
        .run = b->rollout.run,
        .keep_raw = b->rollout.keep_raw,
        .durable = b->rollout.durable,
        .public_url = json_string_value(json_object_get(b->o.config, "public_url")),
        .listen = json_string_value(json_object_get(b->o.config, "listen")),
        .clients_max = b->o.clients_max,
    };
    int r = rules_check(b->o.allow, err);
    r = r < 0 || !b->o.hides_paths ? r : host_places_find(&b->o, &b->places, err);
    r = r < 0 ? r : rollout_records_new(&ro, &b->records, err);
    r = r < 0 ? r : cancel_new(&b->hard, err);
    r = r < 0 ? r : cancel_new_under(b->hard, &b->soft, err);
    if (r == 0 && (!schema || json_compact(schema, &b->schema_text) < 0)) {
        r = err_set(err, ERR_NOMEM, "out of memory");
    }
    return r;
}

int tool_box_new(const struct tool_options *o, struct tool_box **out, struct err *err) {
    struct tool_box *b = calloc(1, sizeof *b);
    if (!b) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    b->o = *o;
    b->rollout = o->rollout ? *o->rollout : (struct rollout_options){0};
    b->o.rollout = &b->rollout;
    b->concurrent_max = o->concurrent_max ? o->concurrent_max : TOOL_CONCURRENT_DEFAULT;
    pthread_mutex_init(&b->lock, NULL);
    pthread_cond_init(&b->turn, NULL);
    int r = box_begin(b, err);
    if (r < 0) {
        tool_box_free(b);
        return r;
    }
    *out = b;
    return 0;
}

/* The machine or the Hub may be mended while the server runs; its options are not. */
static bool may_be_mended(int code) {
    return code == ERR_ENVIRONMENT || code == ERR_TIMEOUT || code == ERR_PROTOCOL ||
           err_is_retryable(code);
}

int tool_box_check(struct tool_box *b, struct err *err) {
    struct tool_options o = b->o;
    struct tool_request q = {0};
    struct rollout_factory *f = NULL;
    AUTO_JSON json_t *arguments = json_pack("{s:s}", "instruction", "none");
    if (!arguments) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    /* Which model, calls may say. */
    o.endpoint = (struct endpoint_args){.base_url = "https://model.invalid/v1", .model = "any"};
    int r = tool_request_read(&o, arguments, &q, err);
    if (r == 0) {
        q.options.records = b->records;
        r = rollout_factory_new(&q.options, &f, err);
        rollout_factory_free(f);
        tool_request_deinit(&q);
    }
    if (may_be_mended(r) && err) {
        log_warning("calls will fail: %s", err->msg);
        r = 0;
    }
    return r == 0 && b->records->public_url ? rollout_records_open(b->records, err) : r;
}

void tool_box_free(struct tool_box *b) {
    if (!b) {
        return;
    }
    BUG_IF(b->calls > 0);
    buf_deinit(&b->schema_text);
    host_places_deinit(&b->places);
    rollout_records_free(b->records);
    cancel_free(b->soft);
    cancel_free(b->hard);
    pthread_cond_destroy(&b->turn);
    pthread_mutex_destroy(&b->lock);
    free(b);
}

void tool_box_refuse(struct tool_box *b) {
    pthread_mutex_lock(&b->lock);
    b->refuses = true;
    pthread_cond_broadcast(&b->turn);
    pthread_mutex_unlock(&b->lock);
}

void tool_box_cancel(struct tool_box *b, bool hard) {
    tool_box_refuse(b);
    cancel_throw(hard ? b->hard : b->soft);
    pthread_mutex_lock(&b->lock);
    pthread_cond_broadcast(&b->turn);
    pthread_mutex_unlock(&b->lock);
}

unsigned tool_box_calls(struct tool_box *b) {
    pthread_mutex_lock(&b->lock);
    unsigned n = b->calls;
    pthread_mutex_unlock(&b->lock);
    return n;
}

/* The next four with the lock held. */
static void line_up(struct tool_call *c) {
    struct tool_call **at = &c->box->first_waiting;
    while (*at) {
        at = &(*at)->next_waiting;
    }
    c->next_waiting = NULL;
    c->is_in_line = true;
    *at = c;
}

static void step_out(struct tool_call *c) {
    struct tool_call **at = &c->box->first_waiting;
    if (!c->is_in_line) {
        return;
    }
    while (*at != c) {
        at = &(*at)->next_waiting;
    }
    *at = c->next_waiting;
    c->is_in_line = false;
    pthread_cond_broadcast(&c->box->turn);
}

/* How many came before it, and still wait; or of them those that are ready. */
static unsigned before(const struct tool_call *c, bool ready) {
    unsigned n = 0;
    for (const struct tool_call *at = c->box->first_waiting; at != c; at = at->next_waiting) {
        n += !ready || at->is_ready;
    }
    return n;
}

static bool has_to_wait(const struct tool_call *c) {
    return before(c, /* ready= */ true) > 0 || c->box->running >= c->box->concurrent_max;
}

int box_admit(struct tool_call *c, struct err *err) {
    struct tool_box *b = c->box;
    pthread_mutex_lock(&b->lock);
    unsigned most = b->concurrent_max + TOOL_WAITING_MAX;
    int r =
        b->refuses ? err_set(err, ERR_STATE, "the server is ending")
        : b->calls >= most
            ? err_set(err, ERR_QUOTA, "busy: %u rollouts run or wait (try again later)", b->calls)
            : 0;
    if (r == 0) {
        b->calls++;
        line_up(c);
    }
    pthread_mutex_unlock(&b->lock);
    return r;
}

void box_leave(struct tool_call *c) {
    pthread_mutex_lock(&c->box->lock);
    step_out(c);
    c->box->calls--;
    pthread_mutex_unlock(&c->box->lock);
}

static void tell_place(struct tool_call *c, unsigned place, bool tick, int64_t since_ms) {
    char text[80];
    snprintf(text, sizeof text, "waiting: all places are taken, %u before this one", place);
    call_tell(c, &(struct tool_progress){.phase = "waiting",
                                         .text = text,
                                         .tick = tick,
                                         .elapsed_s = (double)(clock_ms() - since_ms) / 1000});
}

int box_take_turn(struct tool_call *c, struct err *err) {
    struct tool_box *b = c->box;
    int64_t since = clock_ms();
    unsigned told = UINT32_MAX;
    deadline_ms tick = deadline_in_ms(TICK_MS);
    pthread_mutex_lock(&b->lock);
    c->is_ready = true;
    while (!cancel_thrown(c->cancel) && !b->refuses && has_to_wait(c)) {
        unsigned place = before(c, /* ready= */ false);
        if (place != told || deadline_passed(tick)) {
            tell_place(c, place, place == told, since);
            told = place;
            tick = deadline_in_ms(TICK_MS);
        }
        thread_wait(&b->turn, &b->lock, tick);
    }
    int r = cancel_thrown(c->cancel) ? err_set(err, ERR_CANCELLED, "cancelled before it began")
            : has_to_wait(c)         ? err_set(err, ERR_STATE, "the server is ending")
                                     : 0;
    b->running += r == 0;
    step_out(c);
    pthread_mutex_unlock(&b->lock);
    return r;
}

void box_end_turn(struct tool_box *b) {
    pthread_mutex_lock(&b->lock);
    b->running--;
    pthread_cond_broadcast(&b->turn);
    pthread_mutex_unlock(&b->lock);
}
