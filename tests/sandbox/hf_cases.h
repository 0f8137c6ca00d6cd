/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_TESTS_SANDBOX_HF_CASES_H
#define SNAFFLE_TESTS_SANDBOX_HF_CASES_H

#include <stdio.h>

#include "sandbox/sandbox.h"
#include "tests/sandbox/contract.h"
#include "tests/sandbox/hf_hub.h"

/* Runs cases in sandboxes of a fake Hub of their own, whose servers speak as argv[1] says. */
static inline int hub_run_cases(int argc, char **argv, const struct CMUnitTest *cases, size_t n) {
    if (!hub_start(argc > 1 ? argv[1] : "protocol=3")) {
        (void)printf("1..0 # SKIP no fake Hub here\n");
        return 0;
    }
    int failed = contract_run_cases(&sandbox_hf, cases, n);
    hub_stop();
    return failed;
}

#endif
