/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "tests/sandbox/contract.h"
#include "tests/sandbox/local_world.h"

/* The contract, by the local backend: as we are, or with --as-user as an ordinary user. */
int main(int argc, char **argv) {
    world_enter(argc > 1 && strcmp(argv[1], "--as-user") == 0);
    int failed = contract_run(&sandbox_local);
    return world_leave() ? failed : 1;
}
