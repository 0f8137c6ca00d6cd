/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_CLI_AGENTS_H
#define SNAFFLE_CLI_AGENTS_H

#include "agent/agent.h"
#include "agent/install.h"

/* Gives the folder in the state directory where agents' programs are kept. The caller frees. */
int agents_dir(char **out, struct err *err) CHECK_RESULT;

#endif
