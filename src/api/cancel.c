/* SPDX-License-Identifier: BSD-3-Clause */
#include "api/cancel.h"

#include <stdlib.h>

#include "api/error.h"

int snaffle_cancel_new(snaffle_cancel **out, snaffle_error **error) {
    struct err err = {0};
    snaffle_cancel *c = calloc(1, sizeof *c);
    int r = c ? cancel_new(&c->soft, &err) : err_set(&err, ERR_NOMEM, "out of memory");
    if (r >= 0) {
        r = cancel_new(&c->hard, &err);
    }
    if (r < 0) {
        snaffle_cancel_free(c);
        return api_error(&err, error);
    }
    *out = c;
    return 0;
}

void snaffle_cancel_throw(snaffle_cancel *cancel) {
    if (!cancel) {
        return;
    }
    if (cancel_thrown(cancel->soft)) {
        cancel_throw(cancel->hard);
    }
    cancel_throw(cancel->soft);
}

void snaffle_cancel_free(snaffle_cancel *cancel) {
    if (cancel) {
        cancel_free(cancel->soft);
        cancel_free(cancel->hard);
        free(cancel);
    }
}
