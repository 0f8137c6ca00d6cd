/* SPDX-License-Identifier: BSD-3-Clause */
#include "journal/splices.h"

#include <stdint.h>

#include "base/json.h"

/* One splice; `*at` is how much of the text is used up. */
static int apply(const json_t *splice, struct sv text, size_t *at, struct buf *out) {
    const json_t *offset = json_array_get(splice, 0);
    const json_t *length = json_array_get(splice, 1);
    const json_t *put = json_array_get(splice, 2);
    if (!json_is_integer(offset) || !json_is_integer(length) || !json_is_string(put)) {
        return ERR_INPUT;
    }
    json_int_t from = json_integer_value(offset);
    json_int_t cut = json_integer_value(length);
    if (from < (json_int_t)*at || from > (json_int_t)text.n || cut < 0 ||
        cut > (json_int_t)text.n - from) {
        return ERR_INPUT;
    }
    int rc = buf_add(out, text.p + *at, (size_t)from - *at);
    *at = (size_t)(from + cut);
    return rc < 0 ? rc : buf_add(out, json_string_value(put), json_string_length(put));
}

int splices_apply(struct sv text, struct sv splices, struct buf *out) {
    AUTO_JSON json_t *list = json_loadb(splices.p, splices.n, 0, NULL);
    size_t at = 0;
    int rc = json_is_array(list) ? 0 : ERR_INPUT;
    for (size_t i = 0; rc == 0 && i < json_array_size(list); i++) {
        rc = apply(json_array_get(list, i), text, &at, out);
    }
    return rc < 0 ? rc : buf_add(out, text.p + at, text.n - at);
}
