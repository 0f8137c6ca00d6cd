/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_ROLLOUT_INSIDE_PROGRAM_H
#define SNAFFLE_ROLLOUT_INSIDE_PROGRAM_H

#include "rollout/session_impl.h"

/* The static gateway's program inside a sandbox: one of our version that the image has, else ours,
 * sent compressed and compared by its digest. Gives its path inside; the caller frees.
 * ERR_ENVIRONMENT: there is none on this machine. */
int inside_program_place(struct rollout_session *s, char **out, struct err *err) CHECK_RESULT;

#endif
