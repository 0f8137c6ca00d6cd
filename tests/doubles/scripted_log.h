/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_TESTS_SCRIPTED_LOG_H
#define SNAFFLE_TESTS_SCRIPTED_LOG_H

#include "net/server.h"

/* What tests read: one JSON line a request when it is here, and one when its answer has ended. */

void scripted_log_request(int fd, unsigned long long number, const struct exchange *x);

/* `how`: complete, gone (the client left), fault (ended as the script says). */
void scripted_log_end(int fd, unsigned long long number, const char *how, size_t events);

#endif
