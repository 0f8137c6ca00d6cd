/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "base/mem.h"
#include "cli/commands.h"

static const char *const shells[] = {"bash", "zsh", "fish", NULL};

static int run(const struct args *a, struct err *err) {
    static void (*const writers[])(FILE *) = {completion_bash, completion_zsh, completion_fish};
    for (size_t i = 0; i < ARRAY_LEN(writers); i++) {
        if (strcmp(a->operands[0], shells[i]) == 0) {
            writers[i](stdout);
            return 0;
        }
    }
    return err_set(err, ERR_USAGE, "completion: '%s' is none of: bash, zsh, fish", a->operands[0]);
}

const struct command cmd_completion = {
    .name = "completion",
    .summary = "print a shell's completion script",
    .operands = "SHELL",
    .operands_min = 1,
    .operands_max = 1,
    .operand_words = shells,
    .notes = "To try it: source <(snaffle completion bash)",
    .pure = true,
    .run = run,
};
