/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_ROLLOUT_RESULT_JSON_H
#define SNAFFLE_ROLLOUT_RESULT_JSON_H

#include "rollout/session_impl.h"
#include "rollout/turns.h"

#define RESULT_SCHEMA "snaffle.result/1"

/* result.json of a session that has ended. The caller owns it; NULL: out of memory. */
json_t *result_json(const struct rollout_session *s, const struct turns *turns);

#endif
