/* SPDX-License-Identifier: BSD-3-Clause */
/* What an operator is told of calls: a line each, and counts. */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "server/tool/box.h"

static const char *text_in(const json_t *object, const char *field) {
    const char *text = json_string_value(json_object_get(object, field));
    return text ? text : "-";
}

void ledger_began(const struct tool_call *c) {
    log_info("rollout began: id=%s client=%s waited_s=%.1f", c->rollout, c->client, c->waited_s);
}

void ledger_ended(struct tool_call *c, const json_t *result, double seconds) {
    const char *status = text_in(result, "status");
    const json_t *reward = json_object_get(result, "reward");
    const json_t *calls = json_object_get(result, "calls");
    struct tool_stats *s = &c->box->stats;
    char number[32] = "null";
    if (json_is_number(reward)) {
        snprintf(number, sizeof number, "%.6g", json_number_value(reward));
    }
    pthread_mutex_lock(&c->box->lock);
    *(strcmp(status, "ok") == 0          ? &s->ok
      : strcmp(status, "cancelled") == 0 ? &s->cancelled
                                         : &s->failed) += 1;
    s->seconds += seconds;
    pthread_mutex_unlock(&c->box->lock);
    log_info("rollout ended: id=%s client=%s status=%s cause=%s reward=%s seconds=%.1f calls=%lld",
             c->rollout, c->client, status, text_in(result, "cause"), number, seconds,
             (long long)json_integer_value(calls));
}

/* What the machine fails at is told to a quiet server's operator too. */
void ledger_never_began(struct tool_call *c, const struct err *why) {
    struct tool_stats *s = &c->box->stats;
    bool is_fault = c->outcome == TOOL_FAILED && why->code != ERR_STATE && why->code != ERR_QUOTA;
    pthread_mutex_lock(&c->box->lock);
    *(c->outcome == TOOL_INVALID     ? &s->invalid
      : c->outcome == TOOL_CANCELLED ? &s->left
                                     : &s->refused) += 1;
    pthread_mutex_unlock(&c->box->lock);
    log_line(is_fault ? LOG_WARNING : LOG_INFO, "call without a rollout: client=%s: %s", c->client,
             why->msg);
}

void tool_box_stats(struct tool_box *b, struct tool_stats *out) {
    pthread_mutex_lock(&b->lock);
    *out = b->stats;
    out->running = b->running;
    out->waiting = b->calls > b->running ? b->calls - b->running : 0;
    pthread_mutex_unlock(&b->lock);
}
