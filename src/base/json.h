/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_BASE_JSON_H
#define SNAFFLE_BASE_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/sv.h"

/*
 * JSON for configuration, tasks and results, over jansson. The gateway's hot path does not use it:
 * a DOM re-spells numbers and refuses bytes that a model may send.
 */

void json_auto_decref(json_t **value);
#define AUTO_JSON __attribute__((cleanup(json_auto_decref)))

/* Parses one value; `name` stands for the source in the message ("task.json line 3: ..."). */
int json_parse(struct sv text, const char *name, json_t **out, struct err *err) CHECK_RESULT;
int json_load(const char *path, size_t bytes_max, json_t **out, struct err *err) CHECK_RESULT;

/* Appends the value as one line (json_compact) or indented with a line feed at the end. Text is
 * UTF-8 as it is; slashes are not escaped. */
int json_compact(const json_t *value, struct buf *out) CHECK_RESULT;
int json_pretty(const json_t *value, struct buf *out) CHECK_RESULT;

/* Appends `text` as a JSON string with its quotes. Bytes that are not UTF-8 become U+FFFD. */
int json_quote(struct sv text, struct buf *out) CHECK_RESULT;

/* The same as a jansson string, never NULL but for want of memory. The caller owns it. */
json_t *json_text(struct sv text);

/* What a string holds, NULs too; empty and without a place for what is none. */
struct sv json_sv(const json_t *value);

/*
 * Reading an object with fixed fields. Every getter takes the object, the field and where the
 * object stands ("task.json: limits") for the message. A missing field or null leaves *out alone
 * and returns 0; a wrong type is ERR_INPUT: "task.json: limits.agent_s: want a number, got a
 * string".
 */
struct json_at {
    const json_t *object;
    const char *where;
};

int json_get_string(struct json_at at, const char *field, const char **out,
                    struct err *err) CHECK_RESULT; /* Borrowed from the object. */
int json_get_number(struct json_at at, const char *field, double *out,
                    struct err *err) CHECK_RESULT;
int json_get_int(struct json_at at, const char *field, long long *out,
                 struct err *err) CHECK_RESULT;
int json_get_bool(struct json_at at, const char *field, bool *out, struct err *err) CHECK_RESULT;
int json_get_object(struct json_at at, const char *field, const json_t **out,
                    struct err *err) CHECK_RESULT;
int json_get_array(struct json_at at, const char *field, const json_t **out,
                   struct err *err) CHECK_RESULT;

/* ERR_INPUT if the object has a field that the NULL-ended list lacks; names the nearest known. */
int json_check_fields(struct json_at at, const char *const *known, struct err *err) CHECK_RESULT;

/* The name in the NULL-ended list that is nearest to `word`, or NULL when none is near. */
const char *json_nearest(const char *word, const char *const *known);

/* "an object", "a string" ...: for messages. */
const char *json_kind(const json_t *value);

#endif
