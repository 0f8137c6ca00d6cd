/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_GUEST_PARCEL_H
#define SNAFFLE_GUEST_PARCEL_H

#include "base/buf.h"
#include "base/err.h"
#include "base/sv.h"

/*
 * Any bytes as one line of text that shows whether it came whole: for pipes of a provider's that
 * carry only text, cut it, or lose its end. "snaffle LENGTH CHECKSUM BASE64" and a line feed, with
 * FNV-1a of 64 bits in 16 hex digits. Nobody forges it who could not forge the pipe.
 */
int parcel_put(struct sv bytes, struct buf *out) CHECK_RESULT;

/* Appends what is inside. ERR_PROTOCOL: it is no parcel, or not the whole of one. */
int parcel_read(struct sv text, struct buf *out, struct err *err) CHECK_RESULT;

#endif
