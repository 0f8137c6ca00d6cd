/* SPDX-License-Identifier: BSD-3-Clause */
/* Whatever one way of going through the text accepts, the other does; spans nest, and what is taken
 * apart and put together is the input. jansson agrees on what is JSON. */
#include <jansson.h>
#include <stdint.h>
#include <string.h>

#include "gateway/scan.h"
#include "gateway/text.h"

/* Goes inside every container; each byte is copied once. */
static int walk(struct scan *s, struct buf *out) {
    struct sv span;
    const char *from = s->p;
    int kind = scan_peek(s);
    BUG_IF(buf_add(out, from, (size_t)(s->p - from)) < 0);
    from = s->p;
    if (kind != SCAN_OBJECT && kind != SCAN_ARRAY) {
        int rc = scan_skip(s, &span);
        BUG_IF(rc > 0 && (rc != kind || buf_add_sv(out, span) < 0 || span.p != from));
        return rc;
    }
    int rc = kind == SCAN_OBJECT ? scan_enter_object(s) : scan_enter_array(s);
    while (rc >= 0 &&
           (rc = kind == SCAN_OBJECT ? scan_next_key(s, &span) : scan_next_item(s)) == 1) {
        BUG_IF(buf_add(out, from, (size_t)(s->p - from)) < 0);
        rc = walk(s, out);
        from = s->p;
    }
    return rc < 0 || buf_add(out, from, (size_t)(s->p - from)) == 0 ? rc : ERR_NOMEM;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct sv in = {(const char *)data, size};
    struct sv value;
    struct scan s;
    AUTO_BUF struct buf copy = {0};
    int kind = scan_whole(in, &value);
    scan_init(&s, in);
    int rc = walk(&s, &copy);
    const char *end = s.p;
    rc = rc < 0 ? rc : scan_end(&s);
    BUG_IF((kind > 0) != (rc >= 0));
    BUG_IF(rc >= 0 &&
           (copy.len > size || memcmp(copy.data, in.p, copy.len) != 0 || in.p + copy.len != end));
    AUTO_BUF struct buf finite = {0};
    BUG_IF(kind > 0 && text_copy_finite(value, &finite) < 0);
    json_t *tree =
        json_loadb(buf_cstr(&finite), finite.len, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    BUG_IF(tree && kind <= 0);
    json_decref(tree);
    return 0;
}
