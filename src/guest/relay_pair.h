/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_GUEST_RELAY_PAIR_H
#define SNAFFLE_GUEST_RELAY_PAIR_H

#include "guest/relay.h"

/* One relayed connection. */

void relay_pair_open(struct relay *relay, int tcp_fd); /* Takes the descriptor. */
void relay_pair_reset(struct relay_pair *pair);        /* Frees it. */

/* relay.c's: there may be a place for one more. */
void relay_pair_gone(struct relay *relay);

#endif
