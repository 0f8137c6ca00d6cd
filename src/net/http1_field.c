/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/mem.h"
#include "net/http1.h"
#include "net/http1_chars.h"

struct sv http1_name(const struct http1_head *head, size_t i) {
    const struct http1_field *f = &head->fields[i];
    return (struct sv){head->raw.p + f->line_at, f->name_n};
}

struct sv http1_value(const struct http1_head *head, size_t i) {
    const struct http1_field *f = &head->fields[i];
    return (struct sv){head->raw.p + f->value_at, f->value_n};
}

struct sv http1_line(const struct http1_head *head, size_t i) {
    const struct http1_field *f = &head->fields[i];
    return (struct sv){head->raw.p + f->line_at, f->line_n};
}

int http1_find(const struct http1_head *head, struct sv name, size_t from) {
    for (size_t i = from; i < head->n_fields; i++) {
        if (sv_eq_nocase(http1_name(head, i), name)) {
            return (int)i;
        }
    }
    return -1;
}

struct sv http1_get(const struct http1_head *head, struct sv name) {
    int i = http1_find(head, name, 0);
    if (i < 0) {
        return (struct sv){0};
    }
    return http1_value(head, (size_t)i);
}

struct sv http1_shown_key(const struct http1_head *head) {
    struct sv value = http1_get(head, SV("Authorization"));
    struct sv word = SV("Bearer ");
    if (value.n > word.n && sv_eq_nocase((struct sv){value.p, word.n}, word)) {
        return sv_trim(sv_cut(value, word.n));
    }
    return http1_get(head, SV("X-Api-Key"));
}

bool http1_lists(const struct http1_head *head, struct sv name, struct sv word) {
    for (int i = http1_find(head, name, 0); i >= 0; i = http1_find(head, name, (size_t)i + 1)) {
        struct sv list = http1_value(head, (size_t)i);
        struct sv element;
        while (http1_list_next(&list, &element)) {
            if (sv_eq_nocase(element, word)) {
                return true;
            }
        }
    }
    return false;
}

bool http1_is_framing(struct sv name) {
    return sv_eq_nocase(name, SV("Content-Length")) || sv_eq_nocase(name, SV("Transfer-Encoding"));
}

bool http1_is_hop_by_hop(const struct http1_head *head, struct sv name) {
    static const char *const fixed[] = {
        "Connection", "Keep-Alive", "TE", "Trailer", "Transfer-Encoding", "Upgrade",
    };
    for (size_t i = 0; i < ARRAY_LEN(fixed); i++) {
        if (sv_eq_nocase(name, sv_from(fixed[i]))) {
            return true;
        }
    }
    struct sv proxy = SV("Proxy-");
    bool is_proxy = name.n > proxy.n && sv_eq_nocase((struct sv){name.p, proxy.n}, proxy);
    return is_proxy || http1_lists(head, SV("Connection"), name);
}

bool http1_keep_alive(const struct http1_head *head) {
    if (head->connection_close) {
        return false;
    }
    return head->minor >= 1 || head->connection_keep_alive;
}

struct sv http1_target_path(const struct http1_head *head) {
    struct sv target = head->target;
    size_t scheme = sv_find(target, SV("://"));
    if (target.n == 0 || target.p[0] == '/' || scheme == (size_t)-1) {
        return target;
    }
    for (size_t i = scheme + 3; i < target.n; i++) {
        if (target.p[i] == '/') {
            return sv_cut(target, i);
        }
        if (target.p[i] == '?') {
            break; /* A query right after the host: the path is empty, which means "/". */
        }
    }
    return SV("/");
}

void http1_head_rebase(struct http1_head *head, const char *raw) {
    struct sv *views[] = {&head->method, &head->target, &head->start_line, &head->reason};
    for (size_t i = 0; i < ARRAY_LEN(views); i++) {
        if (views[i]->p) {
            views[i]->p = raw + (views[i]->p - head->raw.p);
        }
    }
    head->raw.p = raw;
}
