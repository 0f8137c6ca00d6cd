/* SPDX-License-Identifier: BSD-3-Clause */
#include "guest/protocol.h"

#define LENGTH_BYTES 4
#define HEAD_BYTES 5 /* Type and id: what every frame's length counts at least. */
#define FIELD_HEAD_BYTES 5
#define INTEGER_BYTES 8

static uint64_t get_be(const char *p, size_t n) {
    uint64_t value = 0;
    for (size_t i = 0; i < n; i++) {
        value = value << 8 | (unsigned char)p[i];
    }
    return value;
}

static void put_be(char *p, size_t n, uint64_t value) {
    for (size_t i = 0; i < n; i++) {
        p[i] = (char)(unsigned char)(value >> (8 * (n - 1 - i)));
    }
}

int protocol_feed(struct protocol_in *in, const void *bytes, size_t n) {
    buf_consume(&in->buf, in->at);
    in->at = 0;
    return buf_add(&in->buf, bytes, n);
}

void protocol_in_deinit(struct protocol_in *in) {
    buf_deinit(&in->buf);
    in->at = 0;
}

int protocol_next(struct protocol_in *in, struct protocol_frame *out, struct err *err) {
    struct sv rest = sv_cut(buf_sv(&in->buf), in->at);
    if (rest.n < LENGTH_BYTES) {
        return 0;
    }
    size_t length = (size_t)get_be(rest.p, LENGTH_BYTES);
    if (length < HEAD_BYTES || length > PROTOCOL_FRAME_MAX) {
        return err_set(err, ERR_PROTOCOL, "a frame of %zu bytes is not in the guest protocol",
                       length);
    }
    if (rest.n - LENGTH_BYTES < length) {
        return 0;
    }
    const char *head = rest.p + LENGTH_BYTES;
    struct sv fields = {head + HEAD_BYTES, length - HEAD_BYTES};
    int r = protocol_check(fields, err);
    if (r < 0) {
        return r;
    }
    *out = (struct protocol_frame){
        .type = (uint8_t)head[0],
        .id = (uint32_t)get_be(head + 1, 4),
        .fields = fields,
    };
    in->at += LENGTH_BYTES + length;
    return 1;
}

int protocol_check(struct sv fields, struct err *err) {
    while (fields.n > 0) {
        if (fields.n < FIELD_HEAD_BYTES) {
            return err_set(err, ERR_PROTOCOL, "a frame ends within a field's head");
        }
        uint8_t tag = (uint8_t)fields.p[0];
        size_t length = (size_t)get_be(fields.p + 1, 4);
        if (length > fields.n - FIELD_HEAD_BYTES) {
            return err_set(err, ERR_PROTOCOL, "field %u runs past its frame's end", tag);
        }
        if (tag >= PROTOCOL_INTEGER && length != INTEGER_BYTES) {
            return err_set(err, ERR_PROTOCOL, "field %u is an integer of %zu bytes, not of 8", tag,
                           length);
        }
        fields = sv_cut(fields, FIELD_HEAD_BYTES + length);
    }
    return 0;
}

bool protocol_each(struct sv *rest, uint8_t *tag, struct sv *value) {
    if (rest->n < FIELD_HEAD_BYTES) {
        return false;
    }
    size_t length = (size_t)get_be(rest->p + 1, 4);
    BUG_IF(length > rest->n - FIELD_HEAD_BYTES);
    *tag = (uint8_t)rest->p[0];
    *value = (struct sv){rest->p + FIELD_HEAD_BYTES, length};
    *rest = sv_cut(*rest, FIELD_HEAD_BYTES + length);
    return true;
}

bool protocol_find(struct sv fields, uint8_t tag, struct sv *out) {
    uint8_t found;
    struct sv value;
    while (protocol_each(&fields, &found, &value)) {
        if (found == tag) {
            *out = value;
            return true;
        }
    }
    return false;
}

uint64_t protocol_u64(struct sv fields, uint8_t tag, uint64_t fallback) {
    struct sv value;
    return protocol_find(fields, tag, &value) ? get_be(value.p, INTEGER_BYTES) : fallback;
}

static void append(struct protocol_out *o, const void *bytes, size_t n) {
    if (o->failed == 0) {
        o->failed = buf_add(o->buf, bytes, n);
    }
}

struct protocol_out protocol_fields_begin(struct buf *buf) {
    return (struct protocol_out){.buf = buf, .start = buf->len};
}

struct protocol_out protocol_begin(struct buf *buf, uint8_t type, uint32_t id) {
    struct protocol_out o = protocol_fields_begin(buf);
    char head[LENGTH_BYTES + HEAD_BYTES] = {0};
    head[LENGTH_BYTES] = (char)type;
    put_be(head + LENGTH_BYTES + 1, 4, id);
    append(&o, head, sizeof head);
    return o;
}

void protocol_add(struct protocol_out *o, uint8_t tag, struct sv value) {
    BUG_IF(tag >= PROTOCOL_INTEGER && value.n != INTEGER_BYTES);
    if (value.n > PROTOCOL_FRAME_MAX) {
        o->failed = o->failed ? o->failed : ERR_LIMIT;
        return;
    }
    char head[FIELD_HEAD_BYTES] = {(char)tag};
    put_be(head + 1, 4, value.n);
    append(o, head, sizeof head);
    append(o, value.p, value.n);
}

void protocol_add_u64(struct protocol_out *o, uint8_t tag, uint64_t value) {
    char bytes[INTEGER_BYTES];
    put_be(bytes, sizeof bytes, value);
    protocol_add(o, tag, (struct sv){bytes, sizeof bytes});
}

int protocol_fields_end(struct protocol_out *o) {
    size_t length = o->buf->len - o->start;
    if (o->failed == 0 && length > PROTOCOL_FRAME_MAX) {
        o->failed = ERR_LIMIT;
    }
    if (o->failed < 0) {
        o->buf->len = o->start;
    }
    return o->failed;
}

int protocol_end(struct protocol_out *o) {
    if (o->failed == 0) {
        size_t length = o->buf->len - o->start - LENGTH_BYTES;
        put_be(o->buf->data + o->start, LENGTH_BYTES, length);
        o->failed = length > PROTOCOL_FRAME_MAX ? ERR_LIMIT : 0;
    }
    if (o->failed < 0) {
        o->buf->len = o->start;
    }
    return o->failed;
}
