/* SPDX-License-Identifier: BSD-3-Clause */
#include "api/text.h"

#include "base/json.h"
#include "base/mem.h"

static int no_memory(snaffle_error **error) {
    struct err err = {0};
    err_set(&err, ERR_NOMEM, "out of memory");
    return api_error(&err, error);
}

int api_text(struct buf *from, char **out, size_t *length, snaffle_error **error) {
    size_t n = from->len;
    char *text = n > 0 ? buf_take(from) : mem_strdup("");
    if (!text) {
        return no_memory(error);
    }
    *out = text;
    if (length) {
        *length = n;
    }
    return 0;
}

int api_json(const json_t *value, char **out, snaffle_error **error) {
    AUTO_BUF struct buf text = {0};
    if (!value || json_compact(value, &text) < 0) {
        return no_memory(error);
    }
    return api_text(&text, out, NULL, error);
}
