/* SPDX-License-Identifier: BSD-3-Clause */
#include <unistd.h>

#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/tool_settings.h"
#include "server/mcp/stdio_serve.h"

static int serve(const struct tool_settings *s, const struct cancel *soft,
                 const struct cancel *hard, struct err *err) {
    struct tool_box *tools = NULL;
    int r = tool_box_new(&s->options, &tools, err);
    if (r == 0) {
        r = tool_box_check(tools, err);
    }
    if (r == 0) {
        r = mcp_stdio_run(&(struct mcp_stdio_options){.tools = tools,
                                                      .in = STDIN_FILENO,
                                                      .out = STDOUT_FILENO,
                                                      .soft = soft,
                                                      .hard = hard},
                          err);
    }
    tool_box_free(tools);
    return r;
}

static int run(const struct args *a, struct err *err) {
    struct tool_settings settings = {0};
    struct cancel *soft = NULL;
    struct cancel *hard = NULL;
    int r = tool_settings_read(a, &settings, err);
    if (r < 0) {
        return r;
    }
    r = cancel_new(&soft, err);
    r = r < 0 ? r : cancel_new(&hard, err);
    r = r < 0 ? r : interrupt_install(soft, hard, err);
    if (r == 0) {
        r = serve(&settings, soft, hard, err);
    }
    /* The switches stay: a signal may still come. */
    tool_settings_deinit(&settings);
    return r;
}

const struct command cmd_mcp = {
    .name = "mcp",
    .summary = "offer rollouts as a tool to an MCP client, over standard input and output",
    .operands = "",
    .options = (const struct option[]){TOOL_SETTINGS_OPTIONS, {0}},
    .also = run_settings_options,
    .notes =
        "An MCP client starts it and calls the tool run_rollout. What the flags say holds for\n"
        "each call that does not say otherwise itself.",
    .run = run,
};
