/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "base/json.h"

const char *json_kind(const json_t *value) {
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "an array";
    case JSON_STRING:
        return "a string";
    case JSON_INTEGER:
    case JSON_REAL:
        return "a number";
    case JSON_TRUE:
    case JSON_FALSE:
        return "a boolean";
    default:
        return "null";
    }
}

static int wrong(struct json_at at, const char *field, const char *want, const json_t *got,
                 struct err *err) {
    return err_set(err, ERR_INPUT, "%s: %s: want %s, got %s", at.where, field, want,
                   json_kind(got));
}

static const json_t *present(struct json_at at, const char *field) {
    const json_t *value = json_object_get(at.object, field);
    return json_is_null(value) ? NULL : value;
}

int json_get_string(struct json_at at, const char *field, const char **out, struct err *err) {
    const json_t *value = present(at, field);
    if (!value) {
        return 0;
    }
    if (!json_is_string(value)) {
        return wrong(at, field, "a string", value, err);
    }
    if (strlen(json_string_value(value)) != json_string_length(value)) {
        return err_set(err, ERR_INPUT, "%s: %s: a NUL is not allowed here", at.where, field);
    }
    *out = json_string_value(value);
    return 0;
}

int json_get_number(struct json_at at, const char *field, double *out, struct err *err) {
    const json_t *value = present(at, field);
    if (!value) {
        return 0;
    }
    if (!json_is_number(value)) {
        return wrong(at, field, "a number", value, err);
    }
    *out = json_number_value(value);
    return 0;
}

int json_get_int(struct json_at at, const char *field, long long *out, struct err *err) {
    const json_t *value = present(at, field);
    if (!value) {
        return 0;
    }
    if (!json_is_integer(value)) {
        return wrong(at, field, "a whole number", value, err);
    }
    *out = json_integer_value(value);
    return 0;
}

int json_get_bool(struct json_at at, const char *field, bool *out, struct err *err) {
    const json_t *value = present(at, field);
    if (!value) {
        return 0;
    }
    if (!json_is_boolean(value)) {
        return wrong(at, field, "true or false", value, err);
    }
    *out = json_is_true(value);
    return 0;
}

int json_get_object(struct json_at at, const char *field, const json_t **out, struct err *err) {
    const json_t *value = present(at, field);
    if (!value) {
        return 0;
    }
    if (!json_is_object(value)) {
        return wrong(at, field, "an object", value, err);
    }
    *out = value;
    return 0;
}

int json_get_array(struct json_at at, const char *field, const json_t **out, struct err *err) {
    const json_t *value = present(at, field);
    if (!value) {
        return 0;
    }
    if (!json_is_array(value)) {
        return wrong(at, field, "an array", value, err);
    }
    *out = value;
    return 0;
}

/* Edit distance, for words of at most 63 bytes; longer ones are far from everything. */
static size_t distance(const char *a, const char *b) {
    size_t n = strlen(a);
    size_t m = strlen(b);
    size_t row[64];
    if (n > 63 || m > 63) {
        return 64;
    }
    for (size_t j = 0; j <= m; j++) {
        row[j] = j;
    }
    for (size_t i = 1; i <= n; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t best = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            best = row[j] + 1 < best ? row[j] + 1 : best;
            best = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
            row[j] = best;
        }
    }
    return row[m];
}

const char *json_nearest(const char *word, const char *const *known) {
    const char *best = NULL;
    size_t best_distance = 4; /* More than three slips is another word. */
    for (; *known; known++) {
        size_t d = distance(word, *known);
        if (d < best_distance && d < strlen(*known)) {
            best = *known;
            best_distance = d;
        }
    }
    return best;
}

int json_check_fields(struct json_at at, const char *const *known, struct err *err) {
    const char *field;
    json_t *value;
    json_object_foreach((json_t *)at.object, field, value) {
        bool found = false;
        for (const char *const *k = known; *k && !found; k++) {
            found = strcmp(*k, field) == 0;
        }
        if (found) {
            continue;
        }
        const char *near = json_nearest(field, known);
        return near
                   ? err_set(err, ERR_INPUT, "%s: unknown field '%s' (did you mean '%s'?)",
                             at.where, field, near)
                   : err_set(err, ERR_INPUT, "%s: unknown field '%s' (remove it)", at.where, field);
    }
    return 0;
}
