/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_BASE_HOST_H
#define SNAFFLE_BASE_HOST_H

#include <stdbool.h>

/* This machine and this process, as labels that another run can compare. */

#define HOST_LABEL_MAX 40   /* Of a host's name; the rest is told apart by process and time. */
#define HOST_PROCESS_MAX 40 /* Two numbers. */

/* The host's name in lower-case letters, digits and '-'; "host" when it has none. */
void host_label(char out[HOST_LABEL_MAX + 1]);

/* "PID-START", where START counts ticks since the machine's own: unique on a machine until it is
 * started anew. */
void host_process(char out[HOST_PROCESS_MAX + 1]);

/* Whether the process of such a text lives; of one that is none: false. */
bool host_process_alive(const char *process);

#endif
