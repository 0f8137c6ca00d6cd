/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_TESTS_FAKE_SANDBOX_H
#define SNAFFLE_TESTS_FAKE_SANDBOX_H

#include <stdatomic.h>

#include "base/buf.h"
#include "sandbox/sandbox.h"

/*
 * A sandbox backend without a sandbox, for failures that a real one does not show on demand. Every
 * call is written into `events`; the call that a fault names fails.
 */
extern const struct sandbox_backend fake_backend;
extern const struct sandbox_backend fake_remote; /* Without a socket of this machine. */

struct fake_fault {
    const char *call; /* "create", "exec:TEXT" (the command holds TEXT), "start" ... */
    int code;         /* What it returns; 0: no error, but ... */
    int exit_code;    /* ... the command's exit, */
    bool timed_out;   /* or its time-out; */
    const char *out;  /* and what it prints. */
    int times;        /* How often; 0: always. */
};

struct fake {
    struct fake_fault faults[4];
    const char *reward; /* What reward.txt holds; NULL: there is none. */
    struct sv listing;  /* What listing the work folder prints. */
    int agent_exit;     /* What a job's wait gives, */
    bool agent_goes_on; /* unless it never ends by itself. */
    const char *socket; /* Where the model's socket is to be bound. */
    struct buf events;  /* One line a call. */
    atomic_int alive;   /* Sandboxes created and not killed. */
    atomic_int alive_max;
    int created;
    int killed;
    int waits;
};

extern struct fake fake;

void fake_reset(void);
int fake_count(const char *event); /* How many events begin with this. */
/* Whether an event that begins with `first` stands before the first one that begins with `then`. */
bool fake_ordered(const char *first, const char *then);

#endif
