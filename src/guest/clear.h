/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_GUEST_CLEAR_H
#define SNAFFLE_GUEST_CLEAR_H

#include <stdint.h>

#include "base/err.h"

/* Kills every process of the machine but this one and its ancestors, until two looks in a row find
 * none; with a `user` other than 0 every one of that user's. For containers whose first process is
 * the provider's own server, which started this one. ERR_TIMEOUT when some would not die in 8 s. */
int clear_machine(uint32_t user, struct err *err) CHECK_RESULT;

#endif
