/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/show.h"

#include <math.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/sv.h"
#include "cli/explain.h"
#include "cli/table.h"
#include "cli/text.h"
#include "cli/turn.h"

static const struct table_column columns[] = {
    {.title = "#", .right = true},       {.title = "ID", .right = true},
    {.title = "LOGP", .right = true},    {.title = "P", .right = true},
    {.title = "TOKEN", .may_cut = true},
};

static int nomem(struct err *err) {
    return err_set(err, ERR_NOMEM, "out of memory");
}

/* A heading and the text under it, line by line. */
static int put_block(const char *heading, const char *text, FILE *stream, struct err *err) {
    struct sv rest = sv_from(text);
    if (rest.n == 0) {
        return 0;
    }
    (void)fprintf(stream, "\n%s\n", heading);
    while (rest.n > 0) {
        AUTO_BUF struct buf line = {0};
        size_t n = sv_find(rest, SV("\n"));
        n = n == (size_t)-1 ? rest.n : n;
        if (text_printable((struct sv){rest.p, n}, &line) < 0) {
            return nomem(err);
        }
        (void)fprintf(stream, "  %s\n", buf_cstr(&line));
        rest = sv_cut(rest, n + 1 < rest.n ? n + 1 : rest.n);
    }
    return 0;
}

static int put_calls(const json_t *calls, FILE *stream, struct err *err) {
    size_t i = 0;
    const json_t *call = NULL;
    json_array_foreach(calls, i, call) {
        AUTO_BUF struct buf line = {0};
        const json_t *function = json_object_get(call, "function");
        const char *name = json_string_value(json_object_get(function, "name"));
        const char *arguments = json_string_value(json_object_get(function, "arguments"));
        if (text_printable(sv_from(name ? name : "?"), &line) < 0 || buf_addc(&line, ' ') < 0 ||
            text_printable(sv_from(arguments), &line) < 0) {
            return nomem(err);
        }
        (void)fprintf(stream, "%s  %s\n", i == 0 ? "\ntool calls\n" : "", buf_cstr(&line));
    }
    return 0;
}

static int put_choice(const json_t *choice, FILE *stream, struct err *err) {
    const json_t *message = json_object_get(choice, "message");
    /* Engines differ in the name of the reasoning's field. */
    const char *reasoning = json_string_value(json_object_get(message, "reasoning"));
    if (!reasoning) {
        reasoning = json_string_value(json_object_get(message, "reasoning_content"));
    }
    int r = put_block("reasoning", reasoning, stream, err);
    if (r == 0) {
        r = put_block("text", json_string_value(json_object_get(message, "content")), stream, err);
    }
    return r < 0 ? r : put_calls(json_object_get(message, "tool_calls"), stream, err);
}

static size_t longest(const json_t *a, const json_t *b, const json_t *c) {
    size_t n = json_array_size(a);
    n = json_array_size(b) > n ? json_array_size(b) : n;
    return json_array_size(c) > n ? json_array_size(c) : n;
}

/* Quoted as in JSON, so that a token's own quotes and blanks are seen. */
static void add_token(struct table *t, const char *text) {
    AUTO_BUF struct buf quoted = {0};
    if (!text) {
        table_add(t, SV("-"));
    } else if (json_quote(sv_from(text), &quoted) < 0) {
        t->failed = true;
    } else {
        table_add(t, buf_sv(&quoted));
    }
}

static int put_tokens(const json_t *line, FILE *stream, struct err *err) {
    const json_t *texts = json_object_get(line, "completion_tokens");
    const json_t *ids = json_object_get(line, "completion_token_ids");
    const json_t *logps = json_object_get(line, "per_token_logps");
    size_t n = longest(texts, ids, logps);
    struct table t;
    if (n == 0) {
        return 0;
    }
    table_init(&t, columns, ARRAY_LEN(columns));
    for (size_t i = 0; i < n; i++) {
        const json_t *id = json_array_get(ids, i);
        const json_t *logp = json_array_get(logps, i);
        const char *text = json_string_value(json_array_get(texts, i));
        table_addf(&t, "%zu", i + 1);
        table_addf(&t, json_is_integer(id) ? "%lld" : "-", (long long)json_integer_value(id));
        table_addf(&t, json_is_number(logp) ? "%.4f" : "-", json_number_value(logp));
        table_addf(&t, json_is_number(logp) ? "%.1f%%" : "-", 100 * exp(json_number_value(logp)));
        add_token(&t, text);
    }
    (void)fputs("\ntokens\n", stream);
    int r = table_print(&t, stream, 0, err);
    table_deinit(&t);
    return r;
}

int show_turn(const json_t *line, FILE *stream, struct err *err) {
    struct turn t;
    char mean[32];
    char latency[32];
    turn_read(line, &t);
    turn_mean_logp(t.logp_sum, t.n_logps, mean);
    turn_latency(&t, latency);
    (void)fprintf(stream,
                  "turn %lld: %s%s%s%s, %lld prompt tokens, %lld completion tokens, mean "
                  "log-probability %s, %s\n",
                  t.number, t.role, *t.role ? ", " : "",
                  *t.trainable == 'n' ? "not trainable, " : "", *t.finish ? t.finish : "no end",
                  t.n_prompt < 0 ? 0 : t.n_prompt, t.n_completion < 0 ? 0 : t.n_completion, mean,
                  latency);
    int found = explain_findings(t.findings, "\nfindings\n", stream, err);
    if (found < 0) {
        return found;
    }
    size_t i = 0;
    const json_t *choice = NULL;
    json_array_foreach(json_object_get(json_object_get(line, "response"), "choices"), i, choice) {
        int r = put_choice(choice, stream, err);
        if (r < 0) {
            return r;
        }
    }
    return put_tokens(line, stream, err);
}
