/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "agent/opencode.h"

/* The text of a message, or of its first part. */
static struct sv text_of(const json_t *message) {
    const json_t *content = json_object_get(message, "content");
    if (json_is_array(content)) {
        content = json_object_get(json_array_get(content, 0), "text");
    }
    return json_is_string(content)
               ? (struct sv){json_string_value(content), json_string_length(content)}
               : (struct sv){0};
}

/* The first message of the role; NULL: none. */
static const json_t *first_of(const json_t *request, const char *role) {
    size_t i;
    json_t *message;
    json_array_foreach(json_object_get(request, "messages"), i, message) {
        const char *have = json_string_value(json_object_get(message, "role"));
        if (have && strcmp(have, role) == 0) {
            return message;
        }
    }
    return NULL;
}

/* A history with tool calls but no tools is refused by some servers; for those OpenCode offers one
 * that does nothing. */
static bool has_tools(const json_t *request) {
    size_t i;
    json_t *tool;
    json_array_foreach(json_object_get(request, "tools"), i, tool) {
        const char *name =
            json_string_value(json_object_get(json_object_get(tool, "function"), "name"));
        if (!name || strcmp(name, "_noop") != 0) {
            return true;
        }
    }
    return false;
}

/* Title and main calls share one session id, so what a call is for shows in its words only. Both
 * the system prompt, which a configuration may replace, and the request itself tell. */
enum agent_call opencode_classify(const json_t *request, struct sv session, struct sv parent) {
    (void)session;
    if (!has_tools(request)) {
        struct sv system = text_of(first_of(request, "system"));
        struct sv user = text_of(first_of(request, "user"));
        if (sv_starts_with(system, SV("You are a title generator")) ||
            sv_starts_with(user, SV("Generate a title for this conversation"))) {
            return AGENT_CALL_TITLE;
        }
        if (sv_starts_with(system, SV("You are a context summarization agent"))) {
            return AGENT_CALL_SUMMARY;
        }
    }
    return parent.n > 0 ? AGENT_CALL_SUBAGENT : AGENT_CALL_MAIN;
}
