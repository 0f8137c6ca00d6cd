/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/http1_parse.h"

#include <string.h>

#include "net/http1_chars.h"

/* 18 digits hold an exabyte and can't overflow 64 bits. */
#define LENGTH_DIGITS_MAX 18

static int bad(struct http1_head_parser *p, const char *why, struct err *err) {
    return http1_refuse(p, 400, ERR_PROTOCOL, why, err);
}

int http1_parse_version(struct http1_head_parser *p, struct sv v, struct http1_head *head,
                        struct err *err) {
    if (v.n != 8 || !sv_starts_with(v, SV("HTTP/")) || v.p[6] != '.' || v.p[5] < '0' ||
        v.p[5] > '9' || v.p[7] < '0' || v.p[7] > '9') {
        return bad(p, "no HTTP version in its first line", err);
    }
    if (v.p[5] != '1' || v.p[7] > '1') {
        return http1_refuse(p, 505, ERR_UNSUPPORTED, "only HTTP/1.0 and HTTP/1.1 are spoken", err);
    }
    head->minor = v.p[7] - '0';
    return 0;
}

static int parse_field(struct http1_head_parser *p, struct http1_head *head, size_t at, size_t n,
                       struct err *err) {
    if (head->n_fields == HTTP1_FIELDS_MAX) {
        return http1_refuse(p, 431, ERR_LIMIT, "more than 128 fields", err);
    }
    struct sv line = {head->raw.p + at, n - 2};
    if (line.p[0] == ' ' || line.p[0] == '\t') {
        return bad(p, "a folded field line", err);
    }
    const char *colon = memchr(line.p, ':', line.n);
    if (!colon) {
        return bad(p, "a field line without colon", err);
    }
    size_t name_n = (size_t)(colon - line.p);
    if (name_n > 0 && (colon[-1] == ' ' || colon[-1] == '\t')) {
        return bad(p, "a blank before a field's colon", err);
    }
    if (!http1_is_token((struct sv){line.p, name_n})) {
        return bad(p, "a field name with a character that none may have", err);
    }
    struct sv value = sv_trim(sv_cut(line, name_n + 1));
    if (!http1_is_text(value)) {
        return bad(p, "a field value with a control character", err);
    }
    head->fields[head->n_fields++] = (struct http1_field){
        .line_at = (uint32_t)at,
        .line_n = (uint32_t)n,
        .name_n = (uint32_t)name_n,
        .value_at = (uint32_t)(value.p - head->raw.p),
        .value_n = (uint32_t)value.n,
    };
    return 0;
}

static int note_length(struct http1_head_parser *p, struct http1_head *head, struct sv value,
                       struct err *err) {
    uint64_t n = 0;
    if (value.n == 0 || value.n > LENGTH_DIGITS_MAX) {
        return bad(p, "a Content-Length that is no length", err);
    }
    for (size_t i = 0; i < value.n; i++) {
        if (value.p[i] < '0' || value.p[i] > '9') {
            return bad(p, "a Content-Length that is no length", err);
        }
        n = n * 10 + (uint64_t)(value.p[i] - '0');
    }
    if (head->has_length && head->content_length != n) {
        return bad(p, "two Content-Length fields that differ", err);
    }
    head->has_length = true;
    head->content_length = n;
    return 0;
}

static int note_encoding(struct http1_head_parser *p, struct http1_head *head, struct sv value,
                         struct err *err) {
    if (head->minor == 0) {
        return bad(p, "Transfer-Encoding in HTTP/1.0", err);
    }
    if (head->chunked) {
        return bad(p, "more after 'chunked' in Transfer-Encoding", err);
    }
    struct sv element;
    while (http1_list_next(&value, &element)) {
        if (head->chunked || element.n == 0) {
            return bad(p, "'chunked' is not last in Transfer-Encoding", err);
        }
        if (!sv_eq_nocase(element, SV("chunked"))) {
            return http1_refuse(p, 501, ERR_UNSUPPORTED, "a Transfer-Encoding other than 'chunked'",
                                err);
        }
        head->chunked = true;
    }
    return 0;
}

static void note_connection(struct http1_head *head, struct sv value) {
    struct sv element;
    while (http1_list_next(&value, &element)) {
        head->connection_close |= sv_eq_nocase(element, SV("close"));
        head->connection_keep_alive |= sv_eq_nocase(element, SV("keep-alive"));
        head->upgrade |= sv_eq_nocase(element, SV("upgrade"));
    }
}

static int note_field(struct http1_head_parser *p, struct http1_head *head, size_t i,
                      struct err *err) {
    struct sv name = http1_name(head, i);
    struct sv value = http1_value(head, i);
    if (sv_eq_nocase(name, SV("Content-Length"))) {
        return note_length(p, head, value, err);
    }
    if (sv_eq_nocase(name, SV("Transfer-Encoding"))) {
        return note_encoding(p, head, value, err);
    }
    if (sv_eq_nocase(name, SV("Connection"))) {
        note_connection(head, value);
    }
    return 0;
}

static int parse_fields(struct http1_head_parser *p, struct http1_head *head, size_t at,
                        struct err *err) {
    while (at + 2 < head->raw.n) { /* The last line is the empty one. */
        const char *lf = memchr(head->raw.p + at, '\n', head->raw.n - at);
        size_t n = (size_t)(lf - (head->raw.p + at)) + 1;
        int r = parse_field(p, head, at, n, err);
        if (r < 0) {
            return r;
        }
        at += n;
        r = note_field(p, head, head->n_fields - 1, err);
        if (r < 0) {
            return r;
        }
    }
    if (head->chunked && head->has_length) {
        return bad(p, "Content-Length and Transfer-Encoding together", err);
    }
    head->upgrade = head->upgrade && http1_find(head, SV("Upgrade"), 0) >= 0;
    return 0;
}

int http1_parse(struct http1_head_parser *p, struct sv raw, struct http1_head *head,
                struct err *err) {
    /* The fields' array is filled as it goes; clearing its 2.5 KB each time would be waste. */
    memset(head, 0, offsetof(struct http1_head, fields));
    head->kind = p->kind;
    head->raw = raw;
    const char *lf = memchr(raw.p, '\n', raw.n);
    head->start_line = (struct sv){raw.p, (size_t)(lf - raw.p) + 1};
    struct sv line = {raw.p, head->start_line.n - 2};
    int r = p->kind == HTTP1_REQUEST ? http1_parse_request_line(p, line, head, err)
                                     : http1_parse_status_line(p, line, head, err);
    if (r == 0) {
        r = parse_fields(p, head, head->start_line.n, err);
    }
    if (r == 0 && p->kind == HTTP1_REQUEST) {
        r = http1_check_request(p, head, err);
    }
    if (r < 0) {
        return r;
    }
    head->expect_continue = p->kind == HTTP1_REQUEST && head->minor == 1 &&
                            http1_find(head, SV("Expect"), 0) >= 0 &&
                            (head->chunked || head->content_length > 0);
    return 1;
}
