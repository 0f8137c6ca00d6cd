/* SPDX-License-Identifier: BSD-3-Clause */
/* However an answer's ids and rows are spread over the chunks of a stream, and in whose shapes they
 * come, they are captured whole, in order and in their own spelling. The first byte says whose;
 * each further one makes the next row, and says what comes before it. */
#include <stdint.h>
#include <stdio.h>

#include "gateway/capture.h"

static const char *const spellings[] = {"-0.5", "0", "-1e-3", "-9999.0", "1E5", "-0.250"};

enum voice {
    VLLM,           /* Lists of ids beside the rows, in each chunk. */
    SGLANG,         /* Rows, and all ids behind them. */
    TOGETHER,       /* One token a chunk: a bare number, and an id in the delta. */
    TOGETHER_WHOLE, /* Columns. */
    VOICES,
};

struct made {
    enum voice voice;
    struct buf chunk;      /* What is open of it. */
    struct buf its_ids;    /* As they stand in it. */
    struct buf its_tokens; /* The same of a column. */
    struct buf ids, logps; /* Of all. */
    size_t n;
    bool is_open;
};

static void add(struct buf *b, const char *before, const char *text) {
    BUG_IF(buf_adds(b, before) < 0 || buf_adds(b, text) < 0);
}

static void take(struct made *m, struct capture *k) {
    struct chunk c = {0};
    BUG_IF(chunk_parse(&c, buf_sv(&m->chunk)) < 0 || capture_add(k, &c) < 0);
    chunk_deinit(&c);
    buf_reset(&m->chunk);
}

static void end_chunk(struct made *m, struct capture *k) {
    if (!m->is_open) {
        return;
    }
    switch (m->voice) {
    case VLLM:
        add(&m->chunk, "]} , \"token_ids\":[", buf_cstr(&m->its_ids));
        add(&m->chunk, "]", "}]}");
        buf_reset(&m->its_ids);
        break;
    case SGLANG:
        add(&m->chunk, "]},\"matched_stop\":null}],", "\"usage\":null}");
        break;
    case TOGETHER:
        add(&m->chunk, ",\"delta\":{\"content\":\"x\",\"token_id\":", buf_cstr(&m->its_ids));
        add(&m->chunk, "}", "}]}");
        buf_reset(&m->its_ids);
        break;
    default:
        add(&m->chunk, "],\"token_ids\":[", buf_cstr(&m->its_ids));
        add(&m->chunk, "],\"tokens\":[", buf_cstr(&m->its_tokens));
        add(&m->chunk, "]}}]", "}");
    }
    take(m, k);
    m->is_open = false;
}

static void open_chunk(struct made *m) {
    static const char *const starts[] = {
        [VLLM] = "{\"content\":[",
        [SGLANG] = "{\"content\":[",
        [TOGETHER] = "",
        [TOGETHER_WHOLE] = "{\"token_logprobs\":[",
    };
    add(&m->chunk, "{\"choices\":[{\"index\":0,\"logprobs\":", starts[m->voice]);
}

static void add_row(struct made *m, struct capture *k, unsigned byte) {
    char id[16];
    const char *logp = spellings[byte % 6];
    snprintf(id, sizeof id, "%u", byte * 7919u);
    bool first = !m->is_open;
    if (first) {
        open_chunk(m);
    }
    m->is_open = true;
    if (m->voice == VLLM || m->voice == SGLANG) {
        add(&m->chunk, first ? "{\"logprob\":" : " ,{\"token\":\"]}\\\"\",\"logprob\":", logp);
        add(&m->chunk, "", "}");
    } else {
        add(&m->chunk, first ? "" : " , ", logp);
    }
    add(&m->its_ids, m->its_ids.len > 0 ? byte & 32 ? " , " : "," : "", id);
    add(&m->its_tokens, m->its_tokens.len > 0 ? "," : "", "\"],\"");
    add(&m->ids, m->n > 0 ? "," : "", id);
    add(&m->logps, m->n > 0 ? "," : "", logp);
    m->n++;
    if (m->voice == TOGETHER || (m->voice != TOGETHER_WHOLE && byte & 64)) {
        end_chunk(m, k);
    }
}

/* SGLang's own object, behind all. */
static void add_sglext(struct made *m, struct capture *k) {
    add(&m->chunk,
        "{\"choices\":[],\"usage\":null,\"sglext\":{\"input_ids\":[1, 2],\"output_ids\":[[",
        buf_cstr(&m->its_ids));
    add(&m->chunk, "]]}", "}");
    take(m, k);
    BUG_IF(!sv_eq(buf_sv(&k->prompt_ids), SV("[1, 2]")));
}

/* A whole list of these numbers, whose blanks may be the engine's own. */
static bool is_list(struct sv got, struct sv want) {
    size_t n = 0;
    if (got.n < 2 || got.p[0] != '[' || got.p[got.n - 1] != ']') {
        return false;
    }
    got = (struct sv){got.p + 1, got.n - 2};
    for (size_t i = 0; i < got.n; i++) {
        if (got.p[i] != ' ' && (n == want.n || got.p[i] != want.p[n++])) {
            return false;
        }
    }
    return n == want.n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct made m = {.voice = size > 0 ? data[0] % VOICES : VLLM};
    struct capture k = {0};
    for (size_t i = 1; i < size; i++) {
        add_row(&m, &k, data[i]);
    }
    end_chunk(&m, &k);
    if (m.n > 0 && m.voice == SGLANG) {
        add_sglext(&m, &k);
    }
    if (m.n > 0) {
        BUG_IF(!k.choices);
        size_t n;
        const struct buf *got = capture_ids(&k.choices[0], &n);
        BUG_IF(n != m.n || !is_list(buf_sv(got), buf_sv(&m.ids)));
        BUG_IF(k.choices[0].n_rows != m.n ||
               !is_list(buf_sv(&k.choices[0].logps), buf_sv(&m.logps)));
    }
    capture_deinit(&k);
    buf_deinit(&m.chunk);
    buf_deinit(&m.its_ids);
    buf_deinit(&m.its_tokens);
    buf_deinit(&m.ids);
    buf_deinit(&m.logps);
    return 0;
}
