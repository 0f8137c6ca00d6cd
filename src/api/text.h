/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_API_TEXT_H
#define SNAFFLE_API_TEXT_H

#include <jansson.h>

#include "api/error.h"
#include "base/buf.h"

/* Gives the value as one line of text that the caller frees; NULL is want of memory. */
int api_json(const json_t *value, char **out, snaffle_error **error);

/* Gives the buffer's bytes, never NULL on success; the buffer is empty after. */
int api_text(struct buf *from, char **out, size_t *length, snaffle_error **error);

#endif
