/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_SANDBOX_HF_RATE_H
#define SNAFFLE_SANDBOX_HF_RATE_H

#include <pthread.h>
#include <stdbool.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/sv.h"

/*
 * The Hub's rate limit, as its answers tell it: `RateLimit: "api";r=7;t=55` is seven calls left for
 * 55 s, `Retry-After: 30` is none for 30 s. All calls of one account go through one of these. Any
 * thread.
 */
struct hf_rate {
    pthread_mutex_t lock;
    bool known;
    long left;
    deadline_ms renewed;    /* When `left` is what it was again. */
    deadline_ms not_before; /* By Retry-After. */
};

#define HF_RATE_INIT                                                                               \
    { .lock = PTHREAD_MUTEX_INITIALIZER }

/* Takes one call; waits for it as long as the deadline allows. ERR_QUOTA past that, saying when the
 * next would be; ERR_CANCELLED. */
int hf_rate_take(struct hf_rate *r, deadline_ms until, const struct cancel *cancel,
                 struct err *err) CHECK_RESULT;

/* Learns from an answer's raw head. */
void hf_rate_learn(struct hf_rate *r, int status, struct sv head);

/* The value of a field in a raw head; empty when it is not there. */
struct sv hf_head_field(struct sv head, struct sv name);

#endif
