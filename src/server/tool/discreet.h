/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_SERVER_TOOL_DISCREET_H
#define SNAFFLE_SERVER_TOOL_DISCREET_H

#include <jansson.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/sv.h"
#include "server/tool/tool.h"

/*
 * Who calls over a network is told no path of this machine: DISCREET_PATH stands for it, and the
 * log has the whole text. Before there is a sandbox every absolute path is this machine's, but for
 * what the call itself named. In what is told of a rollout most are the sandbox's, which its owner
 * has to see, and those go that lie in this machine's places.
 */
#define DISCREET_PATH "[path]"

/* Where this process keeps and finds its files. Zero hides nothing. */
struct host_places {
    char **at;
    size_t n;
    bool hides;
};

/* All that the options and the environment name; nothing is made or looked at but links. */
int host_places_find(const struct tool_options *o, struct host_places *out,
                     struct err *err) CHECK_RESULT;
void host_places_deinit(struct host_places *p);

/* Appends the text without what lies in these places. Gives 1 when something is hidden, else 0;
 * ERR_NOMEM. */
int discreet_text(const struct host_places *p, struct sv text, struct buf *out) CHECK_RESULT;

/* Without any absolute path but those that stand in `known` (NULL: in nothing). */
int discreet_fault(const struct host_places *p, const char *known, struct sv text,
                   struct buf *out) CHECK_RESULT;

/* The result's error and its findings; what its commands printed and its files stay. Appends to
 * `whole` what was hidden in, line by line. */
int discreet_result(const struct host_places *p, json_t *result, struct buf *whole) CHECK_RESULT;

#endif
