/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_GATEWAY_RESTORE_H
#define SNAFFLE_GATEWAY_RESTORE_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/sv.h"
#include "gateway/chunk.h"
#include "gateway/splice.h"

/* Takes out of an answer what only our own keys brought in, so that it equals what the engine
 * would have sent without them. */

/*
 * What an engine does with a field that nobody asked for. vLLM, SGLang, TGI and OpenAI write
 * "logprobs": null (vLLM "token_ids": null too); llama.cpp leaves the key out. OpenAI adds
 * "usage": null to each chunk of a stream whose usage was asked for.
 */
enum engine { ENGINE_UNKNOWN, ENGINE_VLLM, ENGINE_LLAMA_CPP, ENGINE_SGLANG, ENGINE_OPENAI };
const char *engine_name(enum engine e); /* NULL when unknown. */

struct restore_plan {
    enum engine engine;
    bool logprobs;
    bool top_logprobs; /* The agent asked for log-probabilities, but for no alternatives. */
    bool token_ids;
    bool usage;
};

bool restore_is_needed(const struct restore_plan *plan);

/* The chunk is the one that carries the usage of the whole stream, and only we asked for it; or it
 * says nothing but what was taken out of it (vLLM sends such when ids or log-probabilities are
 * asked for). */
bool restore_drops(const struct restore_plan *plan, const struct chunk *c);

/* Appends `text`, of which `c` was parsed, as it would have been. `work` is used again. */
int restore_chunk(const struct restore_plan *plan, const struct chunk *c, struct sv text,
                  struct splice *work, struct buf *out) CHECK_RESULT;

#endif
