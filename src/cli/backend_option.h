/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_CLI_BACKEND_OPTION_H
#define SNAFFLE_CLI_BACKEND_OPTION_H

#include "cli/option.h"
#include "sandbox/sandbox.h"

/* Of commands that look at sandboxes: where those are. */
#define BACKEND_OPTION                                                                             \
    { "backend", OPTION_WORD, "NAME", "of this backend (default: local)", sandbox_backend_names }
#define NAMESPACE_OPTION                                                                           \
    {                                                                                              \
        "namespace", OPTION_TEXT, "NAME",                                                          \
            "of this account or organization (hf; default: the token's own)", NULL                 \
    }

static inline const struct sandbox_backend *backend_of(const struct args *a) {
    const char *name = args_text(a, "backend");
    return name ? sandbox_backend_find(name) : &sandbox_local;
}

#endif
