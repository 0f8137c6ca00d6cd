/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/commands.h"
#include "cli/machine.h"

static int run(const struct args *a, struct err *err) {
    struct findings f;
    int r = findings_init(&f, err);
    if (r < 0) {
        return r;
    }
    machine_check_system(&f);
    machine_check_sandbox(&f);
    machine_check_network(&f);
    machine_check_state(&f);
    machine_check_agents(&f);
    machine_check_endpoints(&f);
    machine_check_limits(&f);
    r = findings_print(&f, args_has(a, "json"), err);
    if (r == 0 && f.lacks) {
        r = err_exit_status(ERR_ENVIRONMENT);
    }
    findings_deinit(&f);
    return r;
}

const struct command cmd_doctor = {
    .name = "doctor",
    .summary = "tell what this machine has and lacks",
    .operands = "",
    .options = (const struct option[]){{"json", OPTION_SWITCH, NULL, "print JSON", NULL}, {0}},
    .notes = "ok: there; note: lacks, of use only sometimes; lacks: required.",
    .run = run,
};
