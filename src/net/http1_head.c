/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds the end of a head in bytes that come in pieces. The lines are read in http1_parse.c. */
#include <string.h>

#include "net/http1.h"
#include "net/http1_chars.h"
#include "net/http1_parse.h"

/* Some old clients send an empty line after a body; more than that is no client. */
#define EMPTY_LINES_MAX 1u

int http1_refuse(struct http1_head_parser *p, int status, int code, const char *why,
                 struct err *err) {
    bool is_request = p->kind == HTTP1_REQUEST;
    p->refuse_status = is_request ? status : 502;
    return err_set(err, code, "%s: %s", is_request ? "bad request head" : "bad answer head", why);
}

/* The bytes of the head in `v`, searching on from p->scanned; 0 when its end is not there yet. */
static int find_end(struct http1_head_parser *p, struct sv v, size_t *end, struct err *err) {
    size_t n = v.n < HTTP1_HEAD_MAX ? v.n : HTTP1_HEAD_MAX;
    while (p->scanned < n) {
        const char *lf = memchr(v.p + p->scanned, '\n', n - p->scanned);
        if (!lf) {
            p->scanned = n;
            break;
        }
        size_t at = (size_t)(lf - v.p);
        if (at == 0 || v.p[at - 1] != '\r') {
            return http1_refuse(p, 400, ERR_PROTOCOL, "a line ends without carriage return", err);
        }
        p->scanned = at + 1;
        if (at >= 3 && v.p[at - 2] == '\n') {
            *end = at + 1;
            return 1;
        }
    }
    if (v.n >= HTTP1_HEAD_MAX) {
        bool in_first_line = !memchr(v.p, '\n', HTTP1_HEAD_MAX);
        return http1_refuse(p, in_first_line ? 414 : 431, ERR_LIMIT, "longer than 65536 bytes",
                            err);
    }
    return 0;
}

/* 1 when the front is fit to start a head; 0 when that can't be told yet. `*skip` empty-line bytes
 * come before it. */
static int check_front(struct http1_head_parser *p, struct sv v, size_t *skip, struct err *err) {
    *skip = 0;
    while (p->kind == HTTP1_REQUEST && v.n > 0 && v.p[0] == '\r') {
        if (v.n < 2) {
            return 0;
        }
        if (v.p[1] != '\n' || p->skipped == EMPTY_LINES_MAX) {
            return http1_refuse(p, 400, ERR_PROTOCOL, "no method at its start", err);
        }
        p->skipped++;
        *skip += 2;
        v = sv_cut(v, 2);
    }
    if (v.n == 0) {
        return 0;
    }
    /* Told at the first byte, so that a TLS greeting on a plain port is not waited for. */
    if (p->kind == HTTP1_REQUEST && !http1_is_token((struct sv){v.p, 1})) {
        return http1_refuse(p, 400, ERR_PROTOCOL, "no method at its start (TLS on a plain port?)",
                            err);
    }
    if (p->kind == HTTP1_RESPONSE && v.p[0] != 'H') {
        return http1_refuse(p, 502, ERR_PROTOCOL, "it does not start with 'HTTP/'", err);
    }
    return 1;
}

static int out_of_memory(struct http1_head_parser *p, struct err *err) {
    return http1_refuse(p, 500, ERR_NOMEM, "out of memory", err);
}

static int feed_in_place(struct http1_head_parser *p, struct sv in, size_t *used,
                         struct http1_head *head, struct err *err) {
    size_t skip = 0;
    int r = check_front(p, in, &skip, err);
    struct sv v = sv_cut(in, skip);
    size_t end = 0;
    if (r > 0) {
        r = find_end(p, v, &end, err);
    }
    if (r < 0) {
        return r;
    }
    if (r == 0) {
        *used = in.n;
        return buf_add_sv(&p->carry, v) < 0 ? out_of_memory(p, err) : 0;
    }
    *used = skip + end;
    return http1_parse(p, (struct sv){v.p, end}, head, err);
}

static int feed_carried(struct http1_head_parser *p, struct sv in, size_t *used,
                        struct http1_head *head, struct err *err) {
    size_t room = HTTP1_HEAD_MAX + 2 - p->carry.len;
    size_t added = in.n < room ? in.n : room;
    if (buf_add(&p->carry, in.p, added) < 0) {
        return out_of_memory(p, err);
    }
    size_t skip = 0;
    int r = p->scanned ? 1 : check_front(p, buf_sv(&p->carry), &skip, err);
    buf_consume(&p->carry, skip);
    size_t end = 0;
    if (r > 0) {
        r = find_end(p, buf_sv(&p->carry), &end, err);
    }
    if (r <= 0) {
        *used = added;
        return r;
    }
    *used = added - (p->carry.len - end);
    p->carry.len = end;
    return http1_parse(p, buf_sv(&p->carry), head, err);
}

int http1_head_feed(struct http1_head_parser *p, struct sv in, size_t *used,
                    struct http1_head *head, struct err *err) {
    *used = 0;
    if (p->given) {
        http1_head_parser_reset(p);
    }
    if (p->refuse_status) {
        return err_set(err, ERR_STATE, "the head was refused before");
    }
    if (in.n == 0) {
        return 0;
    }
    int r =
        p->carry.len ? feed_carried(p, in, used, head, err) : feed_in_place(p, in, used, head, err);
    p->given = r > 0;
    return r;
}

bool http1_head_started(const struct http1_head_parser *p) {
    return p->carry.len > 0 && !p->given;
}

void http1_head_parser_reset(struct http1_head_parser *p) {
    buf_reset(&p->carry);
    p->refuse_status = 0;
    p->scanned = 0;
    p->skipped = 0;
    p->given = false;
}

void http1_head_parser_deinit(struct http1_head_parser *p) {
    http1_head_parser_reset(p);
    buf_deinit(&p->carry);
}
