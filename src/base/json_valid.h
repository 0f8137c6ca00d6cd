/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_BASE_JSON_VALID_H
#define SNAFFLE_BASE_JSON_VALID_H

#include <stdbool.h>

#include "base/sv.h"

/* Deeper nesting is refused: common readers give up between 1,000 and 2,048. */
#define JSON_VALID_DEPTH_MAX 512

/* Whether `text` is one JSON value as RFC 8259 has it, in valid UTF-8, with blanks around it at
 * most. Builds nothing, allocates nothing, does not recurse. */
bool json_valid(struct sv text);

/* The value of a field of a valid object, as it is spelled there; empty when there is none such or
 * `object` is no object. Of a field that is there twice, the first. A name written with escapes
 * is not found. */
struct sv json_raw_get(struct sv object, const char *field);

#endif
