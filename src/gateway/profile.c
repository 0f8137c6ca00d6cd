/* SPDX-License-Identifier: BSD-3-Clause */
#include "gateway/profile.h"

#include <string.h>

#define LOGPROBS                                                                                   \
    {ASK_LOGPROBS, REQUEST_LOGPROBS}, {                                                            \
        ASK_ALTERNATIVES, REQUEST_TOP_LOGPROBS                                                     \
    }
#define WITH_IDS                                                                                   \
    { .level = LEVEL_TOKENS, .fields = {LOGPROBS, {ASK_IDS, REQUEST_RETURN_TOKEN_IDS}}, }
/* Ids of the answer only: never `tokens`. */
#define WITH_ID_STRINGS                                                                            \
    {                                                                                              \
        .level = LEVEL_LOGPROBS,                                                                   \
        .fields = {LOGPROBS, {ASK_ID_STRINGS, REQUEST_RETURN_TOKENS_AS_TOKEN_IDS}},                \
    }
#define WITH_LOGPROBS                                                                              \
    {                                                                                              \
        .level = LEVEL_LOGPROBS, .fields = { LOGPROBS }                                            \
    }
#define PLAIN                                                                                      \
    { .level = LEVEL_TEXT }

static const char *const openai_hosts[] = {"api.openai.com", ".openai.azure.com", NULL};
static const char *const router_hosts[] = {"router.huggingface.co", NULL};
static const char *const together_hosts[] = {"api.together.xyz", "api.together.ai", NULL};

static const struct profile profiles[] = {
    /* Asked as vLLM is; strict ones refuse by name, lenient ones ignore. */
    [ENGINE_UNKNOWN] = {.engine = ENGINE_UNKNOWN,
                        .name = "unknown",
                        .rungs = {WITH_IDS, WITH_ID_STRINGS, WITH_LOGPROBS, PLAIN}},
    /* Before 0.10.2 there are no lists, only strings. */
    [ENGINE_VLLM] = {.engine = ENGINE_VLLM,
                     .name = "vllm",
                     .rungs = {WITH_IDS, WITH_ID_STRINGS, WITH_LOGPROBS, PLAIN}},
    /* Each row names its id. There are none of the prompt, so that it is never `tokens`. */
    [ENGINE_LLAMA_CPP] =
        {.engine = ENGINE_LLAMA_CPP,
         .name = "llama.cpp",
         .server = {"llama.cpp", 9},
         .leaves_logprobs_out = true,
         .gives_alternatives = true,
         .rungs = {{.level = LEVEL_LOGPROBS, .not_tool_calls = true, .fields = {LOGPROBS}},
                   {.level = LEVEL_LOGPROBS,
                    .only_tool_calls = true,
                    .fields = {{ASK_PROBABILITIES, REQUEST_N_PROBS}}},
                   PLAIN}},
    [ENGINE_SGLANG] = {.engine = ENGINE_SGLANG,
                       .name = "sglang",
                       .rungs = {{.level = LEVEL_TOKENS,
                                  .fields = {LOGPROBS,
                                             {ASK_IDS_AT_END, REQUEST_RETURN_INPUT_IDS},
                                             {ASK_IDS_AT_END, REQUEST_RETURN_OUTPUT_IDS}}},
                                 {.level = LEVEL_TOKENS,
                                  .not_streamed = true,
                                  .fields = {LOGPROBS, {ASK_IDS, REQUEST_RETURN_TOKEN_IDS}}},
                                 WITH_LOGPROBS,
                                 PLAIN}},
    /* Refuses unknown fields, and knows none for ids. */
    [ENGINE_OPENAI] = {.engine = ENGINE_OPENAI,
                       .name = "openai",
                       .hosts = openai_hosts,
                       .adds_null_usage = true,
                       .rungs = {WITH_LOGPROBS, PLAIN}},
    /* What is asked for reaches the provider; the documented bound is 5 alternatives. */
    [ENGINE_ROUTER] = {.engine = ENGINE_ROUTER,
                       .name = "router",
                       .hosts = router_hosts,
                       .alternatives_max = 5,
                       .rungs = {WITH_IDS, WITH_LOGPROBS, PLAIN}},
    [ENGINE_TOGETHER] = {.engine = ENGINE_TOGETHER,
                         .name = "together",
                         .hosts = together_hosts,
                         .alternatives_max = 20,
                         .rungs = {{.level = LEVEL_LOGPROBS,
                                    .fields = {{ASK_COUNT, REQUEST_LOGPROBS}}},
                                   PLAIN}},
};

const char *const profile_names[] = {"vllm",   "sglang",   "llama.cpp", "openai",
                                     "router", "together", NULL};

const char *level_name(enum capture_level level) {
    switch (level) {
    case LEVEL_TOKENS:
        return "tokens";
    case LEVEL_LOGPROBS:
        return "logprobs";
    default:
        return "text";
    }
}

const struct profile *profile_of(enum engine e) {
    return &profiles[e];
}

const struct profile *profile_named(const char *name) {
    for (size_t i = ENGINE_UNKNOWN + 1; i < ENGINES; i++) {
        if (strcmp(profiles[i].name, name) == 0) {
            return &profiles[i];
        }
    }
    return NULL;
}

static bool is_host(struct sv host, struct sv pattern) {
    return pattern.p[0] == '.' ? sv_ends_with(host, pattern) : sv_eq_nocase(host, pattern);
}

enum engine engine_at(struct sv host) {
    for (size_t i = 0; i < ENGINES; i++) {
        for (const char *const *h = profiles[i].hosts; h && *h; h++) {
            if (is_host(host, sv_from(*h))) {
                return profiles[i].engine;
            }
        }
    }
    return ENGINE_UNKNOWN;
}

enum engine engine_from_server(struct sv server_field) {
    for (size_t i = 0; i < ENGINES; i++) {
        if (profiles[i].server.n > 0 && sv_starts_with(server_field, profiles[i].server)) {
            return profiles[i].engine;
        }
    }
    return ENGINE_UNKNOWN;
}

unsigned profile_asks(const struct profile_rung *r) {
    unsigned all = 0;
    for (size_t i = 0; i < PROFILE_FIELDS_MAX && r->fields[i].what; i++) {
        all |= r->fields[i].what;
    }
    return all;
}

const struct profile_rung *profile_rung(const struct profile *p, enum capture_level level,
                                        bool stream, bool tools, unsigned withdrawn) {
    const struct profile_rung *r = p->rungs;
    for (; r->level != LEVEL_TEXT; r++) {
        unsigned asks = profile_asks(r);
        bool fits = r->level <= level && (level == LEVEL_TOKENS || !(asks & ASK_ANY_IDS)) &&
                    !(r->not_streamed && stream) && !(r->only_tool_calls && !(stream && tools)) &&
                    !(r->not_tool_calls && stream && tools);
        if (fits && !(asks & withdrawn & ~(unsigned)ASK_ALTERNATIVES)) {
            break;
        }
    }
    return r;
}
