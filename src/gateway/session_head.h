/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_GATEWAY_SESSION_HEAD_H
#define SNAFFLE_GATEWAY_SESSION_HEAD_H

#include "gateway/session.h"

/* A session's settings: how they are made, changed, and written into the journal. */

/* A target as `change` makes it of `old` (NULL: of nothing). */
int session_aim(struct gateway_session *s, const struct target *old,
                const struct gateway_session_change *change, struct target **out,
                struct err *err) CHECK_RESULT;

/* Wait for the journal; nothing is written of a session that is not recorded. */
int session_journal_opening(const struct gateway_session *s, struct err *err) CHECK_RESULT;
int session_journal_closing(const struct gateway_session *s, bool aborted,
                            struct err *err) CHECK_RESULT;

#endif
