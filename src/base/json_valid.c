/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/json_valid.h"

#include <string.h>

#include "base/utf8.h"

struct scan {
    const char *p;
    const char *end;
};

static bool at(const struct scan *s, char c) {
    return s->p < s->end && *s->p == c;
}

static bool take(struct scan *s, char c) {
    if (!at(s, c)) {
        return false;
    }
    s->p++;
    return true;
}

static void skip_blanks(struct scan *s) {
    while (s->p < s->end && (*s->p == ' ' || *s->p == '\n' || *s->p == '\t' || *s->p == '\r')) {
        s->p++;
    }
}

static bool is_digit(const struct scan *s) {
    return s->p < s->end && *s->p >= '0' && *s->p <= '9';
}

static bool skip_digits(struct scan *s) {
    if (!is_digit(s)) {
        return false;
    }
    while (is_digit(s)) {
        s->p++;
    }
    return true;
}

static bool skip_number(struct scan *s) {
    take(s, '-');
    if (!take(s, '0') && !skip_digits(s)) {
        return false;
    }
    if (take(s, '.') && !skip_digits(s)) {
        return false;
    }
    if (take(s, 'e') || take(s, 'E')) {
        if (!take(s, '+')) {
            take(s, '-');
        }
        return skip_digits(s);
    }
    return true;
}

static bool skip_escape(struct scan *s) {
    if (s->p == s->end || !*s->p) {
        return false;
    }
    char c = *s->p++;
    if (c != 'u') {
        return strchr("\"\\/bfnrt", c) != NULL;
    }
    for (int i = 0; i < 4; i++, s->p++) {
        bool hex =
            s->p < s->end && ((*s->p >= '0' && *s->p <= '9') || (*s->p >= 'a' && *s->p <= 'f') ||
                              (*s->p >= 'A' && *s->p <= 'F'));
        if (!hex) {
            return false;
        }
    }
    return true;
}

static bool skip_string(struct scan *s) {
    if (!take(s, '"')) {
        return false;
    }
    while (s->p < s->end) {
        unsigned char c = (unsigned char)*s->p;
        if (c == '"') {
            s->p++;
            return true;
        }
        if (c < 0x20) {
            return false;
        }
        if (c == '\\') {
            s->p++;
            if (!skip_escape(s)) {
                return false;
            }
        } else if (c < 0x80) {
            s->p++;
        } else {
            size_t n = utf8_sequence((struct sv){s->p, (size_t)(s->end - s->p)});
            if (n == 0) {
                return false;
            }
            s->p += n;
        }
    }
    return false;
}

static bool skip_word(struct scan *s, struct sv word) {
    if (!sv_starts_with((struct sv){s->p, (size_t)(s->end - s->p)}, word)) {
        return false;
    }
    s->p += word.n;
    return true;
}

static bool skip_scalar(struct scan *s) {
    if (s->p == s->end) {
        return false;
    }
    switch (*s->p) {
    case '"':
        return skip_string(s);
    case 't':
        return skip_word(s, SV("true"));
    case 'f':
        return skip_word(s, SV("false"));
    case 'n':
        return skip_word(s, SV("null"));
    default:
        return skip_number(s);
    }
}

static bool skip_key(struct scan *s) {
    skip_blanks(s);
    if (!skip_string(s)) {
        return false;
    }
    skip_blanks(s);
    return take(s, ':');
}

/* The open containers: '{' or '[' each. */
struct nest {
    char open[JSON_VALID_DEPTH_MAX];
    size_t depth;
};

/* At the start of a value: goes into containers up to the first scalar or empty container. */
static bool enter(struct scan *s, struct nest *nest) {
    for (;;) {
        skip_blanks(s);
        if (!at(s, '{') && !at(s, '[')) {
            return skip_scalar(s);
        }
        if (nest->depth == JSON_VALID_DEPTH_MAX) {
            return false;
        }
        char open = *s->p++;
        skip_blanks(s);
        if (take(s, open == '{' ? '}' : ']')) {
            return true;
        }
        nest->open[nest->depth++] = open;
        if (open == '{' && !skip_key(s)) {
            return false;
        }
    }
}

static bool skip_value(struct scan *s) {
    struct nest nest;
    nest.depth = 0;
    if (!enter(s, &nest)) {
        return false;
    }
    while (nest.depth > 0) {
        bool object = nest.open[nest.depth - 1] == '{';
        skip_blanks(s);
        if (take(s, ',')) {
            if ((object && !skip_key(s)) || !enter(s, &nest)) {
                return false;
            }
        } else if (take(s, object ? '}' : ']')) {
            nest.depth--;
        } else {
            return false;
        }
    }
    return true;
}

bool json_valid(struct sv text) {
    struct scan s = {text.p, text.p + text.n};
    if (text.n == 0 || !skip_value(&s)) {
        return false;
    }
    skip_blanks(&s);
    return s.p == s.end;
}

struct sv json_raw_get(struct sv object, const char *field) {
    struct scan s = {object.p, object.p + object.n};
    struct sv want = sv_from(field);
    skip_blanks(&s);
    if (!take(&s, '{')) {
        return (struct sv){0};
    }
    do {
        skip_blanks(&s);
        const char *name = s.p + 1;
        if (!skip_string(&s)) {
            break;
        }
        bool found = sv_eq((struct sv){name, (size_t)(s.p - 1 - name)}, want);
        skip_blanks(&s);
        if (!take(&s, ':')) {
            break;
        }
        skip_blanks(&s);
        const char *value = s.p;
        if (!skip_value(&s)) {
            break;
        }
        if (found) {
            return (struct sv){value, (size_t)(s.p - value)};
        }
        skip_blanks(&s);
    } while (take(&s, ','));
    return (struct sv){0};
}
