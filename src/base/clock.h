/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_BASE_CLOCK_H
#define SNAFFLE_BASE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

int64_t clock_ms(void);  /* Monotonic, milliseconds; for time-outs and durations. */
int64_t clock_us(void);  /* Monotonic, microseconds. */
double clock_unix(void); /* Seconds since 1970, with fraction; for records. */
void clock_sleep_ms(int64_t ms);

/*
 * A deadline is a point of the monotonic clock in milliseconds. Functions that wait take one by
 * value; DEADLINE_NEVER waits for ever.
 */
typedef int64_t deadline_ms;
#define DEADLINE_NEVER INT64_MAX

deadline_ms deadline_in_s(double seconds); /* Negative or NaN counts as 0; huge as never. */
deadline_ms deadline_in_ms(int64_t ms);
deadline_ms deadline_min(deadline_ms a, deadline_ms b);
bool deadline_passed(deadline_ms d);
int64_t deadline_left_ms(deadline_ms d); /* >= 0; INT64_MAX for never. */
int deadline_poll_ms(deadline_ms d);     /* For poll(2): -1 for never, capped to one hour. */

#endif
