/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_SERVER_TOOL_BOX_H
#define SNAFFLE_SERVER_TOOL_BOX_H

#include <pthread.h>
#include <stdbool.h>

#include "base/buf.h"
#include "base/cancel.h"
#include "rollout/records.h"
#include "server/tool/answer.h"
#include "server/tool/discreet.h"
#include "server/tool/tool.h"

/* What stands behind a box, for the files of this folder. */

struct tool_box {
    struct tool_options o; /* `rollout` points to the next. */
    struct rollout_options rollout;
    struct rollout_records *records;
    struct cancel *soft; /* Over all calls. */
    struct cancel *hard;
    unsigned concurrent_max;
    struct host_places places; /* Zero unless paths are hidden. */
    struct buf schema_text;    /* Every client asks for it, and it never changes. */

    pthread_mutex_t lock;            /* Over all below. */
    pthread_cond_t turn;             /* The line moved, or somebody in it was cancelled. */
    struct tool_call *first_waiting; /* Linked by next_waiting, in the order in which they came. */
    unsigned running;
    unsigned calls;
    bool refuses;
    struct tool_stats stats; /* But running and waiting. */
};

#define CALL_CLIENT_MAX 64

struct tool_call {
    struct tool_box *box;
    struct tool_watch watch;
    json_t *arguments; /* A copy: the thread's alone. */
    struct cancel *cancel;
    pthread_t thread;
    char client[CALL_CLIENT_MAX];
    struct tool_call *next_waiting; /* The box's lock is over these three. */
    bool is_in_line;
    bool is_ready; /* Its arguments are good. */
    bool began;    /* A rollout: whatever comes is a result. The thread's, as all below. */
    char rollout[STORE_NAME_MAX + 1]; /* Of its turn: the rollout's name, */
    double waited_s;                  /* and how long it waited for that. */

    enum tool_outcome outcome;
    struct answer answer; /* Of other outcomes than TOOL_DONE, the error. */
    json_t *result;       /* Of TOOL_DONE. */
};

/* Counts the call in and gives it a place in the line; ERR_FULL: too many wait; ERR_STATE: the
 * server ends. */
int box_admit(struct tool_call *c, struct err *err) CHECK_RESULT;
void box_leave(struct tool_call *c); /* Also its place, if it still has one. */

/* Waits until this call may run, and tells its watch meanwhile; ERR_CANCELLED. Who came before and
 * is not ready holds nobody up. Its thread calls, and box_end_turn after. */
int box_take_turn(struct tool_call *c, struct err *err) CHECK_RESULT;
void box_end_turn(struct tool_box *b);

/* ledger.c: counts, and tells the operator. On the call's thread, or with the call refused. */
void ledger_began(const struct tool_call *c);
void ledger_ended(struct tool_call *c, const json_t *result, double seconds);
void ledger_never_began(struct tool_call *c, const struct err *why);

/* Tells the call's watch, on its loop. Any thread. */
void call_tell(struct tool_call *c, const struct tool_progress *p);

#endif
