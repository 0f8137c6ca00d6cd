/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>

#include "api/text.h"
#include "base/json.h"
#include "rollout/catalog.h"

const char *snaffle_version(void) {
    return SNAFFLE_VERSION;
}

void snaffle_free(void *text) {
    free(text);
}

int snaffle_catalog_summary(char **json, snaffle_error **error) {
    AUTO_JSON json_t *summary = catalog_summary();
    return api_json(summary, json, error);
}
