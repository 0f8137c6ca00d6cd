/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_ROLLOUT_PROBE_H
#define SNAFFLE_ROLLOUT_PROBE_H

#include "base/cancel.h"
#include "base/err.h"

struct endpoint_probe {
    const char *base_url;
    const char *api_key;  /* NULL: none. */
    const char *key_name; /* The variable it came from, for messages; NULL: the configuration. */
};

/*
 * Asks the endpoint for its models, so that one that is not there is found before a sandbox exists.
 * Any answer means that it is there. ERR_ENVIRONMENT when nothing answers or the key is refused
 * (401); a 403 is only warned of, since keys of narrow scope may not list models.
 */
int endpoint_probe(const struct endpoint_probe *e, const struct cancel *cancel,
                   struct err *err) CHECK_RESULT;

#endif
