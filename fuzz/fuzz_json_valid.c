/* SPDX-License-Identifier: BSD-3-Clause */
/* What a JSON library builds is valid (unless deeper than our bound, or with a NUL behind it, which
 * that library takes for the end); a field that is found is valid too. */
#include <stdint.h>
#include <string.h>

#include "base/json.h"
#include "base/json_valid.h"

static bool shallow(const uint8_t *data, size_t size) {
    size_t open = 0;
    for (size_t i = 0; i < size; i++) {
        open += data[i] == '[' || data[i] == '{';
    }
    return open <= JSON_VALID_DEPTH_MAX;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct sv text = {(const char *)data, size};
    AUTO_JSON json_t *built = json_loadb(text.p, size, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    bool comparable = shallow(data, size) && size > 0 && !memchr(data, 0, size);
    BUG_IF(built && comparable && !json_valid(text));
    struct sv field = json_raw_get(text, "a");
    BUG_IF(field.n > 0 && (field.p < text.p || field.p + field.n > text.p + text.n));
    BUG_IF(field.n > 0 && !json_valid(field));
    return 0;
}
