/* SPDX-License-Identifier: BSD-3-Clause */
/* What the server says of itself. */
#include "base/json.h"
#include "server/openenv/face.h"

static json_t *parsed(const char *text) {
    return json_loads(text, 0, NULL);
}

static const char action[] =
    "{\"title\":\"CallToolAction\",\"type\":\"object\",\"additionalProperties\":false,"
    "\"required\":[\"tool_name\"],\"properties\":{"
    "\"metadata\":{\"type\":\"object\",\"additionalProperties\":true},"
    "\"type\":{\"type\":\"string\",\"const\":\"call_tool\",\"default\":\"call_tool\"},"
    "\"tool_name\":{\"type\":\"string\",\"description\":\"there is one: run_rollout\"},"
    "\"arguments\":{\"type\":\"object\",\"additionalProperties\":true,\"default\":{}}}}";

static const char observation[] =
    "{\"title\":\"CallToolObservation\",\"type\":\"object\",\"required\":[\"tool_name\"],"
    "\"properties\":{\"done\":{\"type\":\"boolean\",\"default\":false},"
    "\"reward\":{\"anyOf\":[{\"type\":\"boolean\"},{\"type\":\"integer\"},{\"type\":\"number\"},"
    "{\"type\":\"null\"}],\"default\":null},"
    "\"metadata\":{\"type\":\"object\",\"additionalProperties\":true},"
    "\"tool_name\":{\"type\":\"string\"},\"result\":{\"default\":null,"
    "\"description\":\"of a call that worked: its `data` is a RolloutResult as JSON text\"},"
    "\"error\":{\"anyOf\":[{\"$ref\":\"#/$defs/"
    "ToolError\"},{\"type\":\"null\"}],\"default\":null}},"
    "\"$defs\":{\"ToolError\":{\"type\":\"object\",\"additionalProperties\":false,"
    "\"required\":[\"error_type\",\"message\"],\"properties\":{\"error_type\":{\"type\":\"string\","
    "\"enum\":[\"execution_error\",\"invalid_args\",\"transport_error\",\"tool_not_found\","
    "\"timeout\"]},\"message\":{\"type\":\"string\"}}}}}";

static const char state[] =
    "{\"title\":\"State\",\"type\":\"object\",\"additionalProperties\":true,\"properties\":{"
    "\"episode_id\":{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"null\"}],\"default\":null},"
    "\"step_count\":{\"type\":\"integer\",\"minimum\":0,\"default\":0}}}";

json_t *schema_all(void) {
    return json_pack("{s:o, s:o, s:o}", "action", parsed(action), "observation",
                     parsed(observation), "state", parsed(state));
}

json_t *schema_metadata(const char *name) {
    return json_pack(
        "{s:s, s:s, s:n, s:s, s:n, s:n}", "name", name, "description",
        "Runs a coding agent in a sandbox on a task, records every model call with "
        "token ids and log-probabilities, and grades the outcome: one tool, " TOOL_NAME,
        "readme_content", "version", SNAFFLE_VERSION, "author", "documentation_url");
}

struct path {
    const char *path;
    const char *method;
    const char *summary;
    bool simulation; /* Not in production mode. */
    bool web;        /* With the web page only. */
};

static const struct path paths[] = {
    {"/health", "get", "Whether it serves", false, false},
    {"/metadata", "get", "What the environment is", false, false},
    {"/schema", "get", "JSON Schemas of action, observation and state", false, false},
    {"/mcp", "post", "JSON-RPC: tools/list, tools/call, sessions", false, false},
    {"/reset", "post", "Begin an episode", true, false},
    {"/step", "post", "List the tools, or call one", true, false},
    {"/state", "get", "The state of a fresh episode", true, false},
    {"/web/metadata", "get", "What the web page shows of the environment", false, true},
    {"/web/reset", "post", "Begin an episode of the web page", false, true},
    {"/web/step", "post", "A step of the web page's episode", false, true},
    {"/web/state", "get", "The state of the web page's episode", false, true},
};

json_t *schema_openapi(const struct openenv *e) {
    json_t *all = json_object();
    for (size_t i = 0; all && i < sizeof paths / sizeof *paths; i++) {
        const struct path *p = &paths[i];
        if ((p->simulation && e->options.production) || (p->web && !e->options.web)) {
            continue;
        }
        json_t *operation = json_pack("{s:s, s:{s:{s:s}}}", "summary", p->summary, "responses",
                                      "200", "description", "Successful Response");
        (void)json_object_set_new(all, p->path, json_pack("{s:o}", p->method, operation));
    }
    return json_pack("{s:s, s:{s:s, s:s}, s:o}", "openapi", "3.1.0", "info", "title",
                     "OpenEnv Environment HTTP API", "version", "1.0.0", "paths", all);
}
