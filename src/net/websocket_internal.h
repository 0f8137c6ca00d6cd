/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_NET_WEBSOCKET_INTERNAL_H
#define SNAFFLE_NET_WEBSOCKET_INTERNAL_H

#include "net/websocket.h"

/* Behind the handshake. Takes the connection, also on failure, and what came early. */
int websocket_new(struct conn *conn, struct buf *early, const struct websocket_options *o,
                  struct websocket **out, struct err *err) CHECK_RESULT;

#endif
