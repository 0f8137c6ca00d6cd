/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_TESTS_UNIT_SERVER_TOOL_BENCH_H
#define SNAFFLE_TESTS_UNIT_SERVER_TOOL_BENCH_H

#include <pthread.h>

#include "base/buf.h"
#include "net/loop.h"
#include "rollout/factory.h"
#include "server/tool/tool.h"
#include "tests/unit/rollout/fake_ground.h"

/* A box over the fake sandbox, a loop, and calls whose callbacks are noted. */
struct bench {
    struct fake_ground ground;
    struct rollout_options rollout;
    struct tool_options options;
    struct tool_box *box;
    struct loop *loop;
};

struct caller {
    struct bench *bench;
    struct tool_call *call;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct buf events; /* "phase: text\n" of each; ticks are left out. */
    bool done;
    enum tool_outcome outcome;
    struct buf text;
    struct buf quoted;
    char task_id[64];
    bool has_reward;
    double reward;
};

int bench_set_up(void **state);
int bench_take_down(void **state);
void bench_open(struct bench *b); /* Makes the box as the options say. */

void caller_start(struct caller *c, struct bench *b, const char *arguments);
void caller_wait_event(struct caller *c, const char *words); /* Until it was told of that. */
void caller_wait(struct caller *c);                          /* Until on_done. */
void caller_cancel(struct caller *c);
void caller_deinit(struct caller *c);

#endif
