/* SPDX-License-Identifier: BSD-3-Clause */
#include "agent/agent.h"
#include "agent/install.h"
#include "base/json.h"
#include "base/mem.h"
#include "cli/commands.h"
#include "cli/out.h"
#include "cli/table.h"
#include "rollout/agents.h"

#define INSTALL_S 600.0 /* A hundred megabytes over a slow line. */

static json_t *installed_json(const char *name, const struct agent_installed *i) {
    return json_pack("{s:s, s:s, s:s, s:s?}", "agent", name, "version", i->version, "program",
                     i->program, "sha256", i->sha256);
}

static int install(const struct args *a, struct err *err) {
    AUTO_FREE char *cache = NULL;
    struct agent_installed done = {0};
    const struct agent *agent = agent_find(a->operands[0]);
    if (!agent) {
        return err_set(err, ERR_USAGE, "agent install: no agent '%s' (see 'snaffle agent ls')",
                       a->operands[0]);
    }
    if (!agent->mount_path) {
        return err_set(err, ERR_USAGE,
                       "agent install: the agent '%s' needs none (run it with "
                       "--agent %s)",
                       agent->name, agent->name);
    }
    int r = rollout_agents_dir(&cache, err);
    if (r == 0) {
        r = agent_install(&(struct agent_install){.cache_dir = cache,
                                                  .agent = agent,
                                                  .version = args_text(a, "version"),
                                                  .again = args_has(a, "again"),
                                                  .deadline = deadline_in_s(INSTALL_S)},
                          &done, err);
    }
    if (r < 0) {
        return r;
    }
    if (args_has(a, "json")) {
        r = out_json(installed_json(agent->name, &done), err);
    } else if (!args_has(a, "quiet")) {
        (void)printf("%s %s at %s\n", agent->name, done.version, done.program);
    }
    agent_installed_deinit(&done);
    return r;
}

static const struct table_column columns[] = {
    {.title = "AGENT"}, {.title = "DEFAULT"}, {.title = "INSTALLED"}, {.title = "PROGRAM"}};

static int list(const struct args *a, struct err *err) {
    AUTO_FREE char *cache = NULL;
    AUTO_JSON json_t *all = json_array();
    struct table t;
    int r = rollout_agents_dir(&cache, err);
    if (r < 0) {
        return r;
    }
    table_init(&t, columns, ARRAY_LEN(columns));
    for (const char *const *name = agent_names; *name && r == 0; name++) {
        const struct agent *agent = agent_find(*name);
        if (!agent->mount_path) {
            continue; /* Nothing is ever installed for it. */
        }
        struct agent_installed i = {0};
        struct err absent = {0};
        bool found = agent_find_installed(cache, agent, NULL, &i, &absent) == 0;
        table_add(&t, sv_from(*name));
        table_add(&t, sv_from(agent->default_version));
        table_add(&t, sv_from(found ? i.version : "-"));
        table_add(&t, sv_from(found ? i.program : "-"));
        if (json_array_append_new(all,
                                  json_pack("{s:s, s:s?, s:o}", "agent", *name, "default_version",
                                            agent->default_version, "installed",
                                            found ? installed_json(*name, &i) : json_null())) < 0) {
            r = err_set(err, ERR_NOMEM, "out of memory");
        }
        agent_installed_deinit(&i);
    }
    if (r == 0) {
        r = args_has(a, "json") ? out_json(TAKE(all), err) : table_print(&t, stdout, 0, err);
    }
    table_deinit(&t);
    return r;
}

const struct command cmd_agent_install = {
    .name = "agent install",
    .summary = "install an agent's program",
    .operands = "NAME",
    .operands_min = 1,
    .operands_max = 1,
    .operand_words = agent_names,
    .options =
        (const struct option[]){
            {"version", OPTION_TEXT, "VERSION", "this one, or 'latest' (default: the pinned one)",
             NULL},
            {"again", OPTION_SWITCH, NULL, "also when it is there already", NULL},
            {"quiet", OPTION_SWITCH, NULL, "print nothing when it went well", NULL},
            {"json", OPTION_SWITCH, NULL, "print JSON", NULL},
            {0},
        },
    .run = install,
};

const struct command cmd_agent_ls = {
    .name = "agent ls",
    .summary = "list agents and what is installed of them",
    .operands = "",
    .options =
        (const struct option[]){{"json", OPTION_SWITCH, NULL, "print a JSON array", NULL}, {0}},
    .run = list,
};
