/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_TESTS_SCRIPTED_VOICE_H
#define SNAFFLE_TESTS_SCRIPTED_VOICE_H

#include "tests/doubles/scripted_answer.h"

/* Other engines than vLLM: what they refuse of a request, and how their answers look. An answer is
 * built as vLLM's, and told again in the voice of the script's engine. */

/* Reads the engine's own fields and turns them into vLLM's; false: `no` holds the refusal. */
bool voice_hears(const struct script *s, struct ask *a, struct refusal *no);

/* Gives the chunks that stand for one of vLLM's (none: an empty list), or the whole answer as the
 * list's one element. NULL: no memory. */
json_t *voice_tells(const struct turn *t, const json_t *answer, bool whole);

extern const char *const voice_names[]; /* By enum voice; NULL-ended. */

#endif
