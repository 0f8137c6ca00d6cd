/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "agent/opencode.h"
#include "base/json.h"
#include "base/mem.h"

/* OpenCode folds these into one permission, "edit". */
static const char *const file_tools[] = {"edit", "write", "apply_patch"};

static bool lists(const json_t *names, const char *name) {
    size_t i;
    json_t *element;
    json_array_foreach(names, i, element) {
        const char *have = json_string_value(element);
        if (have && strcmp(have, name) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_file_tool(const char *name) {
    for (size_t i = 0; i < ARRAY_LEN(file_tools); i++) {
        if (strcmp(file_tools[i], name) == 0) {
            return true;
        }
    }
    return false;
}

/* Writes {"name": on} for each element that has a switch of its own. */
static int set_each(json_t *switches, const json_t *names, const char *field, bool on,
                    struct err *err) {
    size_t i;
    json_t *element;
    json_array_foreach(names, i, element) {
        const char *name = json_string_value(element);
        if (!name || !*name) {
            return err_set(err, ERR_INPUT, "%s: want names of tools, got %s", field,
                           name ? "an empty text" : json_kind(element));
        }
        if (!is_file_tool(name) && json_object_set_new(switches, name, json_boolean(on)) < 0) {
            return err_set(err, ERR_NOMEM, "out of memory");
        }
    }
    return 0;
}

/* The hook runs for each user message, also those that a sub-agent gets. */
static int write_plugin(const bool off[], struct buf *out) {
    int r = buf_adds(out, "export const Tools = async () => ({\n"
                          "  \"chat.message\": async (input, output) => {\n"
                          "    output.message.tools = { ...output.message.tools");
    for (size_t i = 0; i < ARRAY_LEN(file_tools) && r == 0; i++) {
        r = off[i] ? buf_addf(out, ", %s: false", file_tools[i]) : 0;
    }
    return r < 0 ? r : buf_adds(out, " }\n  },\n})\n");
}

/* Sets the common switch, and writes the plugin where that can't say all. */
static int set_file_tools(const struct agent_config *config, struct opencode_tools *t,
                          struct err *err) {
    bool off[ARRAY_LEN(file_tools)];
    size_t n_off = 0;
    for (size_t i = 0; i < ARRAY_LEN(file_tools); i++) {
        off[i] = config->enabled_tools ? !lists(config->enabled_tools, file_tools[i])
                                       : lists(config->disabled_tools, file_tools[i]);
        n_off += off[i];
    }
    bool all_off = n_off == ARRAY_LEN(file_tools);
    int r = 0;
    if (all_off || config->enabled_tools) {
        r = json_object_set_new(t->switches, "edit", json_boolean(!all_off)) < 0 ? ERR_NOMEM : 0;
    }
    if (r == 0 && n_off > 0 && !all_off) {
        r = write_plugin(off, &t->plugin);
    }
    return r < 0 ? err_set(err, ERR_NOMEM, "out of memory") : 0;
}

/* A whitelist begins with the switch for all tools, known or not: the last one that fits counts.
 * Without a whitelist there is none, since it would also widen what the sub-agents may do. */
static int set_whitelist(const struct agent_config *config, struct opencode_tools *t,
                         struct err *err) {
    if (json_object_set_new(t->switches, "*", json_false()) < 0) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    return set_each(t->switches, config->enabled_tools, "enabled_tools", /* on= */ true, err);
}

int opencode_tools_build(const struct agent_config *config, struct opencode_tools *out,
                         struct err *err) {
    struct opencode_tools t = {.switches = json_object()};
    int r = config->enabled_tools ? set_whitelist(config, &t, err)
                                  : set_each(t.switches, config->disabled_tools, "disabled_tools",
                                             /* on= */ false, err);
    if (r == 0) {
        r = set_file_tools(config, &t, err);
    }
    if (r < 0) {
        opencode_tools_deinit(&t);
        return r;
    }
    *out = t;
    return 0;
}

void opencode_tools_deinit(struct opencode_tools *t) {
    json_decref(t->switches);
    buf_deinit(&t->plugin);
    *t = (struct opencode_tools){0};
}
