/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/sandbox/contract.h"
#include "tests/sandbox/hf_hub.h"

/* The contract, by the hf backend against the fake Hub, whose words for the server inside (its
 * generation) are the first argument; the second is the user of commands. */
int main(int argc, char **argv) {
    if (!hub_start(argc > 1 ? argv[1] : "protocol=3")) {
        (void)printf("1..0 # SKIP no fake Hub here\n");
        return 0;
    }
    contract_machine.user = argc > 2 ? argv[2] : NULL;
    int failed = contract_run(&sandbox_hf);
    long left = hub_alive();
    if (left > 0) {
        (void)printf("# %ld sandboxes are left on the Hub\n", left);
    }
    hub_stop();
    return failed || left > 0;
}
