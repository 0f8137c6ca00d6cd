/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_ROLLOUT_AGENT_PACKED_H
#define SNAFFLE_ROLLOUT_AGENT_PACKED_H

#include "agent/install.h"

/*
 * The installed program as a gzip file, for its way to machines elsewhere: made once and kept
 * beside it, under a name with its digest. A folder that is installed anew has none. Gives its
 * path; the caller frees. Any thread; of several at once in this process one makes it.
 */
int agent_packed(const struct agent_installed *i, const char *sha256, char **out,
                 struct err *err) CHECK_RESULT;

#endif
