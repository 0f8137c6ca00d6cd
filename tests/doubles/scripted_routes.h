/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_TESTS_SCRIPTED_ROUTES_H
#define SNAFFLE_TESTS_SCRIPTED_ROUTES_H

#include "net/server.h"
#include "tests/doubles/scripted_script.h"

/* The engine's routes: chat completions, models, health, version, tokenize, detokenize. */

struct routes {
    struct script script;
    int log_fd; /* -1: none. */
    long long started;
    unsigned long long requests;
};

/* For server_options; `arg` is the struct routes. */
void routes_on_request(struct exchange *x, void *arg);

#endif
