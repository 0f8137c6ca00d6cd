/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "cli/commands.h"
#include "cli/out.h"

static int run(const struct args *a, struct err *err) {
    size_t words = 0;
    if (args_has(a, "json")) {
        return out_json(commands_to_json(), err);
    }
    if (a->n_operands == 0) {
        commands_print_help(stdout);
        return 0;
    }
    const struct command *c = command_find(a->n_operands, (char *const *)a->operands, &words);
    if (!c || words != a->n_operands) {
        return err_set(err, ERR_USAGE, "help: no command '%s%s%s' (see 'snaffle help')",
                       a->operands[0], a->n_operands > 1 ? " " : "",
                       a->n_operands > 1 ? a->operands[1] : "");
    }
    command_print_help(c, stdout);
    return 0;
}

const struct command cmd_help = {
    .name = "help",
    .summary = "explain a command",
    .operands = "[COMMAND]",
    .operands_max = 2,
    .operand_words = (const char *const[]){"run", "ls", "show", "trace", "doctor", "agent", "gc",
                                           "sandbox", "completion", NULL},
    .options = (const struct option[]){{"json", OPTION_SWITCH, NULL,
                                        "print every command with its options as JSON", NULL},
                                       {0}},
    .pure = true,
    .run = run,
};
