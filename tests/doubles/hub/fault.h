/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_TESTS_HUB_FAULT_H
#define SNAFFLE_TESTS_HUB_FAULT_H

#include <jansson.h>

#include "base/sv.h"

/*
 * Faults: an array of rules, the first that fits a request is used up by one.
 *
 *     {"face": "api" or "proxy", "method": "POST", "path": "/v1/exec", "skip": 2, "times": 1, ...}
 *
 * `path` fits a request whose path holds it. `skip` lets so many pass first; `times` (1; -1: for
 * ever) is how often it strikes. What then happens:
 *
 * | field | |
 * |---|---|
 * | "status": N, "headers": {}, "body": TEXT or JSON | answered in the server's place |
 * | "drop": true | the connection is reset, nothing was done |
 * | "drop_answer": true | it is done, and the connection is reset in place of the answer |
 * | "stall": true | nothing comes, and the connection stays (proxy) |
 * | "cut_after": N | the answer is cut after N bytes (proxy) |
 * | "delay_ms": N | first waits (api) |
 * | "job": "vanish", "die", "never_start", "hide_url" | what becomes of the job that
 * create makes, or (vanish) of the job behind the proxy |
 */
/* A borrowed rule, or NULL. */
const json_t *fault_take(json_t *rules, const char *face, struct sv method, struct sv path);
long fault_number(const json_t *rule, const char *field, long otherwise);
const char *fault_text(const json_t *rule, const char *field);

#endif
