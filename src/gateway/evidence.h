/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_GATEWAY_EVIDENCE_H
#define SNAFFLE_GATEWAY_EVIDENCE_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "gateway/capture.h"
#include "gateway/record.h"

/* What was asked for and did not come, though the answer is whole: enum ask. */
unsigned evidence_absent(const struct capture *k, const struct record_facts *f);

/*
 * Appends what does not agree in a call, or is absent, as codes with commas between
 * ("no_logprobs"). It states facts; whether a call can be trained on is judged elsewhere. The codes
 * stand in docs/findings.md.
 */
int evidence_put(const struct capture *k, const struct record_facts *f,
                 struct buf *out) CHECK_RESULT;

#endif
