/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/pairing.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/mem.h"
#include "train/tokens.h"

/* Engines print the same float for a token and for its entry among the alternatives. */
#define PAIRING_SAME 1e-4
/* Decoders may spell one id in two ways by what stands before it: some differ by chance, but not
 * most of several. */
#define PAIRING_REPEATS_MIN 3u

#define REPLACEMENT "\xef\xbf\xbd" /* U+FFFD: part of a character, which ids alone can tell. */

/* The id that a row names; -1: none. */
static json_int_t id_of_row(const json_t *row) {
    const json_t *id = json_object_get(row, "id");
    struct sv token = sv_from(json_string_value(json_object_get(row, "token")));
    unsigned long long number = 0;
    if (json_is_integer(id)) {
        return json_integer_value(id);
    }
    return sv_starts_with(token, SV("token_id:")) &&
                   sv_parse_u64(sv_cut(token, 9), UINT32_MAX, &number)
               ? (json_int_t)number
               : -1;
}

static bool same(double a, double b) {
    return fabs(a - b) <= PAIRING_SAME;
}

/* The alternatives are the likeliest tokens: what is likelier than one of them is itself among
 * them, with the same value. */
static bool contradicts(const json_t *row) {
    const json_t *own = json_object_get(row, "logprob");
    const json_t *tops = json_object_get(row, "top_logprobs");
    double value = json_number_value(own);
    double least = 0;
    bool found = false;
    bool other_value = false;
    json_int_t id = id_of_row(row);
    size_t i;
    json_t *top;
    if (!json_is_number(own) || json_array_size(tops) == 0) {
        return false;
    }
    json_array_foreach(tops, i, top) {
        const json_t *logp = json_object_get(top, "logprob");
        if (!json_is_number(logp)) {
            return false;
        }
        double it = json_number_value(logp);
        found = found || same(it, value);
        other_value = other_value || (id >= 0 && id_of_row(top) == id && !same(it, value));
        least = i == 0 || it < least ? it : least;
    }
    return other_value || (!found && value > least + PAIRING_SAME);
}

struct named {
    json_int_t id;
    size_t at;
    const char *text;
};

static int by_id(const void *a, const void *b) {
    const struct named *x = a;
    const struct named *y = b;
    if (x->id != y->id) {
        return x->id < y->id ? -1 : 1;
    }
    return x->at < y->at ? -1 : x->at > y->at;
}

/* An id is one text; where most that come again have another, the two lists are shifted. */
static bool are_shifted(struct named *list, size_t n) {
    size_t repeats = 0;
    size_t others = 0;
    qsort(list, n, sizeof *list, by_id);
    for (size_t i = 1; i < n; i++) {
        if (list[i].id == list[i - 1].id) {
            repeats++;
            others += strcmp(list[i].text, list[i - 1].text) != 0;
        }
    }
    return repeats >= PAIRING_REPEATS_MIN && others * 2 > repeats;
}

static int compare_ids(const json_t *ids, const json_t *rows, struct pairing *out) {
    size_t n = json_array_size(rows);
    if (n == 0 || json_array_size(ids) != n) {
        return 0;
    }
    struct named *list = calloc(n, sizeof *list);
    size_t used = 0;
    if (!list) {
        return ERR_NOMEM;
    }
    for (size_t i = 0; i < n; i++) {
        const json_t *row = json_array_get(rows, i);
        const char *text = json_string_value(json_object_get(row, "token"));
        json_int_t id = json_integer_value(json_array_get(ids, i));
        json_int_t named = id_of_row(row);
        out->id_differs = out->id_differs || (named >= 0 && named != id);
        if (named < 0 && text && *text && !strstr(text, REPLACEMENT)) {
            list[used++] = (struct named){id, i, text};
        }
    }
    out->texts_shifted = are_shifted(list, used);
    free(list);
    return 0;
}

/* Decoders differ in blanks: one token alone may have lost its own. */
static int add_dense(const char *text, size_t n, struct buf *out) {
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < n; i++) {
        rc = isspace((unsigned char)text[i]) ? 0 : buf_addc(out, text[i]);
    }
    return rc;
}

/* 1: added; 0: the row does not tell its text. */
static int add_row_text(const json_t *row, struct buf *out) {
    const json_t *bytes = json_object_get(row, "bytes");
    const json_t *token = json_object_get(row, "token");
    size_t i;
    json_t *byte;
    if (!json_is_array(bytes)) {
        bool told = json_is_string(token) && !strstr(json_string_value(token), REPLACEMENT) &&
                    id_of_row(row) < 0;
        int rc = told ? add_dense(json_string_value(token), json_string_length(token), out) : 0;
        return rc < 0 ? rc : told;
    }
    json_array_foreach(bytes, i, byte) {
        char c = (char)json_integer_value(byte);
        int rc = add_dense(&c, 1, out);
        if (rc < 0) {
            return rc;
        }
    }
    return 1;
}

/* 1: found, or nothing to be found. */
static int holds(const struct buf *tokens, const json_t *message, const char *field) {
    const json_t *text = json_object_get(message, field);
    AUTO_BUF struct buf dense = {0};
    if (!json_is_string(text) || strstr(json_string_value(text), REPLACEMENT)) {
        return 1;
    }
    int rc = add_dense(json_string_value(text), json_string_length(text), &dense);
    return rc < 0 ? rc : sv_find(buf_sv(tokens), buf_sv(&dense)) != (size_t)-1;
}

static int compare_text(const json_t *response, const json_t *rows, struct pairing *out) {
    static const char *const texts[] = {"content", "reasoning", "reasoning_content"};
    AUTO_BUF struct buf tokens = {0};
    size_t i;
    json_t *row;
    int rc = json_array_size(rows) > 0;
    json_array_foreach(rows, i, row) {
        rc = rc > 0 ? add_row_text(row, &tokens) : rc;
    }
    if (rc <= 0) {
        return rc;
    }
    const json_t *choice = json_array_get(json_object_get(response, "choices"), 0);
    const json_t *message = json_object_get(choice, "message");
    for (i = 0; rc >= 0 && i < ARRAY_LEN(texts); i++) {
        rc = holds(&tokens, message, texts[i]);
        out->text_differs = out->text_differs || rc == 0;
    }
    return rc;
}

static json_t *array_of(struct sv text) {
    return text.n > 0 ? json_loadb(text.p, text.n, JSON_ALLOW_NUL, NULL) : NULL;
}

int pairing_of(const struct trace_call *call, const json_t *response, struct pairing *out,
               struct err *err) {
    *out = (struct pairing){0};
    AUTO_JSON json_t *rows = array_of(call->logprobs);
    AUTO_JSON json_t *ids = array_of(call->completion_token_ids);
    size_t i;
    json_t *row;
    json_array_foreach(rows, i, row) {
        out->contradicted = out->contradicted || contradicts(row);
    }
    int rc = compare_ids(ids, rows, out);
    rc = rc < 0 ? rc : compare_text(response, rows, out);
    return rc < 0 ? err_set(err, ERR_NOMEM, "out of memory") : 0;
}
