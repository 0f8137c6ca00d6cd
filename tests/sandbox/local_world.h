/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_TESTS_SANDBOX_LOCAL_WORLD_H
#define SNAFFLE_TESTS_SANDBOX_LOCAL_WORLD_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * A state directory of the test's own, in /tmp, for the time of a test program. Call before any
 * thread starts; a failure ends the program with a line that says what it was.
 */

/* With `as_user`, root becomes an ordinary user first, for good: such a program tests what people
 * get who are not root. */
void world_enter(bool as_user);

/* Removes it; false, with a line, if a sandbox was left behind in it. */
bool world_leave(void);

const char *world_state(void);

/* How many processes, zombies not counted, run as `uid`. */
int world_processes_of(uid_t uid);

/* How many processes of the machine hold `word` in their command line, and how many children of
 * this one. Other test programs run beside this one: the word must be its own. */
int world_processes_named(const char *word);
int world_children_named(const char *word);

/* Seconds to sleep for: no other process of the machine sleeps for the same. */
const char *world_mark(void);

#endif
