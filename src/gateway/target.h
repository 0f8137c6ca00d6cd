/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_GATEWAY_TARGET_H
#define SNAFFLE_GATEWAY_TARGET_H

#include <stdatomic.h>

#include "base/buf.h"
#include "gateway/endpoint.h"
#include "gateway/rewrite.h"

/*
 * What a session's calls go to, and how. Never changed once it is in use: a change puts another in
 * its place, and a call keeps the one that it began with.
 */
struct target {
    atomic_uint users;
    struct endpoint_set *endpoints; /* NULL: those of the gateway. */
    char *api_key;
    char *key_name;
    char *model_override;
    enum capture_level level_max;
    struct buf policy_version; /* A JSON value; empty: not known. */
};

/* NULL: no memory. `old` (may be NULL) is copied. */
struct target *target_new(const struct target *old);
struct target *target_ref(struct target *t);
void target_unref(struct target *t); /* The key is wiped with the last. Accepts NULL. */

/* Replaces a text of a target that is not in use yet. */
int target_set(char **text, const char *to) CHECK_RESULT;

#endif
