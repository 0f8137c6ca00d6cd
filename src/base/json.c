/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/json.h"

#include <string.h>

#include "base/file.h"
#include "base/utf8.h"

void json_auto_decref(json_t **value) {
    json_decref(*value);
}

int json_parse(struct sv text, const char *name, json_t **out, struct err *err) {
    json_error_t e;
    json_t *value =
        json_loadb(text.p, text.n, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL, &e);
    if (!value) {
        return err_set(err, ERR_INPUT, "%s line %d column %d: no valid JSON: %s", name, e.line,
                       e.column, e.text);
    }
    *out = value;
    return 0;
}

int json_load(const char *path, size_t bytes_max, json_t **out, struct err *err) {
    AUTO_BUF struct buf text = {0};
    int r = file_read(path, bytes_max, &text, err);
    return r < 0 ? r : json_parse(buf_sv(&text), path, out, err);
}

static int add_bytes(const char *bytes, size_t n, void *out) {
    return buf_add(out, bytes, n) < 0 ? -1 : 0;
}

int json_compact(const json_t *value, struct buf *out) {
    int r = json_dump_callback(value, add_bytes, out, JSON_COMPACT | JSON_ENCODE_ANY);
    return r < 0 ? ERR_NOMEM : 0;
}

int json_pretty(const json_t *value, struct buf *out) {
    int r = json_dump_callback(value, add_bytes, out, JSON_INDENT(2) | JSON_ENCODE_ANY);
    return r < 0 ? ERR_NOMEM : buf_addc(out, '\n');
}

static int quote_byte(unsigned char c, struct buf *out) {
    switch (c) {
    case '"':
        return buf_adds(out, "\\\"");
    case '\\':
        return buf_adds(out, "\\\\");
    case '\n':
        return buf_adds(out, "\\n");
    case '\r':
        return buf_adds(out, "\\r");
    case '\t':
        return buf_adds(out, "\\t");
    default:
        return c < 0x20 || c == 0x7f ? buf_addf(out, "\\u%04x", c) : buf_addc(out, (char)c);
    }
}

int json_quote(struct sv text, struct buf *out) {
    int r = buf_addc(out, '"');
    while (r == 0 && text.n > 0) {
        size_t n = utf8_sequence(text);
        if (n == 0) {
            r = buf_adds(out, "\xEF\xBF\xBD");
            n = 1;
        } else if (n == 1) {
            r = quote_byte((unsigned char)text.p[0], out);
        } else {
            r = buf_add(out, text.p, n);
        }
        text = sv_cut(text, n);
    }
    return r < 0 ? r : buf_addc(out, '"');
}

struct sv json_sv(const json_t *value) {
    return (struct sv){json_string_value(value), json_string_length(value)};
}

json_t *json_text(struct sv text) {
    json_t *value = json_stringn(text.p, text.n);
    if (value) {
        return value;
    }
    AUTO_BUF struct buf clean = {0};
    if (utf8_clean(text, &clean) < 0) {
        return NULL;
    }
    return json_stringn_nocheck(buf_cstr(&clean), clean.len);
}
