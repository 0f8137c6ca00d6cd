/* SPDX-License-Identifier: BSD-3-Clause */
#include "gateway/decode.h"

#include <brotli/decode.h>
#include <stdbool.h>
#include <stdlib.h>
#include <zlib.h>
#include <zstd.h>

/* What one step gives at most. */
#define DECODE_STEP 16384u
/* RFC 9659: a zstd content coding needs no window above 8 MB. */
#define DECODE_ZSTD_WINDOW_LOG 23

enum coding { CODING_GZIP, CODING_DEFLATE, CODING_BR, CODING_ZSTD, CODINGS };
static const char *const coding_names[] = {"gzip", "deflate", "br", "zstd"};

struct stage {
    enum coding coding;
    bool started;
    bool at_end;   /* Of what it has seen so far. */
    bool in_frame; /* zstd: a first byte was seen. */
    uint64_t left; /* Of what may still come out: empty members would else grow for nothing. */
    z_stream z;    /* gzip, deflate: once started. */
    BrotliDecoderState *br;
    ZSTD_DStream *zstd;
};

struct decode {
    struct stage stages[DECODE_STACK_MAX]; /* In the order in which they are undone. */
    unsigned n;
};

/* What a step took, and what it gave. */
struct step {
    struct sv in;
    char *out;
    size_t room, made;
};

/* `deflate` means zlib's frame; some send the bare blocks, whose first byte is another. */
static int start_zlib(struct stage *s, struct sv in) {
    unsigned char first = (unsigned char)in.p[0];
    bool framed = (first & 0x0f) == Z_DEFLATED && first >> 4 <= 7;
    int bits = s->coding == CODING_GZIP ? 16 + MAX_WBITS : framed ? MAX_WBITS : -MAX_WBITS;
    s->started = inflateInit2(&s->z, bits) == Z_OK;
    return s->started ? 0 : ERR_NOMEM;
}

static int start(struct stage *s, struct sv in) {
    if (s->coding == CODING_BR) {
        s->br = BrotliDecoderCreateInstance(NULL, NULL, NULL);
        s->started = s->br != NULL;
    } else if (s->coding == CODING_ZSTD) {
        s->zstd = ZSTD_createDStream();
        s->started = s->zstd && !ZSTD_isError(ZSTD_DCtx_setParameter(s->zstd, ZSTD_d_windowLogMax,
                                                                     DECODE_ZSTD_WINDOW_LOG));
    } else {
        return start_zlib(s, in);
    }
    return s->started ? 0 : ERR_NOMEM;
}

static int step_zlib(struct stage *s, struct step *t) {
    if (s->at_end) { /* gzip may have one more member behind it. */
        if (s->coding != CODING_GZIP || inflateReset(&s->z) != Z_OK) {
            return ERR_INPUT;
        }
        s->at_end = false;
    }
    /* zlib counts in 32 bits; its input pointer is not const, but it only reads. */
    s->z.next_in = (Bytef *)(uintptr_t)t->in.p;
    s->z.avail_in = t->in.n > UINT32_MAX ? UINT32_MAX : (uInt)t->in.n;
    s->z.next_out = (Bytef *)t->out;
    s->z.avail_out = (uInt)t->room;
    int rc = inflate(&s->z, Z_SYNC_FLUSH);
    t->made = t->room - s->z.avail_out;
    t->in = sv_cut(t->in, (size_t)((const char *)s->z.next_in - t->in.p));
    s->at_end = rc == Z_STREAM_END;
    if (rc == Z_MEM_ERROR) {
        return ERR_NOMEM;
    }
    return rc == Z_OK || rc == Z_STREAM_END || rc == Z_BUF_ERROR ? 0 : ERR_INPUT;
}

static int step_br(struct stage *s, struct step *t) {
    const uint8_t *in = (const uint8_t *)t->in.p;
    uint8_t *out = (uint8_t *)t->out;
    size_t in_n = t->in.n;
    size_t room = t->room;
    if (s->at_end) {
        return ERR_INPUT;
    }
    BrotliDecoderResult rc = BrotliDecoderDecompressStream(s->br, &in_n, &in, &room, &out, NULL);
    t->made = t->room - room;
    t->in = sv_cut(t->in, t->in.n - in_n);
    s->at_end = rc == BROTLI_DECODER_RESULT_SUCCESS;
    return rc == BROTLI_DECODER_RESULT_ERROR ? ERR_INPUT : 0;
}

/* The library takes the formats from before the standard too, by decoders that nobody cares for any
 * more. Frames of the standard, also those to be skipped, are told by their first byte. */
static bool is_zstd_frame(unsigned char first) {
    return first == 0x28 || (first & 0xf0) == 0x50;
}

static int step_zstd(struct stage *s, struct step *t) {
    bool at_frame = s->at_end || !s->in_frame;
    if (at_frame && t->in.n > 0 && !is_zstd_frame((unsigned char)t->in.p[0])) {
        return ERR_INPUT;
    }
    s->in_frame = s->in_frame || t->in.n > 0;
    ZSTD_inBuffer in = {t->in.p, t->in.n, 0};
    ZSTD_outBuffer out = {t->out, t->room, 0};
    size_t rc = ZSTD_decompressStream(s->zstd, &out, &in);
    t->made = out.pos;
    t->in = sv_cut(t->in, in.pos);
    s->at_end = rc == 0;
    return ZSTD_isError(rc) ? ERR_INPUT : 0;
}

static int step(struct stage *s, struct step *t) {
    switch (s->coding) {
    case CODING_BR:
        return step_br(s, t);
    case CODING_ZSTD:
        return step_zstd(s, t);
    default:
        return step_zlib(s, t);
    }
}

static int feed(struct decode *d, unsigned at, struct sv in, decode_fn fn, void *arg,
                struct err *err);

/* To the next stage, or out: as much as may. */
static int give(struct decode *d, unsigned from, struct sv plain, decode_fn fn, void *arg,
                struct err *err) {
    struct stage *s = &d->stages[from];
    bool too_much = plain.n > s->left;
    if (too_much) {
        plain.n = (size_t)s->left;
    }
    s->left -= plain.n;
    int rc = 0;
    if (plain.n > 0) {
        rc = from + 1 < d->n ? feed(d, from + 1, plain, fn, arg, err) : fn(arg, plain, err);
    }
    return rc < 0 || !too_much ? rc : err_set(err, ERR_LIMIT, "the body is too large when decoded");
}

static int broken(const struct stage *s, int code, struct err *err) {
    return code == ERR_NOMEM
               ? err_set(err, code, "out of memory")
               : err_set(err, code, "the body is no valid %s", coding_names[s->coding]);
}

/* Feeds a stage, and what it gives to the next. */
static int feed(struct decode *d, unsigned at, struct sv in, decode_fn fn, void *arg,
                struct err *err) {
    struct stage *s = &d->stages[at];
    char out[DECODE_STEP];
    struct step t = {.in = in, .out = out, .room = sizeof out};
    int rc = s->started || in.n == 0 ? 0 : start(s, in);
    if (rc < 0) {
        return broken(s, rc, err);
    }
    /* A full step may have left more inside the decoder when the input is used up. */
    while (t.in.n > 0 || (t.made == sizeof out && !s->at_end)) {
        size_t before = t.in.n;
        t.made = 0;
        int verdict = step(s, &t);
        rc = give(d, at, (struct sv){out, t.made}, fn, arg, err);
        if (rc < 0) {
            return rc;
        }
        bool stuck = before > 0 && t.in.n == before && t.made == 0;
        if (verdict < 0 || stuck) {
            return broken(s, verdict < 0 ? verdict : ERR_INPUT, err);
        }
    }
    return 0;
}

int decode_feed(struct decode *d, struct sv in, decode_fn fn, void *arg, struct err *err) {
    return feed(d, 0, in, fn, arg, err);
}

int decode_end(const struct decode *d, struct err *err) {
    for (unsigned i = 0; i < d->n; i++) {
        const struct stage *s = &d->stages[i];
        if (s->started && !s->at_end) {
            return err_set(err, ERR_CLOSED, "the body's %s breaks off", coding_names[s->coding]);
        }
    }
    return 0;
}

static int append(void *out, struct sv plain, struct err *err) {
    int rc = buf_add_sv(out, plain);
    return rc < 0 ? err_set(err, rc, "out of memory") : 0;
}

int decode_whole(struct decode *d, struct sv in, struct buf *out, struct err *err) {
    int rc = decode_feed(d, in, append, out, err);
    return rc < 0 ? rc : decode_end(d, err);
}

void decode_free(struct decode *d) {
    if (!d) {
        return;
    }
    for (unsigned i = 0; i < d->n; i++) {
        struct stage *s = &d->stages[i];
        if (s->br) {
            BrotliDecoderDestroyInstance(s->br);
        }
        ZSTD_freeDStream(s->zstd);
        if (s->started && s->coding <= CODING_DEFLATE) {
            inflateEnd(&s->z);
        }
    }
    free(d);
}

/* Puts a coding in front: the one named last is undone first. */
static int add_coding(struct decode *d, struct sv name, struct err *err) {
    int coding = 0;
    if (name.n == 0 || sv_eq_nocase(name, SV("identity"))) {
        return 0;
    }
    if (sv_eq_nocase(name, SV("x-gzip"))) {
        name = SV("gzip");
    }
    while (coding < CODINGS && !sv_eq_nocase(name, sv_from(coding_names[coding]))) {
        coding++;
    }
    if (coding == CODINGS || d->n == DECODE_STACK_MAX) {
        return err_set(err, ERR_UNSUPPORTED, "content coding '%.*s' is not known here",
                       (int)(name.n > 40 ? 40 : name.n), name.p);
    }
    for (unsigned i = d->n++; i > 0; i--) {
        d->stages[i] = d->stages[i - 1];
    }
    d->stages[0] = (struct stage){.coding = (enum coding)coding};
    return 0;
}

static int add_codings(struct decode *d, struct sv list, struct err *err) {
    int rc = 0;
    while (rc == 0 && list.n > 0) {
        size_t comma = sv_find(list, SV(","));
        comma = comma > list.n ? list.n : comma;
        rc = add_coding(d, sv_trim((struct sv){list.p, comma}), err);
        list = sv_cut(list, comma + 1);
    }
    return rc;
}

int decode_new(const struct http1_head *head, uint64_t max, struct decode **out, struct err *err) {
    struct decode *d = calloc(1, sizeof *d);
    int rc = d ? 0 : err_set(err, ERR_NOMEM, "out of memory");
    *out = NULL;
    int field = -1;
    while (rc == 0 &&
           (field = http1_find(head, SV("Content-Encoding"), (size_t)(field + 1))) >= 0) {
        rc = add_codings(d, http1_value(head, (size_t)field), err);
    }
    if (rc < 0 || d->n == 0) {
        decode_free(d);
        return rc;
    }
    for (unsigned i = 0; i < d->n; i++) {
        d->stages[i].left = max;
    }
    *out = d;
    return 1;
}
