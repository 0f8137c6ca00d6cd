/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_BASE_JSON_LOOSE_H
#define SNAFFLE_BASE_JSON_LOOSE_H

#include <jansson.h>

#include "base/sv.h"

/*
 * Reads these fields (a NULL-ended list) of an object that holds what an agent or an engine wrote.
 * JSON allows what jansson does not hold: half surrogate pairs, which become U+FFFD here, and
 * numbers beyond its types or deep nesting, whose fields are left out. NULL: `object` is no valid
 * JSON object, or memory is out. The caller owns the result.
 */
json_t *json_loose(struct sv object, const char *const *fields);

#endif
