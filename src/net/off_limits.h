/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_NET_OFF_LIMITS_H
#define SNAFFLE_NET_OFF_LIMITS_H

#include <stdbool.h>
#include <sys/socket.h>

/* An address that no stranger may make us ask: link-local, or one at which a cloud serves its
 * machines their credentials. Also in IPv6 addresses that carry one of IPv4. */
bool address_is_off_limits(const struct sockaddr *a);

#endif
