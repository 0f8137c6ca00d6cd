/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_TESTS_GATEWAY_MEMORY_H
#define SNAFFLE_TESTS_GATEWAY_MEMORY_H

#include <stdbool.h>

struct gateway;
struct journal;

/* Memory that runs out when a test says so, for the gateway's and the journal's threads alone: the
 * linker puts these in the place of malloc and its like (meson.build). */

/* Once: the threads are there. */
void memory_mark(struct gateway *g, struct journal *j);

/* Lets `n` allocations through; the next fails, and all behind it if it `stays` so. */
void memory_fail_at(int n, bool stays);
unsigned memory_failures(void); /* Since then. */
void memory_heal(void);

unsigned long long memory_open_calls(const struct gateway *g); /* Not given back yet. */

#endif
