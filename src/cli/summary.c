/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/summary.h"

#include <string.h>

#include "base/buf.h"
#include "base/sv.h"
#include "cli/explain.h"
#include "cli/text.h"
#include "cli/turn.h"

#define LABEL_WIDTH 12

int summary_line(const char *label, const char *text, FILE *stream, struct err *err) {
    AUTO_BUF struct buf line = {0};
    if (text_printable(sv_from(text), &line) < 0) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    (void)fprintf(stream, "%-*s%s\n", LABEL_WIDTH, label, buf_cstr(&line));
    return 0;
}

static const char *string_at(const json_t *object, const char *field) {
    return json_string_value(json_object_get(object, field));
}

static int put_status(const json_t *result, FILE *stream, struct err *err) {
    AUTO_BUF struct buf text = {0};
    const char *status = string_at(result, "status");
    const char *cause = string_at(result, "cause");
    const char *error = string_at(result, "error");
    int r =
        buf_addf(&text, "%s%s%s", status ? status : "open", cause ? ", " : "", cause ? cause : "");
    if (r == 0 && error && *error) {
        r = buf_addf(&text, ": %s", error);
    }
    return r < 0 ? err_set(err, ERR_NOMEM, "out of memory")
                 : summary_line("status", buf_cstr(&text), stream, err);
}

static void put_reward(const json_t *result, FILE *stream) {
    const json_t *reward = json_object_get(result, "reward");
    const json_t *checks = json_object_get(result, "verify_results");
    size_t passed = 0;
    size_t i = 0;
    const json_t *check = NULL;
    json_array_foreach(checks, i, check) {
        passed += json_integer_value(json_object_get(check, "exit_code")) == 0;
    }
    (void)fprintf(stream, "%-*s", LABEL_WIDTH, "reward");
    if (json_is_number(reward)) {
        (void)fprintf(stream, "%.2f", json_number_value(reward));
    } else {
        (void)fputs("none", stream);
    }
    if (json_array_size(checks) > 0) {
        (void)fprintf(stream, " (%zu of %zu checks passed)", passed, json_array_size(checks));
    }
    (void)fputc('\n', stream);
}

/* All recorded calls together. */
static void put_turns(const json_t *result, FILE *stream) {
    const json_t *turns = json_object_get(result, "proxy_turns");
    struct turn t;
    char mean[32];
    double sum = 0;
    size_t n = 0;
    long long tokens = 0;
    size_t i = 0;
    const json_t *line = NULL;
    json_array_foreach(turns, i, line) {
        turn_read(line, &t);
        tokens += t.n_completion > 0 ? t.n_completion : 0;
        sum += t.logp_sum;
        n += t.n_logps;
    }
    turn_mean_logp(sum, n, mean);
    (void)fprintf(stream, "%-*s%zu, %lld completion tokens, mean log-probability %s\n", LABEL_WIDTH,
                  "turns", json_array_size(turns), tokens, mean);
}

static void put_phases(const json_t *result, FILE *stream) {
    const char *name = NULL;
    const json_t *seconds = NULL;
    bool first = true;
    char took[32];
    (void)fprintf(stream, "%-*s", LABEL_WIDTH, "time");
    text_duration(json_number_value(json_object_get(result, "wall_s")), took);
    (void)fprintf(stream, "%s", took);
    json_object_foreach((json_t *)json_object_get(result, "phases"), name, seconds) {
        if (json_is_number(seconds)) {
            (void)fprintf(stream, "%s%s %.2f", first ? " (" : ", ", name,
                          json_number_value(seconds));
            first = false;
        }
    }
    (void)fputs(first ? "\n" : ")\n", stream);
}

int summary_print(const json_t *result, const char *dir, FILE *stream, struct err *err) {
    int r = put_status(result, stream, err);
    if (r < 0) {
        return r;
    }
    put_reward(result, stream);
    put_turns(result, stream);
    put_phases(result, stream);
    r = explain_briefly(json_object_get(result, "findings"), LABEL_WIDTH, stream, err);
    if (r < 0) {
        return r;
    }
    return dir ? summary_line("folder", dir, stream, err) : 0;
}
