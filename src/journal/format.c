/* SPDX-License-Identifier: BSD-3-Clause */
#include "journal/format.h"

#include <string.h>

#include "journal/crc32c.h"

#define MAGIC "SNAFJRNL"
#define MAGIC_BYTES 8

static void put16(char *p, uint16_t v) {
    p[0] = (char)(v & 0xff);
    p[1] = (char)(v >> 8);
}

static void put32(char *p, uint32_t v) {
    put16(p, (uint16_t)(v & 0xffff));
    put16(p + 2, (uint16_t)(v >> 16));
}

static void put64(char *p, uint64_t v) {
    put32(p, (uint32_t)(v & 0xffffffff));
    put32(p + 4, (uint32_t)(v >> 32));
}

static uint16_t get16(const char *p) {
    return (uint16_t)((unsigned char)p[0] | (unsigned char)p[1] << 8);
}

static uint32_t get32(const char *p) {
    return get16(p) | (uint32_t)get16(p + 2) << 16;
}

static uint64_t get64(const char *p) {
    return get32(p) | (uint64_t)get32(p + 4) << 32;
}

/* A header's checksum, with its own field as zero. */
static uint32_t header_crc(struct sv header) {
    uint32_t crc = crc32c(0, header.p, 16);
    crc = crc32c(crc, "\0\0\0", 4);
    return crc32c(crc, header.p + 20, header.n - 20);
}

int format_add_segment_header(const char *boot, struct buf *out) {
    struct sv name = sv_from(boot);
    size_t start = out->len;
    char fixed[FORMAT_START_BYTES] = MAGIC;
    put16(fixed + 8, FORMAT_MAJOR);
    put16(fixed + 10, FORMAT_MINOR);
    put32(fixed + 12, (uint32_t)(FORMAT_START_BYTES + name.n));
    put32(fixed + 20, (uint32_t)name.n);
    int r = buf_add(out, fixed, sizeof fixed);
    r = r < 0 ? r : buf_add_sv(out, name);
    if (r == 0) {
        char *header = out->data + start;
        put32(header + 16, header_crc((struct sv){header, out->len - start}));
    }
    return r;
}

int format_read_segment_header(struct sv bytes, size_t *header_bytes) {
    if (memcmp(bytes.p, MAGIC, bytes.n < MAGIC_BYTES ? bytes.n : MAGIC_BYTES) != 0) {
        return ERR_CORRUPT;
    }
    if (bytes.n < FORMAT_START_BYTES) {
        return 0;
    }
    if (get16(bytes.p + 8) != FORMAT_MAJOR) {
        return ERR_UNSUPPORTED;
    }
    uint32_t n = get32(bytes.p + 12);
    uint32_t boot = get32(bytes.p + 20);
    if (n < FORMAT_START_BYTES || n > FORMAT_HEADER_MAX || boot > n - FORMAT_START_BYTES) {
        return ERR_CORRUPT;
    }
    if (bytes.n < n) {
        return 0;
    }
    if (get32(bytes.p + 16) != header_crc((struct sv){bytes.p, n})) {
        return ERR_CORRUPT;
    }
    *header_bytes = n;
    return 1;
}

int format_measure(const struct journal_record *r, size_t *bytes, struct err *err) {
    if (r->session.n == 0 || r->session.n > FORMAT_SESSION_MAX) {
        return err_set(err, ERR_LIMIT, "the session's name must have 1 to %d bytes",
                       FORMAT_SESSION_MAX);
    }
    if (r->n_parts > JOURNAL_PARTS_MAX || r->head.n > FORMAT_BODY_MAX) {
        return err_set(err, ERR_LIMIT, "a journal record holds at most %d parts",
                       JOURNAL_PARTS_MAX);
    }
    uint64_t n = r->session.n + r->head.n;
    for (unsigned i = 0; i < r->n_parts; i++) {
        const struct journal_part *part = &r->parts[i];
        if (part->name.n == 0 || part->name.n > FORMAT_PART_NAME_MAX ||
            part->bytes.n > FORMAT_BODY_MAX) {
            return err_set(err, ERR_LIMIT, "part '%.*s' does not fit a journal record",
                           SV_ARG(part->name));
        }
        n += 8 + part->name.n + part->bytes.n;
    }
    if (n > FORMAT_BODY_MAX) {
        return err_set(err, ERR_LIMIT, "a journal record holds at most %u bytes", FORMAT_BODY_MAX);
    }
    *bytes = FORMAT_HEAD_BYTES + (size_t)n;
    return 0;
}

static char *put_bytes(char *p, struct sv v) {
    if (v.n > 0) {
        memcpy(p, v.p, v.n);
    }
    return p + v.n;
}

size_t format_frame_bytes(const struct journal_record *r) {
    size_t n = FORMAT_HEAD_BYTES + r->session.n + r->head.n;
    for (unsigned i = 0; i < r->n_parts; i++) {
        n += 8 + r->parts[i].name.n;
    }
    return n;
}

/* All but the checksums. */
static void put_head(const struct journal_record *r, size_t body_bytes, char *out) {
    uint64_t time_bits;
    memcpy(&time_bits, &r->time, sizeof time_bits);
    put32(out + 4, (uint32_t)body_bytes);
    put16(out + 12, (uint16_t)r->type);
    put16(out + 14, 0);
    put64(out + 16, r->call);
    put64(out + 24, time_bits);
    put32(out + 32, (uint32_t)r->session.n);
    put32(out + 36, (uint32_t)r->head.n);
    put32(out + 40, r->n_parts);
}

unsigned format_lay(const struct journal_record *r, bool keeps, char *out, struct iovec *spans) {
    char *from = out; /* Of the run that is being written. */
    char *p = put_bytes(out + FORMAT_HEAD_BYTES, r->session);
    size_t kept = 0;
    unsigned n = 0;
    p = put_bytes(p, r->head);
    for (unsigned i = 0; i < r->n_parts; i++) {
        struct sv bytes = r->parts[i].bytes;
        put32(p, (uint32_t)r->parts[i].name.n);
        put32(p + 4, (uint32_t)bytes.n);
        p = put_bytes(p + 8, r->parts[i].name);
        if (!keeps || bytes.n == 0) {
            p = put_bytes(p, bytes);
            continue;
        }
        spans[n++] = (struct iovec){from, (size_t)(p - from)};
        spans[n++] = (struct iovec){(void *)(uintptr_t)bytes.p, bytes.n};
        kept += bytes.n;
        from = p;
    }
    if (p > from) {
        spans[n++] = (struct iovec){from, (size_t)(p - from)};
    }
    put_head(r, (size_t)(p - out) + kept - FORMAT_HEAD_BYTES, out);
    return n;
}

void format_seal(const struct iovec *spans, unsigned n) {
    char *out = spans[0].iov_base;
    uint32_t crc = crc32c(0, out + FORMAT_HEAD_BYTES, spans[0].iov_len - FORMAT_HEAD_BYTES);
    for (unsigned i = 1; i < n; i++) {
        crc = crc32c(crc, spans[i].iov_base, spans[i].iov_len);
    }
    put32(out + 8, crc);
    put32(out + 44, crc32c(0, out + FORMAT_HEAD_BYTES, get32(out + 32)));
    put32(out, crc32c(0, out + 4, FORMAT_HEAD_BYTES - 4));
}

void format_write(const struct journal_record *r, char *out) {
    struct iovec all = {.iov_base = out};
    (void)format_lay(r, /* keeps= */ false, out, &all);
    format_seal(&all, 1);
}

bool format_read_head(const char bytes[FORMAT_HEAD_BYTES], struct format_head *out) {
    if (get32(bytes) != crc32c(0, bytes + 4, FORMAT_HEAD_BYTES - 4)) {
        return false;
    }
    uint64_t time_bits = get64(bytes + 24);
    *out = (struct format_head){
        .body_bytes = get32(bytes + 4),
        .body_crc = get32(bytes + 8),
        .type = get16(bytes + 12),
        .flags = get16(bytes + 14),
        .call = get64(bytes + 16),
        .session_bytes = get32(bytes + 32),
        .json_bytes = get32(bytes + 36),
        .n_parts = get32(bytes + 40),
        .session_crc = get32(bytes + 44),
    };
    memcpy(&out->time, &time_bits, sizeof out->time);
    return out->body_bytes <= FORMAT_BODY_MAX;
}

bool format_may_be_head(const char bytes[FORMAT_HEAD_BYTES]) {
    return get32(bytes + 40) <= JOURNAL_PARTS_MAX && get32(bytes + 32) <= FORMAT_SESSION_MAX &&
           get32(bytes + 4) <= FORMAT_BODY_MAX;
}

/* Cuts `n` bytes off the front of *rest; false if there are fewer. */
static bool cut(struct sv *rest, size_t n, struct sv *out) {
    if (rest->n < n) {
        return false;
    }
    *out = (struct sv){rest->p, n};
    *rest = sv_cut(*rest, n);
    return true;
}

static bool read_part(struct sv *rest, struct journal_part *out) {
    struct sv lengths;
    if (!cut(rest, 8, &lengths)) {
        return false;
    }
    uint32_t name = get32(lengths.p);
    uint32_t bytes = get32(lengths.p + 4);
    return name <= FORMAT_PART_NAME_MAX && cut(rest, name, &out->name) &&
           cut(rest, bytes, &out->bytes);
}

bool format_read_body(const struct format_head *head, struct sv body, struct journal_record *out) {
    if (body.n != head->body_bytes || crc32c(0, body.p, body.n) != head->body_crc ||
        head->n_parts > JOURNAL_PARTS_MAX || head->session_bytes > FORMAT_SESSION_MAX) {
        return false;
    }
    struct journal_record r = {.type = (enum journal_type)head->type,
                               .call = head->call,
                               .time = head->time,
                               .n_parts = head->n_parts};
    if (!cut(&body, head->session_bytes, &r.session) || !cut(&body, head->json_bytes, &r.head)) {
        return false;
    }
    for (unsigned i = 0; i < r.n_parts; i++) {
        if (!read_part(&body, &r.parts[i])) {
            return false;
        }
    }
    if (body.n != 0) {
        return false;
    }
    *out = r;
    return true;
}
