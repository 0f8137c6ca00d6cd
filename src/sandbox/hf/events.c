/* SPDX-License-Identifier: BSD-3-Clause */
#include "sandbox/hf/events.h"

#include <string.h>

#include "base/json.h"

/* What a shell gives for one that died by this signal; numbers that no command can end with are
 * taken for an end that nobody saw, which is never 0. */
static int code_of(const json_t *event) {
    const json_t *code = json_object_get(event, "exit_code");
    const json_t *signal = json_object_get(event, "signal");
    json_int_t base = json_is_integer(code) ? 0 : 128;
    json_int_t n = json_is_integer(code)     ? json_integer_value(code)
                   : json_is_integer(signal) ? json_integer_value(signal)
                                             : -1;
    return n >= 0 && n <= 255 - base ? (int)(base + n) : 137;
}

/* Takes one line of the stream. */
static int hear(const json_t *event, struct hf_events *e, bool *ended) {
    const char *kind = json_string_value(json_object_get(event, "event"));
    const json_t *data = json_object_get(event, "data");
    struct sv text = {json_string_value(data), json_string_length(data)};
    if (!kind) {
        return 0;
    }
    if (strcmp(kind, "stdout") == 0 && text.n > 0) {
        return buf_add_sv(&e->out, text);
    }
    if (strcmp(kind, "stderr") == 0 && text.n > 0 && e->err.len < HF_EVENTS_ERR_MAX) {
        text.n = text.n < HF_EVENTS_ERR_MAX ? text.n : HF_EVENTS_ERR_MAX;
        return buf_add_sv(&e->err, text);
    }
    if (strcmp(kind, "exit") == 0) {
        *ended = true;
        e->exit_code = code_of(event);
    }
    return 0;
}

int hf_events_read(struct sv stream, struct hf_events *out, struct err *err) {
    bool ended = false;
    while (stream.n > 0) {
        size_t end = sv_find(stream, SV("\n"));
        struct sv line = end == (size_t)-1 ? stream : (struct sv){stream.p, end};
        AUTO_JSON json_t *event = NULL;
        struct err ignored = {0};
        stream = sv_cut(stream, line.n + 1);
        if (line.n > 0 && json_parse(line, "event", &event, &ignored) == 0 &&
            hear(event, out, &ended) < 0) {
            return err_set(err, ERR_NOMEM, "out of memory");
        }
    }
    return ended ? 0 : err_set(err, ERR_CLOSED, "the sandbox's server told no end of a command");
}

void hf_events_deinit(struct hf_events *e) {
    buf_deinit(&e->out);
    buf_deinit(&e->err);
    *e = (struct hf_events){0};
}
