/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_TESTS_GATEWAY_DISK_H
#define SNAFFLE_TESTS_GATEWAY_DISK_H

#include <stdbool.h>

/*
 * A disk that fails or waits when a test says so: the linker puts these in the place of the
 * journal's own writes and syncs (meson.build).
 */

/* Lets `good` writes through; half of the next one's bytes if `is_short`; then each fails. */
void disk_fail_writes(int good, bool is_short, int errnum);
/* Lets `good` syncs through; then each fails. */
void disk_fail_syncs(int good, int errnum);
void disk_heal(void);

/* Lets `good` syncs through; the next one waits for disk_release. */
void disk_hold_sync(int good);
void disk_await_sync(void); /* Waits until it has begun. */
void disk_release(void);

#endif
