/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_GUEST_PACK_H
#define SNAFFLE_GUEST_PACK_H

#include <stdint.h>

#include "base/err.h"

/*
 * A folder's content as a tar file (pax where ustar has no room), by no program of the system
 * around: links are links, files with several names are told once, owners are left out, and so are
 * sockets and devices. ERR_LIMIT: it would be more than `max` bytes.
 */
int pack(const char *from, const char *to, uint64_t max, struct err *err) CHECK_RESULT;

#endif
