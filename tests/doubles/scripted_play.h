/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_TESTS_SCRIPTED_PLAY_H
#define SNAFFLE_TESTS_SCRIPTED_PLAY_H

#include "net/server.h"
#include "tests/doubles/scripted_request.h"

/* Plays a scene on an exchange: its pace, its faults, its end. Loop thread only. */

struct play_job {
    struct exchange *x; /* Taken. */
    const struct script *script;
    const struct scene *scene;
    struct ask ask; /* Taken. */
    unsigned long long number;
    int log_fd; /* Kept; -1: none. */
};

void play_start(const struct play_job *job);

#endif
