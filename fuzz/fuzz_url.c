/* SPDX-License-Identifier: BSD-3-Clause */
/* What a URL was taken for, written down again, is taken for the same. */
#include <stdint.h>
#include <string.h>

#include "net/url.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct url first = {0};
    struct url second = {0};
    struct err err = {0};
    AUTO_BUF struct buf text = {0};
    if (url_parse((struct sv){(const char *)data, size}, &first, &err) < 0) {
        BUG_IF(err.code != ERR_INPUT);
        return 0;
    }
    BUG_IF(buf_adds(&text, first.tls ? "https://" : "http://") < 0);
    BUG_IF(url_put_host(&first, &text) < 0 || buf_adds(&text, first.path) < 0);
    BUG_IF(*first.query && buf_addf(&text, "?%s", first.query) < 0);
    BUG_IF(url_parse(buf_sv(&text), &second, &err) < 0);
    BUG_IF(first.tls != second.tls || first.port != second.port || strcmp(first.host, second.host));
    BUG_IF(strcmp(first.path, second.path) || strcmp(first.query, second.query));
    buf_reset(&text);
    BUG_IF(url_join(&first, SV("/chat/completions"), &text) < 0 || text.data[0] != '/');
    url_deinit(&first);
    url_deinit(&second);
    return 0;
}
