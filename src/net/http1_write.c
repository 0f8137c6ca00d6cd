/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>

#include "net/http1.h"
#include "net/http1_chars.h"

static int no_room(int code, struct err *err) {
    return err_set(err, code, "no room for a message head");
}

#define REASON_ROW(status, text)                                                                   \
    case status:                                                                                   \
        return text;

const char *http1_reason(int status) {
    switch (status) {
        REASON_ROW(100, "Continue")
        REASON_ROW(101, "Switching Protocols")
        REASON_ROW(200, "OK")
        REASON_ROW(201, "Created")
        REASON_ROW(202, "Accepted")
        REASON_ROW(204, "No Content")
        REASON_ROW(304, "Not Modified")
        REASON_ROW(307, "Temporary Redirect")
        REASON_ROW(400, "Bad Request")
        REASON_ROW(401, "Unauthorized")
        REASON_ROW(403, "Forbidden")
        REASON_ROW(404, "Not Found")
        REASON_ROW(405, "Method Not Allowed")
        REASON_ROW(408, "Request Timeout")
        REASON_ROW(409, "Conflict")
        REASON_ROW(413, "Content Too Large")
        REASON_ROW(414, "URI Too Long")
        REASON_ROW(415, "Unsupported Media Type")
        REASON_ROW(417, "Expectation Failed")
        REASON_ROW(422, "Unprocessable Content")
        REASON_ROW(426, "Upgrade Required")
        REASON_ROW(429, "Too Many Requests")
        REASON_ROW(431, "Request Header Fields Too Large")
        REASON_ROW(499, "Client Closed Request")
        REASON_ROW(500, "Internal Server Error")
        REASON_ROW(501, "Not Implemented")
        REASON_ROW(502, "Bad Gateway")
        REASON_ROW(503, "Service Unavailable")
        REASON_ROW(504, "Gateway Timeout")
        REASON_ROW(505, "HTTP Version Not Supported")
        REASON_ROW(507, "Insufficient Storage")
    default:
        return "Unknown";
    }
}

int http1_put_request(struct buf *out, struct sv method, struct sv target, struct err *err) {
    if (!http1_is_token(method) || !http1_is_target(target)) {
        return err_set(err, ERR_INPUT, "a request target may hold visible ASCII only");
    }
    int r = buf_addf(out, "%.*s %.*s HTTP/1.1\r\n", SV_ARG(method), SV_ARG(target));
    return r < 0 ? no_room(r, err) : 0;
}

int http1_put_status(struct buf *out, int status, struct sv reason, struct err *err) {
    if (status < 100 || status > 999 || !http1_is_text(reason)) {
        return err_set(err, ERR_INPUT, "'%d' with this reason makes no status line", status);
    }
    struct sv text = reason.p ? reason : sv_from(http1_reason(status));
    int r = buf_addf(out, "HTTP/1.1 %d %.*s\r\n", status, SV_ARG(text));
    return r < 0 ? no_room(r, err) : 0;
}

int http1_put_field(struct buf *out, struct sv name, struct sv value, struct err *err) {
    if (!http1_is_token(name)) {
        return err_set(err, ERR_INPUT, "'%.*s' is no field name", SV_ARG(name));
    }
    if (!http1_is_text(value)) { /* The value may be a secret: it is not repeated. */
        return err_set(err, ERR_INPUT, "the value of '%.*s' has a control character in it",
                       SV_ARG(name));
    }
    if (http1_is_framing(name)) {
        return err_set(err, ERR_INPUT, "'%.*s' is written by the codec alone", SV_ARG(name));
    }
    int r = buf_addf(out, "%.*s: ", SV_ARG(name));
    r = r < 0 ? r : buf_add_sv(out, value);
    r = r < 0 ? r : buf_adds(out, "\r\n");
    return r < 0 ? no_room(r, err) : 0;
}

static bool is_dropped(struct sv name, const char *const *drop) {
    for (; drop && *drop; drop++) {
        if (sv_eq_nocase(name, sv_from(*drop))) {
            return true;
        }
    }
    return false;
}

int http1_put_end_to_end(struct buf *out, const struct http1_head *head, const char *const *drop,
                         struct err *err) {
    for (size_t i = 0; i < head->n_fields; i++) {
        struct sv name = http1_name(head, i);
        if (http1_is_framing(name) || http1_is_hop_by_hop(head, name) || is_dropped(name, drop)) {
            continue;
        }
        int r = buf_add_sv(out, http1_line(head, i));
        if (r < 0) {
            return no_room(r, err);
        }
    }
    return 0;
}

int http1_put_framing(struct buf *out, enum http1_framing framing, uint64_t length,
                      struct err *err) {
    int r = 0;
    if (framing == HTTP1_LENGTH) {
        r = buf_addf(out, "Content-Length: %llu\r\n", (unsigned long long)length);
    } else if (framing == HTTP1_CHUNKED) {
        r = buf_adds(out, "Transfer-Encoding: chunked\r\n");
    } else if (framing == HTTP1_UNTIL_CLOSE) {
        r = buf_adds(out, "Connection: close\r\n");
    }
    return r < 0 ? no_room(r, err) : 0;
}

int http1_put_end(struct buf *out, struct err *err) {
    int r = buf_adds(out, "\r\n");
    return r < 0 ? no_room(r, err) : 0;
}

struct sv http1_chunk_head(char out[HTTP1_CHUNK_HEAD_MAX], size_t payload_n) {
    static const char digits[] = "0123456789abcdef";
    size_t at = HTTP1_CHUNK_HEAD_MAX;
    out[--at] = '\n';
    out[--at] = '\r';
    do {
        out[--at] = digits[payload_n & 15];
        payload_n >>= 4;
    } while (payload_n);
    return (struct sv){out + at, HTTP1_CHUNK_HEAD_MAX - at};
}
