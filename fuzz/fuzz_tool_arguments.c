/* SPDX-License-Identifier: BSD-3-Clause */
/* A call's arguments: they are refused with words that hold no key, or they become a rollout
 * within what the operator allows. Addresses are left out, since a name would be looked up. */
#include <stdint.h>
#include <string.h>

#include "base/json.h"
#include "server/tool/arguments.h"

#define KEY "sk-fuzz-7d10"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct rollout_options rollout = {0};
    struct tool_options o = {
        .rollout = &rollout,
        .endpoint = {.base_url = "http://127.0.0.1:9/v1", .api_key = KEY, .model = "m"},
        .is_public = true};
    struct tool_request q = {0};
    struct err err = {0};
    AUTO_JSON json_t *given = NULL;
    struct sv text = {(const char *)data, size};
    bool holds_key = sv_find(text, SV(KEY)) != (size_t)-1; /* What a call names is told to it. */
    if (json_parse(text, "arguments", &given, &err) < 0) {
        return 0;
    }
    (void)json_object_del(given, "base_url");
    int r = tool_request_read(&o, given, &q, &err);
    if (r < 0) {
        BUG_IF(!err.msg[0] || (!holds_key && strstr(err.msg, KEY)));
        return 0;
    }
    BUG_IF(!q.task.instruction || !q.task.instruction[0]);
    BUG_IF(strcmp(q.config.agent.base_url, "http://127.0.0.1:9/v1") != 0 && !q.endpoint.kind);
    BUG_IF(q.config.agent.mounts || q.config.agent.rootfs || q.config.agent.agent_cmd);
    BUG_IF(q.task.network[TASK_AGENT].word == SANDBOX_NETWORK_FULL ||
           q.task.network[TASK_VERIFY].word == SANDBOX_NETWORK_FULL);
    BUG_IF(q.task.limits.memory_mb > 2048 || q.config.agent.agent_timeout_s <= 0);
    tool_request_deinit(&q);
    return 0;
}
