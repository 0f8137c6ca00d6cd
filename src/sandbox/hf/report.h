/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_SANDBOX_HF_REPORT_H
#define SNAFFLE_SANDBOX_HF_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/sv.h"

/* What the guest tells of a command, or has written down of it. All zero is ready: nothing is
 * known. Release with hf_report_deinit. */
struct hf_report {
    bool is_there;
    bool has_ended;
    int exit_code;
    bool timed_out;
    bool has_output; /* What follows was told too. */
    struct buf out;  /* Tails of the two streams, and how much they were. */
    struct buf err;
    uint64_t out_total;
    uint64_t err_total;
};

/* From the record's fields (docs/internals/guest-protocol.md, "run"). A command that never ran
 * gives its own error; what is no record ERR_PROTOCOL. */
int hf_report_read(struct sv fields, struct hf_report *out, struct err *err) CHECK_RESULT;

/* From the parcel in which `run` tells them. ERR_PROTOCOL, and nothing in *whole: it did not come
 * whole, so nothing is known. */
int hf_report_open(struct sv text, struct hf_report *out, bool *whole,
                   struct err *err) CHECK_RESULT;
void hf_report_deinit(struct hf_report *r);

#endif
