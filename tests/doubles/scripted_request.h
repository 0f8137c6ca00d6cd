/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_TESTS_SCRIPTED_REQUEST_H
#define SNAFFLE_TESTS_SCRIPTED_REQUEST_H

#include <jansson.h>
#include <stdbool.h>

#include "base/sv.h"
#include "tests/doubles/scripted_script.h"
#include "tests/doubles/scripted_tokens.h"

/* A chat request as the engine understands it. The holder calls ask_deinit. */
struct ask {
    json_t *body;
    struct tokens prompt;
    bool stream;
    bool include_usage;
    bool continuous_usage;
    bool logprobs;
    bool token_ids;                         /* return_token_ids */
    bool tokens_as_ids;                     /* return_tokens_as_token_ids */
    bool choice_ids, input_ids, output_ids; /* SGLang's fields. */
    bool tools;                             /* A tool parser runs: it holds chunks back. */
    long long top;                          /* top_logprobs */
    long long max_tokens; /* What is left of the window when the request names none. */
    long long n;          /* Choices. */
    double temperature;   /* 0: not said. */
    const char *model;
};

/* What the engine says to a request it will not run. */
struct refusal {
    int status;
    const char *type;
    char text[512];
};

/* false: `no` holds the refusal. */
bool ask_parse(struct sv body, const struct script *script, struct ask *out, struct refusal *no);
void ask_deinit(struct ask *a);

#endif
