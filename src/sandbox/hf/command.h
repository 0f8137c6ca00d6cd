/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_SANDBOX_HF_COMMAND_H
#define SNAFFLE_SANDBOX_HF_COMMAND_H

#include "sandbox/hf/hf.h"
#include "sandbox/hf/report.h"

#define HF_EXEC_TIMEOUT_S 60.0 /* The contract's. */

/*
 * A command inside, by `guest run`: its folder DIR/N holds what the guest leaves of it (exit, out,
 * err). One call starts it, waits, and brings the end and the output; it may be made again at any
 * time. What a call does not bring whole is read from the files.
 */
struct hf_command {
    struct hf *sandbox;
    unsigned number;
    char *folder;
    uint32_t user;
    unsigned clears;       /* Of the sandbox when it began. */
    size_t output_max;     /* Of each stream, to be brought along. */
    struct buf parcel;     /* The spec, until it is seen to have begun; empty: it lies inside. */
    _Atomic bool is_begun; /* As far as is known. */
    atomic_int failures;   /* Looks in a row that told nothing, over all waits: most are short. */
};

/* Makes it ready to be asked for; small ones need no call. */
int hf_command_init(struct hf *s, uint32_t user, const struct sandbox_exec *what, bool is_job,
                    deadline_ms until, struct hf_command *out, struct err *err) CHECK_RESULT;
/* Its files inside go with the next call of any command when `is_over`. */
void hf_command_deinit(struct hf_command *c, bool is_over);

/* Starts it if it has not begun. The spec's own error (ERR_NOT_FOUND: no such program) is told. */
int hf_command_start(struct hf_command *c, deadline_ms until, const struct cancel *cancel,
                     struct err *err) CHECK_RESULT;
/* The same, and gives its end. ERR_TIMEOUT: it goes on. ERR_LOST: the sandbox was torn down. */
int hf_command_wait(struct hf_command *c, deadline_ms until, const struct cancel *cancel,
                    struct hf_report *out, struct err *err) CHECK_RESULT;
/* Ends it, or lets it never begin. */
int hf_command_kill(struct hf_command *c, struct err *err) CHECK_RESULT;

char *hf_command_file(const struct hf_command *c, const char *name); /* The caller frees. */

/* For hf_command_init. */
int hf_command_spec(struct hf_command *c, const struct sandbox_exec *what, bool is_job,
                    deadline_ms until, struct err *err) CHECK_RESULT;

#endif
