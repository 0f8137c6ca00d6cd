/* SPDX-License-Identifier: BSD-3-Clause */
#include "rollout/task_where.h"

#include <fnmatch.h>
#include <string.h>

#include "base/json.h"

#define METADATA "metadata."

static bool known(struct sv field) {
    return sv_eq(field, SV("task_id")) || sv_eq(field, SV("instruction")) ||
           (sv_starts_with(field, SV(METADATA)) && field.n > strlen(METADATA));
}

int task_where_check(const char *where, struct err *err) {
    const char *equals = strchr(where, '=');
    if (!equals || !known((struct sv){where, (size_t)(equals - where)})) {
        return err_set(err, ERR_USAGE,
                       "where: want FIELD=GLOB with task_id, instruction or metadata.NAME for the "
                       "field, got '%.200s'",
                       where);
    }
    return 0;
}

/* The value at a dotted path; a name that itself holds dots is found too. NULL: none. */
static const json_t *value_at(const json_t *object, struct sv path) {
    for (;;) {
        const json_t *whole = json_object_getn(object, path.p, path.n);
        size_t dot = sv_find(path, SV("."));
        if (whole || dot == (size_t)-1) {
            return whole;
        }
        object = json_object_getn(object, path.p, dot);
        if (!json_is_object(object)) {
            return NULL;
        }
        path = sv_cut(path, dot + 1);
    }
}

static bool text_matches(const char *text, const char *glob) {
    return fnmatch(glob, text, 0) == 0;
}

static bool value_matches(const json_t *value, const char *glob) {
    size_t i;
    const json_t *one;
    AUTO_BUF struct buf text = {0};
    if (!value || json_is_object(value)) {
        return false;
    }
    if (json_is_string(value)) {
        return text_matches(json_string_value(value), glob);
    }
    json_array_foreach(value, i, one) {
        if (!json_is_array(one) && value_matches(one, glob)) {
            return true;
        }
    }
    return !json_is_array(value) && json_compact(value, &text) == 0 &&
           text_matches(buf_cstr(&text), glob);
}

bool task_where_matches(const struct task *t, const char *where) {
    const char *equals = strchr(where, '=');
    BUG_IF(!equals);
    struct sv field = {where, (size_t)(equals - where)};
    if (sv_eq(field, SV("task_id"))) {
        return text_matches(t->id, equals + 1);
    }
    if (sv_eq(field, SV("instruction"))) {
        return text_matches(t->instruction, equals + 1);
    }
    return value_matches(value_at(t->metadata, sv_cut(field, strlen(METADATA))), equals + 1);
}
