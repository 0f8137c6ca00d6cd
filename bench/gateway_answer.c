/* SPDX-License-Identifier: BSD-3-Clause */
#include "gateway_answer.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TOP 5
#define BYTES_PER_TOKEN 4 /* Of a prompt, as tokenizers do it with code and English. */
#define CHUNK_FRONT                                                                                \
    "data: {\"id\":\"chatcmpl-5f1c2a7e90b84d03a6a1\",\"object\":\"chat.completion.chunk\","        \
    "\"created\":1764480000,\"model\":\"bench/model-8b\",\"choices\":["

static const char *const words[] = {"the",  " return", " index", "self", " not", "def",  " in",
                                    " for", "_value",  " list",  " of",  "\\n",  " and", " code"};
#define N_WORDS (sizeof words / sizeof words[0])

static uint32_t next_random(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static void add(struct text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add(struct text *t, const char *format, ...) {
    char piece[1024];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(piece, sizeof piece, format, args);
    va_end(args);
    char *grown = n < 0 ? NULL : realloc(t->p, t->n + (size_t)n + 1);
    if (!grown || (size_t)n >= sizeof piece) {
        fprintf(stderr, "gateway bench: no memory for a text\n");
        exit(1);
    }
    memcpy(grown + t->n, piece, (size_t)n + 1);
    t->p = grown;
    t->n += (size_t)n;
}

struct text request_make(size_t prompt_bytes, bool asks) {
    struct text t = {0};
    uint32_t random = 7;
    add(&t,
        "{\"model\":\"bench/model-8b\",\"messages\":[{\"role\":\"system\",\"content\":\"You are a "
        "coding agent.\"},{\"role\":\"user\",\"content\":\"");
    for (unsigned i = 0; t.n < prompt_bytes; i++) {
        const char *between = i % 31 == 30 ? " \\\"quoted\\\"" : "";
        add(&t, "%s%s", words[next_random(&random) % N_WORDS], between);
    }
    add(&t,
        "\"}],\"temperature\":0.7,\"stream\":true,\"stream_options\":{\"include_usage\":true}%s}",
        asks ? ",\"logprobs\":true,\"top_logprobs\":5,\"return_token_ids\":true" : "");
    return t;
}

/* {"token":" the","logprob":-0.123,"bytes":[32,116,...] without the closing brace. */
static void add_row(struct text *t, uint32_t *random) {
    const char *word = words[next_random(random) % N_WORDS];
    add(t, "{\"token\":\"%s\",\"logprob\":-%u.%u%u,\"bytes\":[", word, next_random(random) % 20,
        100000000 + next_random(random), 1000000 + next_random(random) % 8999999);
    bool is_newline = *word == '\\';
    for (const char *p = is_newline ? "\n" : word; *p; p++) {
        add(t, "%s%d", p == word || is_newline ? "" : ",", *p);
    }
    add(t, "]");
}

static void add_logprobs(struct text *t, uint32_t *random) {
    add(t, "{\"content\":[");
    add_row(t, random);
    add(t, ",\"top_logprobs\":[");
    for (int i = 0; i < TOP; i++) {
        add(t, "%s", i ? "," : "");
        add_row(t, random);
        add(t, "}");
    }
    add(t, "]}]}");
}

static void add_first(struct text *t, size_t n_ids, bool with_fields) {
    uint32_t random = 11;
    add(t, CHUNK_FRONT "{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},"
                       "\"logprobs\":null,\"finish_reason\":null}],\"prompt_token_ids\":");
    add(t, "%s", with_fields ? "[" : "null");
    for (size_t i = 0; with_fields && i < n_ids; i++) {
        add(t, "%s%u", i ? "," : "", next_random(&random) % 151936);
    }
    add(t, "%s}\n\n", with_fields ? "]" : "");
}

static void add_token(struct text *t, unsigned i, bool with_fields) {
    uint32_t random = i * 7919 + 1;
    add(t, CHUNK_FRONT "{\"index\":0,\"delta\":{\"content\":\"%s\"},\"logprobs\":",
        words[next_random(&random) % N_WORDS]);
    if (with_fields) {
        add_logprobs(t, &random);
    } else {
        add(t, "null");
    }
    add(t, ",\"finish_reason\":%s,\"token_ids\":",
        i == ANSWER_TOKENS - 1 ? "\"length\",\"stop_reason\":null" : "null");
    if (with_fields) {
        add(t, "[%u]", next_random(&random) % 151936);
    } else {
        add(t, "null");
    }
    add(t, "}]}\n\n");
}

struct answer answer_make(size_t request_bytes, bool with_fields) {
    struct answer a = {0};
    size_t n_ids = request_bytes / BYTES_PER_TOKEN;
    unsigned n = 0;
    add_first(&a.all, n_ids, with_fields);
    a.ends[n++] = a.all.n;
    for (unsigned i = 0; i < ANSWER_TOKENS; i++) {
        add_token(&a.all, i, with_fields);
        a.ends[n++] = a.all.n;
    }
    add(&a.all,
        "data: {\"id\":\"chatcmpl-5f1c2a7e90b84d03a6a1\",\"object\":\"chat.completion.chunk\","
        "\"created\":1764480000,\"model\":\"bench/model-8b\",\"choices\":[],\"usage\":{"
        "\"prompt_tokens\":%zu,\"total_tokens\":%zu,\"completion_tokens\":%d}}\n\n",
        n_ids, n_ids + ANSWER_TOKENS, ANSWER_TOKENS);
    a.ends[n++] = a.all.n;
    add(&a.all, "data: [DONE]\n\n");
    a.ends[n] = a.all.n;
    return a;
}

size_t event_make(char *out, long long stamp_ns, bool is_last) {
    struct text rows = {0};
    uint32_t random = (uint32_t)stamp_ns;
    add_logprobs(&rows, &random);
    int n = snprintf(out, EVENT_MAX,
                     CHUNK_FRONT "{\"index\":0,\"delta\":{" EVENT_MARK "%016llx\"},\"logprobs\":%s,"
                                 "\"finish_reason\":%s,\"token_ids\":[%u]}]}\n\n%s",
                     (unsigned long long)stamp_ns, rows.p, is_last ? "\"stop\"" : "null",
                     next_random(&random) % 151936, is_last ? "data: [DONE]\n\n" : "");
    free(rows.p);
    return (size_t)n;
}

long long now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ll + t.tv_nsec;
}
