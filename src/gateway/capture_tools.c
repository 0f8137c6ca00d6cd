/* SPDX-License-Identifier: BSD-3-Clause */
#include "gateway/capture_tools.h"

#include <stdlib.h>

#include "gateway/scan.h"
#include "gateway/text.h"

struct fragment {
    long long index;
    struct sv id;
    struct sv type;
    struct sv name;
    struct sv arguments;
};

static int read_function(struct scan *s, struct fragment *f) {
    struct sv key;
    struct sv value;
    if (scan_peek(s) != SCAN_OBJECT) {
        return scan_skip(s, &value);
    }
    int rc = scan_enter_object(s);
    while (rc >= 0 && (rc = scan_next_key(s, &key)) == 1) {
        rc = scan_skip(s, &value);
        if (rc == SCAN_STRING && text_key_is(s, key, SV("name"))) {
            f->name = text_inner(value);
        } else if (rc == SCAN_STRING && text_key_is(s, key, SV("arguments"))) {
            f->arguments = text_inner(value);
        }
    }
    return rc;
}

static int read_fragment(struct scan *s, struct fragment *f) {
    struct sv key;
    struct sv value;
    *f = (struct fragment){.index = -1};
    int rc = scan_enter_object(s);
    while (rc >= 0 && (rc = scan_next_key(s, &key)) == 1) {
        if (text_key_is(s, key, SV("function"))) {
            rc = read_function(s, f);
            continue;
        }
        unsigned long long index;
        rc = scan_skip(s, &value);
        if (rc == SCAN_NUMBER && text_key_is(s, key, SV("index")) &&
            sv_parse_u64(value, INT32_MAX, &index)) {
            f->index = (long long)index;
        } else if (rc == SCAN_STRING && text_key_is(s, key, SV("id"))) {
            f->id = text_inner(value);
        } else if (rc == SCAN_STRING && text_key_is(s, key, SV("type"))) {
            f->type = text_inner(value);
        }
    }
    return rc;
}

static struct capture_tool *find_tool(struct capture_choice *choice, const struct fragment *f) {
    if (f->index >= 0) {
        for (size_t i = 0; i < choice->n_tools; i++) {
            if (choice->tools[i].index == f->index) {
                return &choice->tools[i];
            }
        }
        return NULL;
    }
    if (choice->n_tools == 0 || !choice->tools) {
        return NULL;
    }
    struct capture_tool *last = &choice->tools[choice->n_tools - 1];
    return f->id.n == 0 || sv_eq(f->id, buf_sv(&last->id)) ? last : NULL;
}

static int new_tool(struct capture *k, struct capture_choice *choice, const struct fragment *f,
                    struct capture_tool **out) {
    *out = NULL;
    if (choice->n_tools == CAPTURE_TOOLS_MAX) {
        k->over_limit = true;
        return 0;
    }
    if (!choice->tools || choice->n_tools == choice->cap_tools) {
        size_t cap = choice->cap_tools ? choice->cap_tools * 2 : 4;
        struct capture_tool *tools = realloc(choice->tools, cap * sizeof *tools);
        if (!tools) {
            return ERR_NOMEM;
        }
        choice->tools = tools;
        choice->cap_tools = cap;
    }
    *out = &choice->tools[choice->n_tools++];
    **out = (struct capture_tool){.index = f->index};
    return 0;
}

static int add_fragment(struct capture *k, struct capture_choice *choice,
                        const struct fragment *f) {
    struct capture_tool *tool = find_tool(choice, f);
    int rc = tool ? 0 : new_tool(k, choice, f, &tool);
    if (rc < 0 || !tool) {
        return rc;
    }
    if (tool->id.len == 0) {
        rc = capture_add_bytes(k, &tool->id, f->id);
    } else if (f->id.n > 0 && !sv_eq(buf_sv(&tool->id), f->id)) {
        tool->joins_two = true;
    }
    if (rc == 0 && tool->type.len == 0) {
        rc = capture_add_bytes(k, &tool->type, f->type);
    }
    if (rc == 0 && !sv_eq(buf_sv(&tool->name), f->name)) {
        rc = capture_add_bytes(k, &tool->name, f->name);
    }
    return rc < 0 ? rc : capture_add_bytes(k, &tool->arguments, f->arguments);
}

int capture_add_tools(struct capture *k, struct capture_choice *choice, struct sv list) {
    struct scan s;
    struct sv other;
    scan_init(&s, list);
    if (scan_enter_array(&s) < 0) {
        return 0;
    }
    while (scan_next_item(&s) == 1) {
        struct fragment f;
        bool is_fragment = scan_peek(&s) == SCAN_OBJECT;
        int rc = is_fragment ? read_fragment(&s, &f) : scan_skip(&s, &other);
        if (rc < 0) {
            return 0;
        }
        rc = is_fragment ? add_fragment(k, choice, &f) : 0;
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}

int capture_add_function(struct capture *k, struct capture_choice *choice, struct sv object) {
    struct scan s;
    struct fragment f = {0};
    scan_init(&s, object);
    if (read_function(&s, &f) < 0) {
        return 0;
    }
    choice->has_function_call = true;
    int rc = 0;
    if (!sv_eq(buf_sv(&choice->function_name), f.name)) {
        rc = capture_add_bytes(k, &choice->function_name, f.name);
    }
    return rc < 0 ? rc : capture_add_bytes(k, &choice->function_arguments, f.arguments);
}

void capture_tool_deinit(struct capture_tool *t) {
    buf_deinit(&t->id);
    buf_deinit(&t->type);
    buf_deinit(&t->name);
    buf_deinit(&t->arguments);
}
