/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_TRAIN_PAIRING_H
#define SNAFFLE_TRAIN_PAIRING_H

#include <jansson.h>
#include <stdbool.h>

#include "base/err.h"
#include "journal/trace.h"

/*
 * Whether ids, log-probabilities and text of one call belong together, by their values. What an
 * answer's form does not let be seen counts as agreeing.
 */
struct pairing {
    bool id_differs;    /* A row that reads "token_id:N", or has an `id`, names another id. */
    bool contradicted;  /* A row's log-probability is not what its own top_logprobs show. */
    bool texts_shifted; /* Most ids that come again have another text then. */
    bool text_differs;  /* Content or reasoning is not found in the text of the tokens. */
};

/* `response`: the call's, parsed; NULL: its text is not looked at. ERR_NOMEM. */
int pairing_of(const struct trace_call *call, const json_t *response, struct pairing *out,
               struct err *err) CHECK_RESULT;

#endif
