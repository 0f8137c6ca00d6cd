/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/openenv/faults.h"

#include <string.h>

#include "base/json.h"
#include "base/utf8.h"
#include "server/openenv/environment.h"

void fault_add(struct faults *f, const char *type, const char *where, const char *msg,
               const json_t *input) {
    json_t *loc = json_array();
    for (size_t i = 0; loc && f->under[i]; i++) {
        (void)json_array_append_new(loc, json_string(f->under[i]));
    }
    if (loc && where) {
        (void)json_array_append_new(loc, json_text(sv_from(where)));
    }
    json_t *fault = json_pack("{s:s, s:o, s:s, s:o}", "type", type, "loc", loc, "msg", msg, "input",
                              input ? json_incref((json_t *)(uintptr_t)input) : json_null());
    f->list = f->list ? f->list : json_array();
    (void)json_array_append_new(f->list, fault); /* Without memory one is missing. */
}

bool faults_any(const struct faults *f) {
    return f->list;
}

json_t *faults_take(struct faults *f) {
    json_t *list = f->list;
    f->list = NULL;
    return list;
}

void faults_deinit(struct faults *f) {
    json_decref(f->list);
    f->list = NULL;
}

void faults_of_extra(struct faults *f, const json_t *object, const char *const *known) {
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)object, name, value) {
        size_t i = 0;
        while (known[i] && strcmp(known[i], name) != 0) {
            i++;
        }
        if (!known[i]) {
            fault_add(f, "extra_forbidden", name, "Extra inputs are not permitted", value);
        }
    }
}

const json_t *faults_need_object(struct faults *f, const json_t *object, const char *field) {
    const json_t *value = json_object_get(object, field);
    if (!value) {
        fault_add(f, "missing", field, "Field required", object);
    } else if (!json_is_object(value)) {
        fault_add(f, "dict_type", field, "Input should be a valid dictionary", value);
        value = NULL;
    }
    return value;
}

static const json_t *present(const json_t *object, const char *field) {
    const json_t *value = json_object_get(object, field);
    return json_is_null(value) ? NULL : value;
}

static void check_text(struct faults *f, const json_t *object, const char *field,
                       const char **out) {
    const json_t *value = present(object, field);
    if (!value) {
        return;
    }
    struct sv text = {json_string_value(value), json_string_length(value)};
    if (!json_is_string(value)) {
        fault_add(f, "string_type", field, "Input should be a valid string", value);
    } else if (text.n > 0 && memchr(text.p, 0, text.n)) {
        fault_add(f, "value_error", field, "Value error, a NUL is not allowed", value);
    } else if (utf8_first(text, EPISODE_ID_MAX).n < text.n) {
        fault_add(f, "string_too_long", field, "String should have at most 255 characters", value);
    } else if (out) {
        *out = text.p;
    }
}

void faults_of_reset(struct faults *f, const json_t *kwargs, const char **episode_id) {
    const json_t *seed = present(kwargs, "seed");
    if (seed && !json_is_integer(seed)) {
        fault_add(f, "int_type", "seed", "Input should be a valid integer", seed);
    } else if (seed && json_integer_value(seed) < 0) {
        fault_add(f, "greater_than_equal", "seed", "Input should be greater than or equal to 0",
                  seed);
    }
    check_text(f, kwargs, "episode_id", episode_id);
}

void faults_of_step(struct faults *f, const json_t *body, double *timeout_s) {
    const json_t *limit = present(body, "timeout_s");
    if (limit && !json_is_number(limit)) {
        fault_add(f, "float_type", "timeout_s", "Input should be a valid number", limit);
    } else if (limit && json_number_value(limit) <= 0) {
        fault_add(f, "greater_than", "timeout_s", "Input should be greater than 0", limit);
    } else if (limit) {
        *timeout_s = json_number_value(limit);
    }
    check_text(f, body, "request_id", NULL);
}
