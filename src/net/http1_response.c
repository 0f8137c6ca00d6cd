/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/http1_chars.h"
#include "net/http1_parse.h"

static int bad(struct http1_head_parser *p, const char *why, struct err *err) {
    return http1_refuse(p, 502, ERR_PROTOCOL, why, err);
}

/* "HTTP/1.1 200 OK"; some servers leave out the reason, or the blank before it too. */
int http1_parse_status_line(struct http1_head_parser *p, struct sv line, struct http1_head *head,
                            struct err *err) {
    struct sv version = {line.p, line.n < 8 ? line.n : 8};
    int r = http1_parse_version(p, version, head, err);
    if (r < 0) {
        return r;
    }
    if (line.n < 12 || line.p[8] != ' ' || (line.n > 12 && line.p[12] != ' ')) {
        return bad(p, "its first line is not 'HTTP/1.1 NNN reason'", err);
    }
    for (size_t i = 9; i < 12; i++) {
        if (line.p[i] < '0' || line.p[i] > '9') {
            return bad(p, "a status that is no number", err);
        }
        head->status = head->status * 10 + (line.p[i] - '0');
    }
    if (head->status < 100) {
        return bad(p, "a status below 100", err);
    }
    head->reason = sv_cut(line, 13);
    if (!http1_is_text(head->reason)) {
        return bad(p, "a reason with a control character", err);
    }
    return 0;
}
