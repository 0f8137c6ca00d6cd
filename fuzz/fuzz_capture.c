/* SPDX-License-Identifier: BSD-3-Clause */
/* However an answer's ids and rows are spread over the chunks of a stream, they are captured whole,
 * in order and in their own spelling. Each byte makes the next row, and says what comes before it.
 */
#include <stdint.h>
#include <stdio.h>

#include "gateway/capture.h"

static const char *const spellings[] = {"-0.5", "0", "-1e-3", "-9999.0", "1E5", "-0.250"};

struct made {
    struct buf chunk, ids, logps;
    size_t n;
    bool is_open;
};

static void add(struct buf *b, const char *before, const char *text) {
    BUG_IF(buf_adds(b, before) < 0 || buf_adds(b, text) < 0);
}

static void end_chunk(struct made *m, struct capture *k, struct buf *ids) {
    struct chunk c = {0};
    if (m->is_open) {
        add(&m->chunk, "]} , \"token_ids\":[", buf_cstr(ids));
        add(&m->chunk, "]", "}]}");
        BUG_IF(chunk_parse(&c, buf_sv(&m->chunk)) < 0 || capture_add(k, &c) < 0);
    }
    chunk_deinit(&c);
    buf_reset(&m->chunk);
    buf_reset(ids);
    m->is_open = false;
}

static void add_row(struct made *m, unsigned byte, struct buf *ids) {
    char id[16];
    const char *logp = spellings[byte % 6];
    snprintf(id, sizeof id, "%u", byte * 7919u);
    BUG_IF(!m->is_open &&
           buf_adds(&m->chunk, "{\"choices\":[{\"index\":0,\"logprobs\":{\"content\":[") < 0);
    add(&m->chunk, m->is_open ? " ,{\"token\":\"]}\\\"\",\"logprob\":" : "{\"logprob\":", logp);
    add(&m->chunk, "", "}");
    add(ids, ids->len > 0 ? byte & 32 ? " , " : "," : "", id);
    add(&m->ids, m->n > 0 ? "," : "", id);
    add(&m->logps, m->n > 0 ? "," : "", logp);
    m->is_open = true;
    m->n++;
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
    struct made m = {0};
    struct capture k = {0};
    AUTO_BUF struct buf ids = {0};
    for (size_t i = 0; i < size; i++) {
        add_row(&m, data[i], &ids);
        if (data[i] & 64) {
            end_chunk(&m, &k, &ids);
        }
    }
    end_chunk(&m, &k, &ids);
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
    buf_deinit(&m.ids);
    buf_deinit(&m.logps);
    return 0;
}
