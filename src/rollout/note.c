/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "rollout/session_impl.h"

void session_phase_end(struct rollout_session *s) {
    if (s->phase_began_us != 0) {
        s->phase_s[s->phase] += (double)(clock_us() - s->phase_began_us) / 1e6;
        s->phase_began_us = 0;
    }
}

void session_phase(struct rollout_session *s, enum rollout_phase phase) {
    session_phase_end(s);
    s->phase = phase;
    s->phase_began_us = clock_us();
    s->phase_seen[phase] = true;
}

deadline_ms session_deadline(const struct rollout_session *s, enum rollout_phase phase) {
    return deadline_in_s(rollout_budget_phase_s(&s->budget, phase, clock_ms()));
}

static void tell(struct rollout_session *s, const char *text, const char *detail, bool tick) {
    if (!s->control.progress) {
        return;
    }
    struct rollout_event e = {
        .phase = s->phase,
        .text = text,
        .detail = detail,
        .tick = tick,
        .elapsed_s = (double)(clock_ms() - s->began_ms) / 1000,
        .calls = s->stats.calls,
        .completion_tokens = s->stats.completion_tokens,
    };
    s->control.progress(s->control.progress_arg, &e);
}

void session_say(struct rollout_session *s, const char *detail, const char *fmt, ...) {
    char text[ERR_MSG_MAX];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    tell(s, text, detail, /* tick= */ false);
}

void session_tick(struct rollout_session *s) {
    tell(s, rollout_phase_text(s->phase), NULL, /* tick= */ true);
}

void session_finding(struct rollout_session *s, const char *code, const char *fmt, ...) {
    char detail[ERR_MSG_MAX];
    va_list args;
    va_start(args, fmt);
    vsnprintf(detail, sizeof detail, fmt, args);
    va_end(args);
    json_t *finding = json_pack("{s:s, s:o}", "code", code, "detail", json_text(sv_from(detail)));
    if (!finding || json_array_append_new(s->findings, finding) < 0) {
        log_warning("%s: no memory for the finding %s", s->name, code);
    }
}

void session_note(struct rollout_session *s, enum rollout_cause cause, const struct err *why) {
    if (!rollout_cause_replaces(s->cause, cause)) {
        return;
    }
    s->cause = cause;
    s->error_code = why ? why->code : 0;
    snprintf(s->error, sizeof s->error, "%s", why ? why->msg : "");
}

int session_fail(struct rollout_session *s, enum rollout_phase phase, const struct err *why) {
    session_note(s, rollout_cause_of(phase, why->code), why);
    return why->code;
}
