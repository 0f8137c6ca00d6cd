/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/commands.h"

#include <string.h>

const struct command *const commands[] = {
    &cmd_run,
    &cmd_batch,
    &cmd_serve,
    &cmd_gateway_probe,
    &cmd_gateway,
    &cmd_mcp,
    &cmd_ls,
    &cmd_show,
    &cmd_trace,
    &cmd_doctor,
    &cmd_agent_install,
    &cmd_agent_ls,
    &cmd_image_dockerfile,
    &cmd_gc,
    &cmd_sandbox_ls,
    &cmd_sandbox_exec,
    &cmd_sandbox_kill,
    &cmd_completion,
    &cmd_help,
    NULL,
};

/* Whether `name` is argv's first word, or its first two with a blank between. */
static size_t words_matched(const char *name, size_t argc, char *const *argv) {
    const char *blank = strchr(name, ' ');
    size_t first = blank ? (size_t)(blank - name) : strlen(name);
    if (argc < 1 || strlen(argv[0]) != first || strncmp(name, argv[0], first) != 0) {
        return 0;
    }
    if (!blank) {
        return 1;
    }
    return argc >= 2 && strcmp(blank + 1, argv[1]) == 0 ? 2 : 0;
}

const struct command *command_find(size_t argc, char *const *argv, size_t *words) {
    for (const struct command *const *c = commands; *c; c++) {
        *words = words_matched((*c)->name, argc, argv);
        if (*words) {
            return *c;
        }
    }
    return NULL;
}
