/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_NET_DIAL_H
#define SNAFFLE_NET_DIAL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "net/conn.h"
#include "net/loop.h"
#include "net/tls.h"

/* A connection attempt: name look-up on the loop's pool, connect to each address in turn, TLS
 * handshake. Loop thread only. */
struct dial;

#define DIAL_TIMEOUT_MS                                                                            \
    10000 /* When the options name none: ten lost SYNs of a LAN, three of a WAN. */

struct dial_options {
    const char *host; /* Name or literal (no brackets); borrowed for the call. */
    uint16_t port;
    const char *unix_path;   /* In place of host and port. */
    struct tls_context *tls; /* Kept; NULL: plain. The host's name is verified and sent (SNI). */
    int64_t timeout_ms;      /* For everything; 0: DIAL_TIMEOUT_MS. */
    bool is_strangers;       /* Who named the host is not trusted: ERR_DENIED for what is off limits
                                (off_limits.h). */
    /* Once, later, never from inside dial_start. Takes `c` (paused, without events), or c is NULL
     * and `err` says why: ERR_CONNECT (refused, unreachable, unknown name, bad certificate) or
     * ERR_TIMEOUT. */
    void (*on_done)(struct conn *c, const struct err *err, void *arg);
    void *arg;
};

int dial_start(struct loop *l, const struct dial_options *o, struct dial **out,
               struct err *err) CHECK_RESULT;
/* on_done will not run. Only before on_done; accepts NULL. */
void dial_cancel(struct dial *d);

#endif
