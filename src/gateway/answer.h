/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_GATEWAY_ANSWER_H
#define SNAFFLE_GATEWAY_ANSWER_H

#include "base/buf.h"
#include "base/err.h"
#include "gateway/capture.h"

/* Appends the whole answer that a stream amounts to: {id, object, created, model, choices, usage},
 * without log-probabilities and ids, every text as the engine spelled it. */
int answer_put(const struct capture *k, struct buf *out) CHECK_RESULT;

#endif
