/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_TESTS_SCRIPTED_SCRIPT_H
#define SNAFFLE_TESTS_SCRIPTED_SCRIPT_H

#include <jansson.h>
#include <stdbool.h>

#include "base/err.h"

/* The script: which scene answers which request, and how. README.md describes the file. */

enum fault_kind {
    FAULT_NONE,
    FAULT_STATUS,
    FAULT_RESET,
    FAULT_EOF,
    FAULT_CUT,
    FAULT_HANG,
    FAULT_ERROR_EVENT,
    FAULT_NO_DONE,
    FAULT_NO_BLANK_LINE,
    FAULT_OPEN_AFTER_DONE,
    FAULT_JSON,
    FAULT_RAW,
};

struct fault {
    enum fault_kind kind;
    long long
        after_events; /* Of the stream, before the fault; -1: before the head of the answer. */
    long long status;
    const json_t *headers; /* {name: value} */
    const json_t *body; /* A string as it is, else JSON; of FAULT_ERROR_EVENT the error object. */
    char *raw;          /* FAULT_RAW: the file's bytes. */
    size_t raw_n;
};

enum usage_when { USAGE_ASKED, USAGE_ALWAYS, USAGE_NEVER, USAGE_CONTINUOUS };

struct scene {
    /* When it is taken. */
    long long call;       /* This many assistant messages stand before, plus one; 0: any. */
    const char *user_has; /* The last user message holds this. */
    const char *body_has; /* The request, as sent, holds this. */
    const char *tool;     /* A tool of this name is offered. */
    int tools;            /* 1: tools are offered, 0: none, -1: either. */
    long long times;      /* At most this often; 0: without end. */
    long long used;

    /* What it answers. */
    json_t *message; /* An assistant message as in a history. */
    const char *finish_reason;
    bool finish_is_null;
    enum usage_when usage;
    const json_t *usage_edits; /* Laid over the counted usage. */
    long long delay_ms;        /* Before the head. */
    long long event_delay_ms;
    long long usage_delay_ms; /* Before the usage event: it comes late. */
    long long tokens_per_event;
    const char *bad_logprob; /* In place of the first value: NaN, null, -Infinity. */
    long long no_ids_from;   /* From this event on the ids are missing; -1: never. */
    bool late_ids;           /* The last ids come in an event of their own after finish_reason. */
    long long split;         /* Bytes a write; 0: as they come. */
    bool crlf;
    bool pings; /* A comment before each event. */
    struct fault fault;
};

enum voice { VOICE_VLLM, VOICE_SGLANG, VOICE_LLAMACPP, VOICE_OPENAI, VOICE_ROUTER, VOICE_TOGETHER };

struct script {
    bool processed;   /* Log-probabilities are those at the request's temperature. */
    enum voice voice; /* Which engine it speaks like. */
    json_t *root;
    const char *model;
    bool any_model;
    const char *api_key; /* NULL: none is asked for. */
    long long max_model_len;
    bool unasked_is_null;        /* Keys of ids that nobody asked for stand there as null. */
    const char *reasoning_key;   /* "reasoning", or "reasoning_content" as older engines. */
    const json_t *refuse_fields; /* [name]: 400 when the request has one. */
    const json_t *ignore_fields; /* [name]: taken for absent. */
    struct scene *scenes;
    size_t n_scenes;
    struct scene otherwise;
};

/* `path` NULL: no scenes, one short text as the answer to everything. */
int script_load(const char *path, struct script *out, struct err *err) CHECK_RESULT;
int script_set_voice(struct script *s, const char *name, struct err *err) CHECK_RESULT;
void script_deinit(struct script *s);

/* The first scene that fits, counted as used. `body` is the request as sent. */
const struct scene *script_scene(struct script *s, const json_t *request, const char *body,
                                 size_t body_n);

#endif
