/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_AGENT_INSTALLER_H
#define SNAFFLE_AGENT_INSTALLER_H

#include <stdbool.h>

#include "base/err.h"
#include "base/sv.h"

/* An agent's own installer, run in a sandbox: its command, and what its end means. No I/O here. */

/* Shell text that runs it under HOME. With a version it takes that one, and does not ask which is
 * the latest; NULL: the latest. The caller frees. ERR_INPUT: the version is none. */
int installer_command(const char *url, const char *version, char **out,
                      struct err *err) CHECK_RESULT;

/* How it ended. */
struct installer_end {
    const char *agent;
    int exit_code;
    bool timed_out;
    struct sv out;
    struct sv err;
};

/* 0: it is done. Else an error that says why, and whether another attempt may help: the network
 * failed, or it was killed in silence. That it can't find out which version is the latest is told
 * on stdout, and lasts for an hour: pin one. */
int installer_judge(const struct installer_end *end, bool *again, struct err *err) CHECK_RESULT;

#endif
