/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "rollout/budget.h"
#include "server/tool/arguments.h"
#include "server/tool/box.h"

#define TEXT "{\"type\":\"string\",\"default\":\"\"}"
#define COMMANDS                                                                                   \
    "{\"anyOf\":[{\"type\":\"array\",\"items\":{\"type\":\"string\"}},{\"type\":\"null\"}],"       \
    "\"default\":null}"
#define WORD "{\"enum\":[\"none\",\"model\",\"full\"]}"

const struct argument argument_table[] = {
    {"endpoint", TEXT,
     "where the model is: vllm, openai or hf_router; its address, key and model come from the "
     "server's environment unless they are given here"},
    {"base_url", TEXT, "the model endpoint's address, as a rule ending in /v1"},
    {"api_key", TEXT, "the endpoint's key; it stays outside the sandbox and is recorded nowhere"},
    {"model", TEXT, "the model, as the endpoint calls it"},
    {"instruction", TEXT, "what the agent is to do; required"},
    {"setup", COMMANDS, "shell commands run in the sandbox before the agent, one by one"},
    {"verify", COMMANDS,
     "shell commands that grade the work: the reward is passed/total, or the number that they "
     "write "
     "to logs/verifier/reward.txt in the home"},
    {"task_id", TEXT, "a name for the task, given back with the result"},
    {"mode",
     "{\"type\":\"string\",\"enum\":[\"transparent_proxy\",\"black_box\"],\"default\":"
     "\"transparent_proxy\"}",
     "record the model calls with token ids and log-probabilities, or pass them on unchanged and "
     "unrecorded"},
    {"disable_thinking",
     "{\"anyOf\":[{\"type\":\"boolean\"},{\"type\":\"null\"}],\"default\":null}",
     "switch the model's thinking off; null: as the endpoint's kind has it"},
    {"max_tokens_cap",
     "{\"anyOf\":[{\"type\":\"integer\",\"minimum\":1},{\"type\":\"null\"}],\"default\":4096}",
     "cut a call's token limit to this; null: no cap"},
    {"top_logprobs", "{\"type\":\"integer\",\"minimum\":0,\"maximum\":20,\"default\":5}",
     "alternatives asked for with each token"},
    {"agent_timeout_s", "{\"type\":\"number\",\"exclusiveMinimum\":0,\"default\":600.0}",
     "time for the agent, in seconds"},
    {"template", TEXT, "the sandbox's template, for backends that have such"},
    {"backend", TEXT, "where the sandbox comes from; empty: the server's choice"},
    {"agent", TEXT, "the agent that does the task; empty: the server's choice (opencode)"},
    {"sandbox_home", TEXT,
     "the home inside the sandbox; empty: the backend's (/home/user; hf: /root)"},
    {"image", TEXT, "the sandbox's image, for backends that have such"},
    {"flavor", TEXT, "the sandbox's machine, for backends that have such"},
    {"network",
     "{\"anyOf\":[" WORD ",{\"type\":\"object\",\"additionalProperties\":false,\"properties\":"
     "{\"setup\":" WORD ",\"agent\":" WORD ",\"verify\":" WORD "}},{\"type\":\"null\"}],"
     "\"default\":null}",
     "what is reached from inside: one word for all phases, or one for each (default: full for "
     "setup, model for the agent, none for verify)"},
    {"limits",
     "{\"anyOf\":[{\"type\":\"object\",\"additionalProperties\":false,\"properties\":{"
     "\"setup_s\":{\"type\":\"number\"},\"agent_s\":{\"type\":\"number\"},"
     "\"verify_s\":{\"type\":\"number\"},\"memory_mb\":{\"type\":\"integer\"},"
     "\"processes\":{\"type\":\"integer\"},\"disk_mb\":{\"type\":\"integer\"}}},"
     "{\"type\":\"null\"}],\"default\":null}",
     "seconds for all of setup, agent and verify (agent_s in place of agent_timeout_s), and the "
     "sandbox's memory, processes and disk"},
    {"capture", TEXT,
     "how the agent's calls reach the recorder: tunnel, public (where the server has an address "
     "for it) or sandbox; empty: as the backend can"},
    {"include_prompt_ids", "{\"type\":\"boolean\",\"default\":false}",
     "give each turn's prompt token ids too: for long rollouts a large answer"},
    {0},
};

static json_t *property_of(const struct argument *a) {
    AUTO_JSON json_t *schema = json_loads(a->schema, 0, NULL);
    if (!schema || json_object_set_new(schema, "description", json_string(a->what)) < 0) {
        return NULL;
    }
    return TAKE(schema);
}

/* Clients that fill defaults in must not undo what the operator set. */
static int put_defaults(json_t *properties, const struct tool_options *o) {
    static const struct {
        const char *argument, *field;
    } same[] = {{"max_tokens_cap", "proxy_max_tokens_cap"},
                {"top_logprobs", "proxy_top_logprobs"},
                {"agent_timeout_s", "agent_timeout_s"}};
    AUTO_JSON json_t *defaults = argument_defaults(o);
    const char *mode = o->rollout->mode == ROLLOUT_BLACK_BOX ? "black_box" : "transparent_proxy";
    int r = defaults ? json_object_set_new(json_object_get(properties, "mode"), "default",
                                           json_string(mode))
                     : -1;
    for (size_t i = 0; i < ARRAY_LEN(same) && r == 0; i++) {
        r = json_object_set(json_object_get(properties, same[i].argument), "default",
                            json_object_get(defaults, same[i].field));
    }
    return r;
}

json_t *argument_schema(const struct tool_options *o) {
    AUTO_JSON json_t *properties = json_object();
    for (const struct argument *a = argument_table; a->name; a++) {
        if (!properties || json_object_set_new(properties, a->name, property_of(a)) < 0) {
            return NULL;
        }
    }
    if (put_defaults(properties, o) < 0) {
        return NULL;
    }
    return json_pack("{s:s, s:O, s:b}", "type", "object", "properties", properties,
                     "additionalProperties", 0);
}

json_t *tool_input_schema(const struct tool_box *b) {
    return argument_schema(&b->o);
}

struct sv tool_schema_text(const struct tool_box *b) {
    return buf_sv(&b->schema_text);
}

json_t *tool_description(const struct tool_box *b) {
    struct rollout_budget budget = tool_budget(&b->o);
    const struct rollout_limits *l = &budget.limits;
    return json_sprintf(
        "Runs one coding task with an agent in a sandbox, records its model calls, grades the "
        "work, and gives the result as JSON (a RolloutResult: reward, verify_results, proxy_turns "
        "with token ids and log-probabilities, files, logs, error). With the default limits a call "
        "takes at most %.0f seconds (sandbox %.0f, agent's placing %.0f, setup %.0f, agent %.0f, "
        "verify %.0f, collecting and teardown %.0f%s), and the time that it waits for its turn: "
        "set your client's time-out above that, or ask for progress. What goes wrong once the "
        "sandbox is asked for stands in the result's error.",
        tool_limit_s(&b->o, &budget), l->create_s, l->install_s, l->setup_s, l->agent_s,
        l->verify_s, BUDGET_COLLECT_S + BUDGET_TEARDOWN_S,
        b->rollout.retries > 0 ? "; a further attempt after faults that are not the agent's" : "");
}
