/* SPDX-License-Identifier: BSD-3-Clause */
#include "api/error.h"

#include <stdlib.h>

/* The public numbers are the inside's. */
#define SAME_(name, text, http, exit_status, retry)                                                \
    _Static_assert((int)SNAFFLE_ERR_##name == (int)ERR_##name, "SNAFFLE_ERR_" #name);
ERR_MAP(SAME_)
#undef SAME_

struct snaffle_error {
    struct err err;
};

int api_error(const struct err *err, snaffle_error **error) {
    if (error) {
        *error = calloc(1, sizeof **error); /* NULL says "out of memory" through the accessors. */
        if (*error) {
            (*error)->err = *err;
        }
    }
    return err->code;
}

int snaffle_error_code(const snaffle_error *error) {
    return error ? error->err.code : SNAFFLE_ERR_NOMEM;
}

const char *snaffle_error_name(const snaffle_error *error) {
    return err_name(snaffle_error_code(error));
}

const char *snaffle_error_message(const snaffle_error *error) {
    return error ? error->err.msg : "out of memory";
}

int snaffle_error_retryable(const snaffle_error *error) {
    return err_is_retryable(snaffle_error_code(error));
}

void snaffle_error_free(snaffle_error *error) {
    free(error);
}
