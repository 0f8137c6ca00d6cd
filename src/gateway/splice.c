/* SPDX-License-Identifier: BSD-3-Clause */
#include "gateway/splice.h"

#include <stdlib.h>
#include <string.h>

#define SPLICE_FIRST_CAP 16u /* A request needs about six edits, an answer's event three. */

void splice_reset(struct splice *s) {
    s->n = 0;
}

void splice_deinit(struct splice *s) {
    free(s->edits);
    *s = (struct splice){0};
}

int splice_add(struct splice *s, const char *at, size_t cut, struct sv put) {
    if (s->n == s->cap) {
        size_t cap = s->cap ? s->cap * 2 : SPLICE_FIRST_CAP;
        struct splice_edit *edits = realloc(s->edits, cap * sizeof *edits);
        if (!edits) {
            return ERR_NOMEM;
        }
        s->edits = edits;
        s->cap = cap;
    }
    /* Mostly in order already. */
    size_t i = s->n++;
    while (i > 0 && s->edits[i - 1].at > at) {
        s->edits[i] = s->edits[i - 1];
        i--;
    }
    s->edits[i] = (struct splice_edit){at, cut, put};
    return 0;
}

int splice_replace(struct splice *s, struct sv span, struct sv put) {
    return splice_add(s, span.p, span.n, put);
}

static bool is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

int splice_remove_member(struct splice *s, struct sv text, struct sv member, bool kept_before) {
    const char *from = member.p;
    const char *to = member.p + member.n;
    if (kept_before) {
        while (from > text.p && *from != ',') {
            from--;
        }
    } else {
        const char *end = text.p + text.n;
        const char *p = to;
        while (p < end && is_blank(*p)) {
            p++;
        }
        if (p < end && *p == ',') {
            to = p + 1;
            while (to < end && is_blank(*to)) {
                to++;
            }
        }
    }
    return splice_add(s, from, (size_t)(to - from), (struct sv){0});
}

int splice_apply(struct splice *s, struct sv text, struct buf *out) {
    const char *kept = text.p;
    const char *end = text.p + text.n;
    size_t most = text.n;
    for (size_t i = 0; i < s->n; i++) {
        most += s->edits[i].put.n;
    }
    int rc = buf_reserve(out, most);
    if (rc < 0) {
        return rc;
    }
    char *to = out->data + out->len;
    for (size_t i = 0; i < s->n; i++) {
        const struct splice_edit *e = &s->edits[i];
        BUG_IF(e->at < kept || e->cut > (size_t)(end - e->at));
        to = mempcpy(to, kept, (size_t)(e->at - kept));
        to = e->put.n > 0 ? mempcpy(to, e->put.p, e->put.n) : to;
        kept = e->at + e->cut;
    }
    to = mempcpy(to, kept, (size_t)(end - kept));
    *to = '\0';
    out->len = (size_t)(to - out->data);
    return 0;
}
