/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <string.h>

#include "agent/agent.h"
#include "agent/install.h"
#include "base/mem.h"
#include "cli/commands.h"
#include "cli/dockerfile.h"
#include "rollout/agents.h"

/* Its digest stands in the Dockerfile, or beside the program that is installed here. */
struct wanted {
    const struct agent *agent;
    struct agent_installed installed; /* Empty: what the Dockerfile says. */
};

static int look_up_installed(struct wanted *w, const char *version, struct err *err) {
    AUTO_FREE char *cache = NULL;
    int r = rollout_agents_dir(&cache, err);
    r = r < 0 ? r : agent_find_installed(cache, w->agent, version, &w->installed, err);
    if (r == 0 && !w->installed.sha256) {
        r = err_set(err, ERR_INPUT,
                    "image dockerfile: %s %s was put there by hand, without its digest (run "
                    "'snaffle agent install %s --version %s --again')",
                    w->agent->name, version, w->agent->name, version);
    }
    return r;
}

static int read_wanted(const struct args *a, struct wanted *out, struct err *err) {
    const char *name = args_text(a, "agent");
    const char *version = args_text(a, "agent-version");
    out->agent = agent_find(name ? name : agent_opencode.name);
    if (!out->agent || !out->agent->mount_path) {
        return err_set(err, ERR_USAGE,
                       "image dockerfile: --agent: %s '%s' that could be placed in an image (see "
                       "'snaffle agent ls')",
                       out->agent ? "nothing belongs to" : "no agent", name);
    }
    version = version ? version : out->agent->default_version;
    bool pinned = sv_eq(dockerfile_arg(dockerfile_sandbox, "AGENT"), sv_from(out->agent->name)) &&
                  sv_eq(dockerfile_arg(dockerfile_sandbox, "AGENT_VERSION"), sv_from(version));
    return pinned ? 0 : look_up_installed(out, version, err);
}

static int print(const struct args *a, struct err *err) {
    const char *base = args_text(a, "base");
    struct wanted w = {0};
    AUTO_BUF struct buf text = {0};
    int r = base ? dockerfile_check_base(base, err) : 0;
    r = r < 0 ? r : read_wanted(a, &w, err);
    const struct dockerfile_value values[] = {{"BASE", base},
                                              {"AGENT", w.agent ? w.agent->name : NULL},
                                              {"AGENT_VERSION", w.installed.version},
                                              {"AGENT_SHA256", w.installed.sha256}};
    if (r == 0 && dockerfile_fill(dockerfile_sandbox, values, ARRAY_LEN(values), &text) < 0) {
        r = err_set(err, ERR_NOMEM, "out of memory");
    }
    if (r == 0) {
        (void)fwrite(text.data, 1, text.len, stdout);
    }
    agent_installed_deinit(&w.installed);
    return r;
}

const struct command cmd_image_dockerfile = {
    .name = "image dockerfile",
    .summary = "print the Dockerfile of a sandbox image with an agent in it",
    .operands = "",
    .options =
        (const struct option[]){
            {"agent", OPTION_TEXT, "NAME", "the agent in it (default: opencode)", NULL},
            {"agent-version", OPTION_TEXT, "VERSION",
             "this one, which must be installed here, or 'latest' (default: the pinned one)", NULL},
            {"base", OPTION_TEXT, "IMAGE",
             "the image that it builds on: Debian's or one of its kind (default: "
             "python:3.12-slim-bookworm)",
             NULL},
            {0},
        },
    .run = print,
};
