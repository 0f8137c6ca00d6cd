/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_CLI_COMMANDS_H
#define SNAFFLE_CLI_COMMANDS_H

#include <jansson.h>
#include <stdio.h>

#include "cli/option.h"

/* Every command, in the order of the help; NULL-ended. */
extern const struct command *const commands[];

/* By the first one or two words of argv; *words gets how many named it. NULL: none. */
const struct command *command_find(size_t argc, char *const *argv, size_t *words);

/* "usage: ..." with options and notes, wrapped to the terminal. */
void command_print_help(const struct command *c, FILE *stream);
void commands_print_help(FILE *stream);

/* The tables as JSON, for the man pages' check and for tools. */
json_t *commands_to_json(void);

/* The completion script of a shell, written to `out`. */
void completion_bash(FILE *out);
void completion_zsh(FILE *out);
void completion_fish(FILE *out);

extern const struct command cmd_run;
extern const struct command cmd_batch;
extern const struct command cmd_serve;
extern const struct command cmd_gateway;
extern const struct command cmd_gateway_probe;
extern const struct command cmd_mcp;
extern const struct command cmd_ls;
extern const struct command cmd_show;
extern const struct command cmd_trace;
extern const struct command cmd_doctor;
extern const struct command cmd_agent_install;
extern const struct command cmd_agent_ls;
extern const struct command cmd_image_dockerfile;
extern const struct command cmd_gc;
extern const struct command cmd_sandbox_ls;
extern const struct command cmd_sandbox_exec;
extern const struct command cmd_sandbox_kill;
extern const struct command cmd_completion;
extern const struct command cmd_help;

#endif
