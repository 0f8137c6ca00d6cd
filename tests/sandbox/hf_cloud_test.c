/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <stdlib.h>

#include "tests/sandbox/contract.h"

/*
 * The contract on the Hub that HF_ENDPOINT and HF_TOKEN name: the real one, if nothing else is
 * said. ./dev test cloud hf runs it and sweeps. What it may cost is bounded here: so many
 * sandboxes, each of the smallest flavor and of so long a life.
 */
#define SANDBOXES_MAX 60
#define LIFETIME_S 900
#define CREATE_S 300 /* A machine of the cloud has to be found and the image to be fetched. */

static unsigned made;

static int bounded_create(const struct sandbox_spec *spec, deadline_ms until,
                          const struct cancel *cancel, struct sandbox **out, struct err *err) {
    struct sandbox_spec own = *spec;
    bool in_a_hurry = deadline_left_ms(until) < PATIENCE_S * 1000 / 2; /* The case is about it. */
    if (made == SANDBOXES_MAX) {
        return err_set(err, ERR_LIMIT, "more than %d sandboxes", SANDBOXES_MAX);
    }
    made++;
    own.lifetime_s = own.lifetime_s < LIFETIME_S ? own.lifetime_s : LIFETIME_S;
    return sandbox_hf.create(&own, in_a_hurry ? until : deadline_in_s(CREATE_S), cancel, out, err);
}

int main(void) {
    struct sandbox_backend backend = sandbox_hf;
    backend.create = bounded_create;
    int failed = contract_run(&backend);
    (void)printf("# %u sandboxes were made, each for %d s at most\n", made, LIFETIME_S);
    return failed;
}
