/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_SANDBOX_HF_EVENTS_H
#define SNAFFLE_SANDBOX_HF_EVENTS_H

#include "base/buf.h"
#include "base/err.h"
#include "base/sv.h"

/* What sbx-server's stream tells of a command: one JSON object a line. All zero is ready; release
 * with hf_events_deinit. */
struct hf_events {
    int exit_code;  /* 128 + signal; 137 for an end that nobody saw. */
    struct buf out; /* Its stdout, as far as that was told: bytes that are no UTF-8 are not. */
    struct buf err; /* The first bytes of its stderr, HF_EVENTS_ERR_MAX or a few more. */
};

#define HF_EVENTS_ERR_MAX 512 /* Enough for an error's line. */

/* Lines that are no event are passed over. ERR_CLOSED: the stream tells no end, so it was cut. */
int hf_events_read(struct sv stream, struct hf_events *out, struct err *err) CHECK_RESULT;
void hf_events_deinit(struct hf_events *e);

#endif
