/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/doubles/scripted_tokens.h"

#include <stdlib.h>

#include "base/json.h"

static const char *const specials[] = {"<|im_start|>", "<|im_end|>",  "<think>",
                                       "</think>",     "<tool_call>", "</tool_call>"};

void tokens_deinit(struct tokens *t) {
    free(t->v);
    *t = (struct tokens){0};
}

static int add(struct tokens *t, struct token token) {
    if (t->n == t->cap) {
        size_t cap = t->cap ? 2 * t->cap : 256;
        struct token *v = realloc(t->v, cap * sizeof *v);
        if (!v) {
            return ERR_NOMEM;
        }
        t->v = v;
        t->cap = cap;
    }
    t->v[t->n++] = token;
    return 0;
}

int tokens_add_special(struct tokens *t, uint32_t id) {
    return add(t, (struct token){.id = id});
}

/* One piece: pairs from its start on. A blank begins a token, as in most vocabularies. */
static int add_piece(struct tokens *t, struct sv text, enum token_part part, size_t call) {
    for (size_t i = 0; i < text.n;) {
        uint32_t id = (unsigned char)text.p[i++];
        if (i < text.n && text.p[i] != ' ') {
            id = TOKEN_PAIRS + (id << 8 | (unsigned char)text.p[i++]);
        }
        int r = add(t, (struct token){.id = id, .part = (uint8_t)part, .call = (uint16_t)call});
        if (r < 0) {
            return r;
        }
    }
    return 0;
}

static struct sv text_of(const json_t *string) {
    return json_is_string(string)
               ? (struct sv){json_string_value(string), json_string_length(string)}
               : (struct sv){0};
}

/* A string, or the text of an array of parts; a part that is no text stands as its JSON. */
static int add_content(struct tokens *t, const json_t *content, enum token_part part) {
    if (!json_is_array(content)) {
        return add_piece(t, text_of(content), part, 0);
    }
    size_t i;
    json_t *element;
    json_array_foreach(content, i, element) {
        const json_t *text = json_object_get(element, "text");
        AUTO_BUF struct buf other = {0};
        int r = text ? 0 : json_compact(element, &other);
        if (r == 0) {
            r = add_piece(t, text ? text_of(text) : buf_sv(&other), part, 0);
        }
        if (r < 0) {
            return r;
        }
    }
    return 0;
}

static int add_call(struct tokens *t, const json_t *call, size_t index) {
    const json_t *function = json_object_get(call, "function");
    int r = tokens_add_special(t, TOKEN_CALL);
    if (r == 0) {
        r = add_piece(t, SV("{\"name\": \""), PART_SILENT, index);
    }
    if (r == 0) {
        r = add_piece(t, text_of(json_object_get(function, "name")), PART_CALL_NAME, index);
    }
    if (r == 0) {
        r = add_piece(t, SV("\", \"arguments\": "), PART_SILENT, index);
    }
    if (r == 0) {
        r = add_piece(t, text_of(json_object_get(function, "arguments")), PART_CALL_ARGUMENTS,
                      index);
    }
    if (r == 0) {
        r = add_piece(t, SV("}"), PART_SILENT, index);
    }
    return r < 0 ? r : tokens_add_special(t, TOKEN_CALL_END);
}

int tokens_add_assistant(struct tokens *t, const json_t *message) {
    struct sv reasoning = text_of(json_object_get(message, "reasoning_content"));
    if (reasoning.n == 0) {
        reasoning = text_of(json_object_get(message, "reasoning"));
    }
    int r = 0;
    if (reasoning.n > 0) {
        r = tokens_add_special(t, TOKEN_THINK);
        if (r == 0) {
            r = add_piece(t, reasoning, PART_REASONING, 0);
        }
        if (r == 0) {
            r = tokens_add_special(t, TOKEN_THINK_END);
        }
    }
    if (r == 0) {
        r = add_content(t, json_object_get(message, "content"), PART_TEXT);
    }
    size_t i;
    json_t *call;
    json_array_foreach(json_object_get(message, "tool_calls"), i, call) {
        if (r == 0) {
            r = add_call(t, call, i);
        }
    }
    return r;
}

static int open_message(struct tokens *t, struct sv role) {
    int r = tokens_add_special(t, TOKEN_IM_START);
    if (r == 0) {
        r = add_piece(t, role, PART_SILENT, 0);
    }
    return r < 0 ? r : add_piece(t, SV("\n"), PART_SILENT, 0);
}

static int close_message(struct tokens *t) {
    int r = tokens_add_special(t, TOKEN_IM_END);
    return r < 0 ? r : add_piece(t, SV("\n"), PART_SILENT, 0);
}

static int add_tools(struct tokens *t, const json_t *tools) {
    if (json_array_size(tools) == 0) {
        return 0;
    }
    AUTO_BUF struct buf text = {0};
    int r = open_message(t, SV("tools"));
    if (r == 0) {
        r = json_compact(tools, &text);
    }
    if (r == 0) {
        r = add_piece(t, buf_sv(&text), PART_SILENT, 0);
    }
    return r < 0 ? r : close_message(t);
}

int tokens_add_prompt(struct tokens *t, const json_t *request) {
    int r = add_tools(t, json_object_get(request, "tools"));
    size_t i;
    json_t *message;
    json_array_foreach(json_object_get(request, "messages"), i, message) {
        struct sv role = text_of(json_object_get(message, "role"));
        if (r == 0) {
            r = open_message(t, role);
        }
        if (r == 0) {
            r = sv_eq(role, SV("assistant"))
                    ? tokens_add_assistant(t, message)
                    : add_content(t, json_object_get(message, "content"), PART_SILENT);
        }
        if (r == 0) {
            r = close_message(t);
        }
    }
    return r < 0 ? r : open_message(t, SV("assistant"));
}

int token_text(uint32_t id, struct buf *out) {
    if (id >= TOKEN_IM_START) {
        return buf_adds(out, id < TOKEN_COUNT ? specials[id - TOKEN_IM_START] : "");
    }
    if (id < TOKEN_PAIRS) {
        return buf_addc(out, (char)id);
    }
    id -= TOKEN_PAIRS;
    char pair[2] = {(char)(id >> 8), (char)(id & 0xff)};
    return buf_add(out, pair, sizeof pair);
}

/* The finalizer of splitmix64. */
static uint64_t mix(size_t position, unsigned choice, uint32_t id) {
    uint64_t x = ((uint64_t)position << 32 | id) + 0x9e3779b97f4a7c15u * (choice + 1u);
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* Between -1 and -4, so that the sampled token and its alternatives sum to less than 1. */
int64_t token_logprob(size_t position, unsigned choice, uint32_t id) {
    return -100000000 - (int64_t)(mix(position, choice, id) % 300000000u);
}

uint32_t token_alternative(size_t position, unsigned choice, uint32_t id, unsigned rank) {
    uint32_t other = (uint32_t)(mix(position, choice, id) >> 40) + 251u * rank;
    other %= TOKEN_PAIRS - 1u; /* Single bytes, with a gap where `id` stands. */
    return other >= id ? other + 1 : other;
}
