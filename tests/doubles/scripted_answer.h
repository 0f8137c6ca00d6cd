/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_TESTS_SCRIPTED_ANSWER_H
#define SNAFFLE_TESTS_SCRIPTED_ANSWER_H

#include "base/buf.h"
#include "tests/doubles/scripted_request.h"

/* What answers a request: as one body, or as the events of a stream. */

struct turn {
    const struct script *script; /* All kept. */
    const struct scene *scene;
    const struct ask *ask;
    unsigned long long number; /* Of the request; ids follow from it. */
    long long created;
    struct tokens completion;  /* Of each choice: they differ in log-probabilities only. */
    const char *finish_reason; /* NULL: null. */
};

/* Fills completion and finish_reason; the holder calls turn_deinit. */
int turn_begin(struct turn *t) CHECK_RESULT;
void turn_deinit(struct turn *t);

/* The events of a stream, end to end. The holder calls events_deinit. */
struct events {
    struct buf bytes;
    size_t *ends; /* Where each ends in `bytes`. */
    size_t n, cap;
    size_t at;       /* The first token of the event that is being built. */
    size_t usage_at; /* The event with the usage; n: there is none. */
};

int events_build(const struct turn *t, struct events *out) CHECK_RESULT;
struct sv events_get(const struct events *e, size_t i);
void events_deinit(struct events *e);

int answer_unary(const struct turn *t, struct buf *out) CHECK_RESULT;

/* {"error": ...} as the engine nests it. */
int answer_error(int status, const char *type, const char *text, struct buf *out) CHECK_RESULT;

#endif
