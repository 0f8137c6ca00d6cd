/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/dockerfile.h"

#include <string.h>

#define BASE_MAX 255 /* Registries take no longer names. */

static struct sv take_line(struct sv *left) {
    size_t end = sv_find(*left, SV("\n"));
    struct sv line = end == (size_t)-1 ? *left : (struct sv){left->p, end + 1};
    *left = sv_cut(*left, line.n);
    return line;
}

/* Gives the default behind "ARG NAME=", without the line's end. */
static bool is_arg(struct sv line, const char *name, struct sv *value) {
    static const struct sv word = {"ARG ", 4};
    size_t n = strlen(name);
    if (!sv_starts_with(line, word) || !sv_starts_with(sv_cut(line, word.n), sv_from(name)) ||
        line.n <= word.n + n || line.p[word.n + n] != '=') {
        return false;
    }
    *value = sv_cut(line, word.n + n + 1);
    value->n -= sv_ends_with(*value, SV("\n"));
    return true;
}

struct sv dockerfile_arg(struct sv text, const char *name) {
    struct sv value = {0};
    while (text.n > 0 && !is_arg(take_line(&text), name, &value)) {
    }
    return value;
}

int dockerfile_fill(struct sv text, const struct dockerfile_value *values, size_t n,
                    struct buf *out) {
    int r = 0;
    while (r == 0 && text.n > 0) {
        struct sv line = take_line(&text);
        const struct dockerfile_value *found = NULL;
        for (size_t i = 0; i < n && !found; i++) {
            struct sv old;
            found = values[i].value && is_arg(line, values[i].arg, &old) ? &values[i] : NULL;
        }
        r = found ? buf_addf(out, "ARG %s=%s\n", found->arg, found->value) : buf_add_sv(out, line);
    }
    return r;
}

int dockerfile_check_base(const char *base, struct err *err) {
    static const char good[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                               "._-/:@";
    size_t n = strlen(base);
    if (n == 0 || n > BASE_MAX || strspn(base, good) != n || strchr("._-/:@", base[0])) {
        return err_set(err, ERR_USAGE,
                       "--base: '%s' is no image's name (want NAME, NAME:TAG or NAME@DIGEST)",
                       base);
    }
    return 0;
}
