/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/clock.h"

#include <errno.h>
#include <time.h>

#define POLL_MAX_MS (3600 * 1000) /* poll(2) takes an int; callers loop anyway. */

int64_t clock_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

int64_t clock_ms(void) {
    return clock_us() / 1000;
}

double clock_unix(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

void clock_sleep_ms(int64_t ms) {
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = (ms % 1000) * 1000000};
    while (ms > 0 && clock_nanosleep(CLOCK_MONOTONIC, 0, &t, &t) == EINTR) {
    }
}

deadline_ms deadline_in_s(double seconds) {
    if (!(seconds > 0)) {
        return clock_ms();
    }
    return seconds > 1e12 ? DEADLINE_NEVER : deadline_in_ms((int64_t)(seconds * 1000));
}

deadline_ms deadline_in_ms(int64_t ms) {
    int64_t now = clock_ms();
    return ms > INT64_MAX - now ? DEADLINE_NEVER : now + (ms > 0 ? ms : 0);
}

deadline_ms deadline_min(deadline_ms a, deadline_ms b) {
    return a < b ? a : b;
}

bool deadline_passed(deadline_ms d) {
    return d != DEADLINE_NEVER && clock_ms() >= d;
}

int64_t deadline_left_ms(deadline_ms d) {
    if (d == DEADLINE_NEVER) {
        return INT64_MAX;
    }
    int64_t left = d - clock_ms();
    return left > 0 ? left : 0;
}

int deadline_poll_ms(deadline_ms d) {
    if (d == DEADLINE_NEVER) {
        return -1;
    }
    int64_t left = deadline_left_ms(d);
    return left > POLL_MAX_MS ? POLL_MAX_MS : (int)left;
}
