/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/doubles/hub/fault.h"

#include <stdbool.h>
#include <string.h>

#include "base/json.h"

long fault_number(const json_t *rule, const char *field, long otherwise) {
    const json_t *v = json_object_get(rule, field);
    return json_is_integer(v) ? (long)json_integer_value(v) : otherwise;
}

const char *fault_text(const json_t *rule, const char *field) {
    return json_string_value(json_object_get(rule, field));
}

static bool fits(const json_t *rule, const char *face, struct sv method, struct sv path) {
    const char *f = fault_text(rule, "face");
    const char *m = fault_text(rule, "method");
    const char *p = fault_text(rule, "path");
    return (!f || strcmp(f, face) == 0) && (!m || sv_eq(method, sv_from(m))) &&
           (!p || sv_find(path, sv_from(p)) != (size_t)-1);
}

const json_t *fault_take(json_t *rules, const char *face, struct sv method, struct sv path) {
    size_t i;
    json_t *rule;
    json_array_foreach(rules, i, rule) {
        long skip = fault_number(rule, "skip", 0);
        long times = fault_number(rule, "times", 1);
        if (times == 0 || !fits(rule, face, method, path)) {
            continue;
        }
        if (skip > 0) {
            json_object_set_new(rule, "skip", json_integer(skip - 1));
            continue;
        }
        json_object_set_new(rule, "times", json_integer(times > 0 ? times - 1 : times));
        return rule;
    }
    return NULL;
}
