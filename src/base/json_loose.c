/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/json_loose.h"

#include <stdlib.h>

#include "base/buf.h"
#include "base/json_valid.h"
#include "base/mem.h"
#include "base/sv.h"

#define LOAD_FLAGS (JSON_ALLOW_NUL | JSON_DECODE_ANY)
#define ESCAPE_N 6 /* \uXXXX */

static unsigned long unit_at(struct sv v, size_t i) {
    if (i + ESCAPE_N > v.n || v.p[i] != '\\' || v.p[i + 1] != 'u') {
        return 0;
    }
    char digits[5] = {v.p[i + 2], v.p[i + 3], v.p[i + 4], v.p[i + 5]};
    return strtoul(digits, NULL, 16);
}

static bool is_high(unsigned long unit) {
    return unit >= 0xd800 && unit < 0xdc00;
}

static bool is_low(unsigned long unit) {
    return unit >= 0xdc00 && unit < 0xe000;
}

/* Each half of a surrogate pair without its other becomes U+FFFD, as a decoder would show it. */
static int mend(struct sv v, struct buf *out) {
    int r = 0;
    for (size_t i = 0; r == 0 && i < v.n;) {
        unsigned long unit = unit_at(v, i);
        size_t n = unit ? ESCAPE_N : v.p[i] == '\\' && i + 1 < v.n ? 2 : 1;
        if (is_high(unit) && is_low(unit_at(v, i + ESCAPE_N))) {
            n = 2 * (size_t)ESCAPE_N;
        } else if (is_high(unit) || is_low(unit)) {
            r = buf_adds(out, "\\ufffd");
            i += n;
            continue;
        }
        r = buf_add(out, v.p + i, n);
        i += n;
    }
    return r;
}

static json_t *load(struct sv v) {
    json_t *value = json_loadb(v.p, v.n, LOAD_FLAGS, NULL);
    AUTO_BUF struct buf mended = {0};
    if (!value && mend(v, &mended) == 0) {
        value = json_loadb(mended.data ? mended.data : "", mended.len, LOAD_FLAGS, NULL);
    }
    return value;
}

json_t *json_loose(struct sv object, const char *const *fields) {
    json_t *out = json_valid(object) ? json_object() : NULL;
    for (; out && *fields; fields++) {
        struct sv raw = json_raw_get(object, *fields);
        json_t *value = raw.n > 0 ? load(raw) : NULL;
        if (value && json_object_set_new(out, *fields, value) < 0) {
            json_decref(out);
            return NULL;
        }
    }
    return out;
}
