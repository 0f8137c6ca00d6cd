/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_CLI_PROBE_H
#define SNAFFLE_CLI_PROBE_H

#include "base/cancel.h"
#include "base/err.h"
#include "rollout/catalog.h"

/*
 * Asks the endpoint for its models, so that one that is not there is found before a sandbox exists.
 * Any answer means that it is there. ERR_ENVIRONMENT when nothing answers or the key is refused
 * (401); a 403 is only warned of, since keys of narrow scope may not list models.
 */
int probe_endpoint(const struct endpoint *e, const struct cancel *cancel,
                   struct err *err) CHECK_RESULT;

#endif
