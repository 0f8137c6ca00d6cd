/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_TESTS_HUB_SBX_H
#define SNAFFLE_TESTS_HUB_SBX_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "net/server.h"

/*
 * What stands for sbx-server, the program inside a Hub job that runs commands and moves files.
 * Three generations of its protocol are spoken; the first keeps the faults that it had.
 *
 * | | 1 | 2, 3 |
 * |---|---|---|
 * | /health | version, no protocol | status and protocol; more with the token |
 * | exec's end | as soon as the process is reaped: unread output is lost | waits up to 2 s for it |
 * | exec's `background` | answers pid and tag | and id |
 * | a running exec | does not count as activity | does |
 * | ranged write | keeps a longer file's tail | truncate_to cuts it |
 * | DELETE processes/X | says ok to any text | says what it killed; a malformed id is 400 |
 * | an idle connection | is kept | gets an unasked 408 after 10 s and is closed |
 * | a chunked request | is refused before all else | is refused after a wrong token |
 *
 * server_test.py holds it to what the real one of generation 1 answered, request by request. What
 * it leaves out: pools of sandboxes (/v1/sandboxes), the lax reading of bad requests' heads, and
 * the part of a cut upload that the real one has written by then.
 */
struct process;

struct sbx {
    struct loop *loop;
    int protocol;
    bool loses_output; /* Every exec's last read is lost, where generation 1 loses some. */
    const char *token;
    int64_t idle_ms; /* 0: never ends by itself. */
    int64_t started_ms;
    int64_t active_ms; /* The last authorised request. */
    unsigned executing;
    unsigned next_id;
    struct process *processes; /* Newest first. */
};

void sbx_on_request(struct exchange *x, void *arg);
size_t sbx_body_max(struct exchange *x, void *arg);

/* Answers. sbx_reply takes `value`; keys go out in alphabetical order, as the real ones. */
void sbx_reply(struct exchange *x, int status, json_t *value);
void sbx_fail(struct exchange *x, int status, const char *fmt, ...) PRINTF_LIKE(3, 4);

void sbx_no_route(const struct sbx *s, struct exchange *x);

/* The decoded value of a query's last field of this name, which the caller frees; NULL when there
 * is none. */
char *sbx_query(const struct exchange *x, const char *name);

/* A command as exec and processes take it. */
struct sbx_command {
    json_t *body; /* Owned. */
    const char *const *argv;
    const char **env; /* Of the process and on top of it the body's. */
    const char *cwd;
    const char *input;
    deadline_ms until;
};
/* Answers 400 by itself when it fails. */
int sbx_command_read(struct exchange *x, struct sbx_command *out);
void sbx_command_deinit(struct sbx_command *c);
void sbx_fail_spawn(struct exchange *x, const struct sbx_command *c, int code);

/* Starts it in a process group of its own. `out` and `err` may be -1: /dev/null. Gives its pid, or
 * a negative errno. */
pid_t sbx_spawn(const struct sbx_command *c, int out, int err);

/* What it takes at most of a command's body; the connection of a longer one is closed. */
#define SBX_COMMAND_MAX (16u << 20)

void sbx_exec(struct sbx *s, struct exchange *x);
void sbx_processes(struct sbx *s, struct exchange *x, struct sv rest);
/* Takes `c`; `whole`: answers as processes does, and not as exec. */
void sbx_start_background(struct sbx *s, struct exchange *x, struct sbx_command *c, bool whole);
void sbx_end_late_processes(struct sbx *s); /* Kills those whose time is over. */
bool sbx_has_processes(const struct sbx *s);
void sbx_files(struct sbx *s, struct exchange *x, struct sv call);
void sbx_proxy(struct sbx *s, struct exchange *x, struct sv rest);

#endif
