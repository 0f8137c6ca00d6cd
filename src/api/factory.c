/* SPDX-License-Identifier: BSD-3-Clause */
#include "api/factory.h"

#include <stdlib.h>

#include "api/error.h"
#include "api/sized.h"

/* Up to and with `upstream_down_s`: the fields of the first version. */
#define OPTIONS_LEAST (offsetof(snaffle_options, upstream_down_s) + sizeof(double))

static int factory_make(snaffle_factory *f, const snaffle_options *options, struct err *err) {
    snaffle_options o;
    int r = sized_take(&o, sizeof o, options, OPTIONS_LEAST, err);
    if (r < 0) {
        return r;
    }
    r = settings_make(&f->settings, &o, err);
    return r < 0 ? r : rollout_factory_new(&f->settings.options, &f->inner, err);
}

int snaffle_factory_new(const snaffle_options *options, snaffle_factory **out,
                        snaffle_error **error) {
    struct err err = {0};
    snaffle_factory *f = calloc(1, sizeof *f);
    int r = f ? factory_make(f, options, &err) : err_set(&err, ERR_NOMEM, "out of memory");
    if (r < 0) {
        snaffle_factory_free(f);
        return api_error(&err, error);
    }
    *out = f;
    return 0;
}

const char *snaffle_factory_run(const snaffle_factory *factory) {
    return rollout_factory_run(factory->inner);
}

int snaffle_factory_check_endpoint(const snaffle_factory *factory, snaffle_error **error) {
    struct err err = {0};
    int r = rollout_factory_check_endpoint(factory->inner, NULL, &err);
    return r < 0 ? api_error(&err, error) : 0;
}

void snaffle_factory_free(snaffle_factory *factory) {
    if (factory) {
        rollout_factory_free(factory->inner);
        settings_deinit(&factory->settings);
        free(factory);
    }
}
