/* SPDX-License-Identifier: BSD-3-Clause */
#include "gateway/answer.h"

static int put_value(struct buf *out, const char *name, const struct buf *json) {
    int rc = buf_adds(out, name);
    return rc < 0 ? rc : buf_add_sv(out, json->len > 0 ? buf_sv(json) : SV("null"));
}

static int put_string(struct buf *out, const char *name, const struct buf *inner) {
    int rc = buf_adds(out, name);
    rc = rc < 0 ? rc : buf_add_sv(out, buf_sv(inner));
    return rc < 0 ? rc : buf_addc(out, '"');
}

static int put_text(struct buf *out, const char *name, const struct buf *inner) {
    return inner->len > 0 ? put_string(out, name, inner) : 0;
}

static int put_tool(struct buf *out, const struct capture_tool *tool) {
    int rc = put_string(out, "{\"id\":\"", &tool->id);
    rc = rc < 0 ? rc : buf_adds(out, ",\"type\":\"");
    rc = rc < 0 ? rc : buf_add_sv(out, tool->type.len > 0 ? buf_sv(&tool->type) : SV("function"));
    rc = rc < 0 ? rc : put_string(out, "\",\"function\":{\"name\":\"", &tool->name);
    rc = rc < 0 ? rc : put_string(out, ",\"arguments\":\"", &tool->arguments);
    return rc < 0 ? rc : buf_adds(out, "}}");
}

static int put_tools(struct buf *out, const struct capture_choice *c) {
    if (c->n_tools == 0) {
        return 0;
    }
    int rc = buf_adds(out, ",\"tool_calls\":[");
    for (size_t i = 0; rc == 0 && i < c->n_tools; i++) {
        rc = i > 0 ? buf_addc(out, ',') : 0;
        rc = rc < 0 ? rc : put_tool(out, &c->tools[i]);
    }
    return rc < 0 ? rc : buf_addc(out, ']');
}

static int put_content(struct buf *out, const struct capture_choice *c) {
    if (c->content_parts.len > 0) {
        return put_value(out, ",\"content\":", &c->content_parts);
    }
    return c->has_content ? put_string(out, ",\"content\":\"", &c->content)
                          : buf_adds(out, ",\"content\":null");
}

static int put_message(struct buf *out, const struct capture_choice *c) {
    int rc = buf_adds(out, "\"message\":{\"role\":\"assistant\"");
    rc = rc < 0 ? rc : put_content(out, c);
    rc = rc < 0 ? rc : put_text(out, ",\"reasoning\":\"", &c->reasoning);
    rc = rc < 0 ? rc : put_text(out, ",\"reasoning_content\":\"", &c->reasoning_content);
    rc = rc < 0 ? rc : put_text(out, ",\"refusal\":\"", &c->refusal);
    rc = rc < 0 ? rc : put_tools(out, c);
    if (rc == 0 && c->has_function_call) {
        rc = put_string(out, ",\"function_call\":{\"name\":\"", &c->function_name);
        rc = rc < 0 ? rc : put_string(out, ",\"arguments\":\"", &c->function_arguments);
        rc = rc < 0 ? rc : buf_addc(out, '}');
    }
    return rc < 0 ? rc : buf_addc(out, '}');
}

static int put_choices(struct buf *out, const struct capture *k) {
    bool first = true;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < k->n_choices; i++) {
        const struct capture_choice *c = &k->choices[i];
        if (!c->seen) {
            continue;
        }
        rc = buf_addf(out, "%s{\"index\":%zu,", first ? "" : ",", i);
        rc = rc < 0 ? rc : put_message(out, c);
        rc = rc < 0 ? rc : put_value(out, ",\"finish_reason\":", &c->finish_reason);
        rc = rc < 0 ? rc : buf_addc(out, '}');
        first = false;
    }
    return rc;
}

int answer_put(const struct capture *k, struct buf *out) {
    int rc = put_value(out, "{\"id\":", &k->id);
    rc = rc < 0 ? rc : put_value(out, ",\"object\":\"chat.completion\",\"created\":", &k->created);
    rc = rc < 0 ? rc : put_value(out, ",\"model\":", &k->model);
    if (rc == 0 && k->system_fingerprint.len > 0) {
        rc = put_value(out, ",\"system_fingerprint\":", &k->system_fingerprint);
    }
    rc = rc < 0 ? rc : buf_adds(out, ",\"choices\":[");
    rc = rc < 0 ? rc : put_choices(out, k);
    rc = rc < 0 ? rc : buf_adds(out, "]");
    rc = rc < 0 ? rc : put_value(out, ",\"usage\":", &k->usage);
    if (rc == 0 && k->error.len > 0) {
        rc = put_value(out, ",\"error\":", &k->error);
    }
    return rc < 0 ? rc : buf_addc(out, '}');
}
