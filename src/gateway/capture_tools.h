/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_GATEWAY_CAPTURE_TOOLS_H
#define SNAFFLE_GATEWAY_CAPTURE_TOOLS_H

#include "base/err.h"
#include "base/sv.h"
#include "gateway/capture.h"

/*
 * Tool calls, put together from fragments by their index. Engines differ: an index may be missing
 * or begin at 1, the id may come with each fragment or be empty later, a name may be repeated or
 * come in pieces, a call may come whole.
 */

/* Adds the list of a chunk's `tool_calls`. Fragments that can't be read are passed over. */
int capture_add_tools(struct capture *k, struct capture_choice *choice,
                      struct sv list) CHECK_RESULT;
/* Adds the older `function_call`. */
int capture_add_function(struct capture *k, struct capture_choice *choice,
                         struct sv object) CHECK_RESULT;
/* Of capture.c: adds what the capture's limit leaves room for. */
int capture_add_bytes(struct capture *k, struct buf *b, struct sv bytes) CHECK_RESULT;
void capture_tool_deinit(struct capture_tool *t);

#endif
