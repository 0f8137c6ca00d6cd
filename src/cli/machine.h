/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_CLI_MACHINE_H
#define SNAFFLE_CLI_MACHINE_H

#include "cli/findings.h"

/* The doctor's looks at the machine; each adds what it finds. */
void machine_check_system(struct findings *f);
void machine_check_sandbox(struct findings *f);
void machine_check_network(struct findings *f);
void machine_check_state(struct findings *f);
void machine_check_agents(struct findings *f);
void machine_check_endpoints(struct findings *f);
void machine_check_limits(struct findings *f);

#endif
