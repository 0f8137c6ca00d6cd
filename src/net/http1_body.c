/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/http1.h"
#include "net/http1_chars.h"

/* 15 hex digits hold an exabyte, and adding chunks of that size can't overflow 64 bits soon. */
#define CHUNK_DIGITS_MAX 15u

enum state {
    AT_SIZE,
    AT_BLANK, /* Blanks before an extension. */
    AT_EXTENSION,
    AT_SIZE_LF,
    AT_DATA,
    AT_DATA_CR,
    AT_DATA_LF,
    AT_TRAILER_START,
    AT_TRAILER,
    AT_TRAILER_LF,
    AT_END_LF,
};

static void init(struct http1_body *b, enum http1_framing framing, uint64_t length) {
    *b = (struct http1_body){.framing = framing, .left = length};
    if (framing == HTTP1_LENGTH && length == 0) {
        b->framing = HTTP1_NO_BODY;
    }
}

void http1_body_of_request(struct http1_body *b, const struct http1_head *head) {
    init(b, head->chunked ? HTTP1_CHUNKED : HTTP1_LENGTH, head->chunked ? 0 : head->content_length);
}

void http1_body_of_response(struct http1_body *b, const struct http1_head *head,
                            bool head_request) {
    if (head_request || head->status < 200 || head->status == 204 || head->status == 304) {
        init(b, HTTP1_NO_BODY, 0);
    } else if (head->chunked) {
        init(b, HTTP1_CHUNKED, 0);
    } else {
        init(b, head->has_length ? HTTP1_LENGTH : HTTP1_UNTIL_CLOSE, head->content_length);
    }
}

static int bad(const char *why, struct err *err) {
    return err_set(err, ERR_PROTOCOL, "bad chunked body: %s", why);
}

static int on_size(struct http1_body *b, unsigned char c, struct err *err) {
    int digit = http1_hex_digit(c);
    if (digit >= 0) {
        if (++b->digits > CHUNK_DIGITS_MAX) {
            return bad("a chunk size of too many digits", err);
        }
        b->left = b->left * 16 + (uint64_t)digit;
        return 0;
    }
    if (b->digits == 0) {
        return bad("a chunk without size", err);
    }
    if (c == '\r') {
        b->state = AT_SIZE_LF;
    } else if (c == ';') {
        b->state = AT_EXTENSION;
    } else if (c == ' ' || c == '\t') {
        b->state = AT_BLANK;
    } else {
        return bad("a chunk size that is no hexadecimal number", err);
    }
    return 0;
}

static int on_size_tail(struct http1_body *b, unsigned char c, struct err *err) {
    if (b->state == AT_SIZE_LF) {
        if (c != '\n') {
            return bad("a lone carriage return", err);
        }
        b->state = b->left ? AT_DATA : AT_TRAILER_START;
        b->line_n = 0;
    } else if (b->state == AT_BLANK) {
        if (c == ';') {
            b->state = AT_EXTENSION;
        } else if (c != ' ' && c != '\t') {
            return bad("a blank after a chunk size", err);
        }
    } else if (c == '\r') {
        b->state = AT_SIZE_LF;
    } else if (!http1_is_text_byte(c)) {
        return bad("a chunk extension with a control character", err);
    }
    return 0;
}

static int on_data_end(struct http1_body *b, unsigned char c, struct err *err) {
    if (c != (b->state == AT_DATA_CR ? '\r' : '\n')) {
        return bad("a chunk longer than its size", err);
    }
    if (b->state == AT_DATA_CR) {
        b->state = AT_DATA_LF;
    } else {
        b->state = AT_SIZE;
        b->digits = 0;
        b->line_n = 0;
    }
    return 0;
}

static int on_trailer(struct http1_body *b, unsigned char c, struct err *err) {
    if (b->state == AT_TRAILER_LF || b->state == AT_END_LF) {
        if (c != '\n') {
            return bad("a lone carriage return", err);
        }
        b->done = b->state == AT_END_LF;
        b->state = AT_TRAILER_START;
    } else if (c == '\r') {
        b->state = b->state == AT_TRAILER_START ? AT_END_LF : AT_TRAILER_LF;
    } else if (!http1_is_text_byte(c)) {
        return bad("a trailer with a control character", err);
    } else {
        b->state = AT_TRAILER;
    }
    return 0;
}

static int on_framing_byte(struct http1_body *b, unsigned char c, struct err *err) {
    bool in_trailer = b->state >= AT_TRAILER_START;
    if (++b->line_n > (in_trailer ? HTTP1_TRAILER_MAX : HTTP1_CHUNK_LINE_MAX)) {
        return err_set(err, ERR_LIMIT, "bad chunked body: a %s is too long",
                       in_trailer ? "trailer" : "chunk size line");
    }
    if (in_trailer) {
        return on_trailer(b, c, err);
    }
    if (b->state == AT_SIZE) {
        return on_size(b, c, err);
    }
    return b->state <= AT_SIZE_LF ? on_size_tail(b, c, err) : on_data_end(b, c, err);
}

static int give(struct http1_body *b, struct sv in, size_t n, size_t *used, struct sv *span) {
    *span = (struct sv){in.p, n};
    *used += n;
    b->payload_bytes += n;
    return HTTP1_DATA;
}

/* Nearly every size line is digits and CR LF and came whole, as did the CR LF before it. How many
 * bytes were taken; 0: they are looked at one by one. */
static size_t pass_size_line(struct http1_body *b, struct sv in) {
    size_t i = 0;
    if (b->state == AT_DATA_CR && sv_starts_with(in, SV("\r\n"))) {
        i = 2;
    } else if (b->state != AT_SIZE || b->digits > 0) {
        return 0;
    }
    size_t first = i;
    uint64_t n = 0;
    for (int digit; i < in.n && i - first < CHUNK_DIGITS_MAX; i++) {
        if ((digit = http1_hex_digit((unsigned char)in.p[i])) < 0) {
            break;
        }
        n = n * 16 + (uint64_t)digit;
    }
    if (n == 0 || !sv_starts_with(sv_cut(in, i), SV("\r\n"))) {
        return 0;
    }
    b->state = AT_DATA;
    b->digits = (unsigned)(i - first);
    b->left = n;
    return i + 2;
}

static int next_chunked(struct http1_body *b, struct sv in, size_t *used, struct sv *span,
                        struct err *err) {
    for (size_t i = pass_size_line(b, in); i < in.n; i++) {
        if (b->state == AT_DATA) {
            size_t n = in.n - i < b->left ? in.n - i : (size_t)b->left;
            b->left -= n;
            b->state = b->left ? AT_DATA : AT_DATA_CR;
            b->line_n = 0;
            *used = i;
            return give(b, sv_cut(in, i), n, used, span);
        }
        int r = on_framing_byte(b, (unsigned char)in.p[i], err);
        if (r < 0) {
            return r;
        }
        if (b->done) {
            *used = i + 1;
            return HTTP1_END;
        }
    }
    *used = in.n;
    return HTTP1_MORE;
}

int http1_body_next(struct http1_body *b, struct sv in, size_t *used, struct sv *span,
                    struct err *err) {
    *used = 0;
    *span = (struct sv){0};
    if (b->done || b->framing == HTTP1_NO_BODY) {
        b->done = true;
        return HTTP1_END;
    }
    if (b->framing == HTTP1_CHUNKED) {
        return next_chunked(b, in, used, span, err);
    }
    if (b->framing == HTTP1_LENGTH && b->left == 0) {
        b->done = true;
        return HTTP1_END;
    }
    if (in.n == 0) {
        return HTTP1_MORE;
    }
    if (b->framing == HTTP1_UNTIL_CLOSE) {
        return give(b, in, in.n, used, span);
    }
    size_t n = in.n < b->left ? in.n : (size_t)b->left;
    b->left -= n;
    return give(b, in, n, used, span);
}

int http1_body_eof(struct http1_body *b, bool truncated, struct err *err) {
    if (b->done || b->framing == HTTP1_NO_BODY || (b->framing == HTTP1_LENGTH && b->left == 0)) {
        b->done = true;
        return 0;
    }
    if (b->framing == HTTP1_UNTIL_CLOSE && !truncated) {
        b->done = true;
        return 0;
    }
    return err_set(err, ERR_CLOSED, "the body was cut off after %llu bytes",
                   (unsigned long long)b->payload_bytes);
}
