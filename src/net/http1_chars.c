/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/http1_chars.h"

#include <string.h>

enum { TEXT = 1, VISIBLE = 2, TOKEN = 4 };
#define DELIMITER (TEXT | VISIBLE)
#define NAME (TEXT | VISIBLE | TOKEN)

static const unsigned char class_of[256] = {
    ['\t'] = TEXT,         [' '] = TEXT,
    ['!'] = NAME,          ['"'] = DELIMITER,
    ['#' ... '\''] = NAME, ['(' ... ')'] = DELIMITER,
    ['*' ... '+'] = NAME,  [','] = DELIMITER,
    ['-' ... '.'] = NAME,  ['/'] = DELIMITER,
    ['0' ... '9'] = NAME,  [':' ... '@'] = DELIMITER,
    ['A' ... 'Z'] = NAME,  ['[' ... ']'] = DELIMITER,
    ['^' ... 'z'] = NAME,  ['{'] = DELIMITER,
    ['|'] = NAME,          ['}'] = DELIMITER,
    ['~'] = NAME,          [0x80 ... 0xff] = TEXT,
};

static bool all(struct sv v, unsigned char class) {
    for (size_t i = 0; i < v.n; i++) {
        if (!(class_of[(unsigned char)v.p[i]] & class)) {
            return false;
        }
    }
    return true;
}

bool http1_is_token(struct sv v) {
    return v.n > 0 && all(v, TOKEN);
}

bool http1_is_text(struct sv v) {
    return all(v, TEXT);
}

bool http1_is_target(struct sv v) {
    return v.n > 0 && all(v, VISIBLE);
}

bool http1_is_text_byte(unsigned char c) {
    return class_of[c] & TEXT;
}

int http1_hex_digit(unsigned char c) {
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    unsigned char lower = c | 0x20;
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

bool http1_list_next(struct sv *list, struct sv *element) {
    if (!list->p) {
        return false;
    }
    const char *comma = list->n ? memchr(list->p, ',', list->n) : NULL;
    size_t n = comma ? (size_t)(comma - list->p) : list->n;
    *element = sv_trim((struct sv){list->p, n});
    *list = comma ? sv_cut(*list, n + 1) : (struct sv){0};
    return true;
}
