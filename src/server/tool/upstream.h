/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_SERVER_TOOL_UPSTREAM_H
#define SNAFFLE_SERVER_TOOL_UPSTREAM_H

#include "base/err.h"
#include "rollout/catalog.h"
#include "server/tool/tool.h"

/* What a call says of its model. "" and NULL: nothing. Borrowed. */
struct upstream_asked {
    const char *endpoint;
    const char *base_url;
    const char *api_key;
    const char *model;
    const bool *disable_thinking;
};

/*
 * Which endpoint a call gets, under the operator's rules. An address that the call itself names is
 * resolved (so this blocks): one that is off limits (off_limits.h) is refused, and on a public
 * server one that is neither allowed nor an endpoint of the catalog. The server's own keys go to
 * their own addresses, and to allowed ones. ERR_INPUT, ERR_DENIED.
 */
int upstream_choose(const struct tool_options *o, const struct upstream_asked *asked,
                    struct endpoint *out, struct err *err) CHECK_RESULT;

/* ERR_DENIED when a name stands for an address that is off limits; ERR_INPUT when it stands for
 * none. It may stand for another by the time of a call, so that the gateway looks again. Blocks. */
int upstream_check_host(const char *host, struct err *err) CHECK_RESULT;

#endif
