/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_GATEWAY_EVIDENCE_H
#define SNAFFLE_GATEWAY_EVIDENCE_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "gateway/capture.h"
#include "gateway/record.h"

/*
 * Appends what does not agree in a call, or is absent, as codes with commas between
 * ("no_logprobs"). It states facts; whether a call can be trained on is judged elsewhere.
 *
 * no_prompt_ids, no_sampled_ids, no_logprobs; logprob_misalign: ids and rows differ in number or by
 * value; invalid_logprob: null, not finite or positive; usage_mismatch: usage counts other tokens
 * than there are ids; truncated_turn: the length limit ended it; no_finish_reason; no_choices;
 * empty_completion; upstream_error_event: an error came within the stream; unparsed_events;
 * capture_limit: rows past CAPTURE_BYTES_MAX were only counted; encoded_answer.
 */
int evidence_put(const struct capture *k, const struct record_facts *f,
                 struct buf *out) CHECK_RESULT;

#endif
