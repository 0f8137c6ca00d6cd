/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_SERVER_TOOL_TOOL_H
#define SNAFFLE_SERVER_TOOL_TOOL_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/sv.h"
#include "net/loop.h"
#include "rollout/catalog.h"
#include "rollout/factory.h"

/*
 * run_rollout: the one tool that every face of the server offers. A box takes calls, does some of
 * them at once, each on a thread of its own, and lets others wait in their order. Whoever calls
 * lives on a loop and is told there.
 *
 *     tool_box_new(&options, &box, err);
 *     tool_call_start(box, arguments, &(struct tool_watch){loop, on_progress, on_done, me}, &call,
 *                     err);
 *     ... on_progress again and again, on_done once ...
 *     tool_box_free(box);
 */
struct tool_box;
struct tool_call;

#define TOOL_NAME "run_rollout"
#define TOOL_CONCURRENT_DEFAULT 4
#define TOOL_WAITING_MAX 64 /* Calls that wait; a further one is told at once that it is busy. */
/* Of a whole answer, in which the result stands twice as an escaped string: under the 100 MB that
 * the reference's clients take as one message. */
#define TOOL_ANSWER_MAX (64u << 20)

/* What the operator set. Strings, lists and objects are kept until tool_box_free. */
struct tool_options {
    /* What each rollout has that its call does not say otherwise. `config` and `key_name` are the
     * calls' own; a call's backend has to be this one, or one of `allow`. */
    const struct rollout_options *rollout;
    /* The agent's configuration that calls are laid over; or NULL. Its public_url and listen are of
     * the gateway that all calls share: with them a call may say `capture: public`. */
    const json_t *config;
    struct endpoint_args endpoint; /* Of calls that name none; all NULL: they must. */
    const struct task *task;  /* Its network and limits stand in for those of calls; or NULL. */
    const char *const *allow; /* NULL-ended: "upstream=GLOB", "network=full", "backend=NAME",
                                 "image=GLOB", "flavor=GLOB"; NULL: none. */
    bool is_public;           /* Others than this machine's programs may call. */
    bool hides_paths; /* What clients are told names no path of this machine; the log does. */
    unsigned concurrent_max; /* Rollouts at once; 0: 4. */
    unsigned clients_max;    /* Connections of agents elsewhere; 0: as gateway.h has it. */
};

/* ERR_INPUT for a rule or an address that is none. The store, the journal and the gateway open with
 * the first rollout, or with the check, if sandboxes are to reach the gateway from elsewhere. */
int tool_box_new(const struct tool_options *o, struct tool_box **out, struct err *err) CHECK_RESULT;
/* Whether calls that ask for nothing of their own could be done: ERR_INPUT and ERR_UNSUPPORTED,
 * where the options don't go together, ERR_DENIED where the Hub refuses the token, ERR_SYS where
 * the gateway can't listen. Where the machine lacks something, or the Hub can't be asked, that is a
 * warning only, since it may be mended. */
int tool_box_check(struct tool_box *b, struct err *err) CHECK_RESULT;
/* Every call has ended. Accepts NULL. */
void tool_box_free(struct tool_box *b);

/* For the end of a server, any thread: calls that wait or come later fail; with the second, those
 * that run are cancelled, and collected or (with `hard`) only torn down. */
void tool_box_refuse(struct tool_box *b);
void tool_box_cancel(struct tool_box *b, bool hard);
unsigned tool_box_calls(struct tool_box *b); /* That have not ended: on_done is still to come. */

/* What became of every call since the box was made. Of each rollout that begins and ends, and of
 * each call that never began one, there is a line in the log (LOG_INFO) too, without any secret. */
struct tool_stats {
    unsigned running;
    unsigned waiting; /* Or their arguments are looked at. */
    uint64_t ok;      /* Rollouts that ended, by their result's status. */
    uint64_t failed;
    uint64_t cancelled;
    double seconds;   /* All these rollouts' together. */
    uint64_t invalid; /* Calls that began none: wrong arguments, or not allowed; */
    uint64_t refused; /* busy, the server's end, or a fault of the machine's; */
    uint64_t left;    /* or their client left. */
};
void tool_box_stats(struct tool_box *b, struct tool_stats *out);

/* What the tool is, to tell a client. The caller owns them; NULL: no memory. */
json_t *tool_description(const struct tool_box *b);  /* a string */
json_t *tool_input_schema(const struct tool_box *b); /* an object */
/* The same as JSON on one line, as long as the box lives. */
struct sv tool_schema_text(const struct tool_box *b);

/* Something happened, or a second went by (`tick`). Valid during the callback. */
struct tool_progress {
    const char *phase; /* "waiting", else as in result.json: "create", "agent" ... */
    const char *text;  /* One line: "waiting: 3 before this one", "setup [2/3]". */
    bool tick;
    double elapsed_s; /* Since the rollout began, or since it waits. */
    uint64_t calls;   /* Model calls so far, and the tokens they gave. */
    uint64_t completion_tokens;
};

enum tool_outcome {
    TOOL_DONE,      /* A rollout took place; how it went stands in its result. */
    TOOL_INVALID,   /* The arguments are wrong, or not allowed here. */
    TOOL_FAILED,    /* Nothing was begun, for another reason: "busy: ...". */
    TOOL_CANCELLED, /* Before anything was begun. */
};

/* Valid during the callback. */
struct tool_result {
    enum tool_outcome outcome;
    struct sv text; /* TOOL_DONE: the RolloutResult, JSON on one line. Else one line for people. */
    struct sv quoted; /* The same text as a JSON string, with its quotes. */
    /* Of TOOL_DONE: */
    const char *task_id;
    const char *sandbox_id;
    bool has_reward;
    double reward;
};

/* Called on the loop's thread. `arg` has to live until on_done. */
struct tool_watch {
    struct loop *loop;
    void (*on_progress)(void *arg, const struct tool_progress *p); /* NULL: not told. */
    void (*on_done)(void *arg, const struct tool_result *r); /* Once, and last: the call is gone. */
    void *arg;
    const char *client; /* Who calls, for the operator; copied. NULL: not known. */
};

/* Loop thread; on_done never comes from inside the call. Borrows `arguments` (NULL: none). An error
 * is want of memory or of a thread: on_done does not come. */
int tool_call_start(struct tool_box *b, const json_t *arguments, const struct tool_watch *w,
                    struct tool_call **out, struct err *err) CHECK_RESULT;

/* Loop thread, before on_done, which comes soon: a call that waits loses its place, one that runs
 * is stopped, collected and torn down. May be called again. */
void tool_call_cancel(struct tool_call *c);

#endif
