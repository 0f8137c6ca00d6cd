/* SPDX-License-Identifier: BSD-3-Clause */
#include "sandbox/hf/answer.h"

#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "sandbox/hf/rate.h"

#define FAULT_MAX 300 /* Of the Hub's own words in an error. */
#define LOG_LINE_MAX 500
#define PROTOCOL_LAST 99

static struct sv text_of(const json_t *value) {
    return (struct sv){json_string_value(value), json_string_length(value)};
}

/* Not in the middle of a character. */
static size_t cut_at(struct sv text, size_t max) {
    size_t n = text.n < max ? text.n : max;
    while (n > 0 && n < text.n && ((unsigned char)text.p[n] & 0xC0) == 0x80) {
        n--;
    }
    return n;
}

int hf_answer_line(struct sv said, size_t max, struct buf *out) {
    int r = 0;
    size_t n = said.p ? cut_at(said, max) : 0;
    for (size_t i = 0; r == 0 && i < n; i++) {
        unsigned char c = (unsigned char)said.p[i];
        r = buf_addc(out, c < ' ' || c == 0x7F ? ' ' : said.p[i]);
    }
    return r;
}

int hf_answer_fault(struct sv head, struct sv body, struct buf *out) {
    AUTO_JSON json_t *o = NULL;
    struct err ignored = {0};
    struct sv said = hf_head_field(head, SV("X-Error-Message"));
    if (said.n == 0 && json_parse(body, "answer", &o, &ignored) == 0) {
        const json_t *error = json_object_get(o, "error");
        const json_t *first = json_array_get(json_object_get(o, "errors"), 0);
        said = text_of(json_is_array(error) ? json_array_get(error, 0) : error);
        said = said.p ? said : text_of(json_object_get(first, "message"));
    } else if (said.n == 0 && body.n > 0 && body.p[0] != '<') {
        said = body;
    }
    return hf_answer_line(said, FAULT_MAX, out);
}

int hf_answer_server_fault(struct sv body, struct buf *out) {
    AUTO_JSON json_t *o = NULL;
    struct err ignored = {0};
    if (json_parse(body, "answer", &o, &ignored) < 0) {
        return 0;
    }
    struct sv said = text_of(json_object_get(o, "error"));
    int r = hf_answer_line(said, FAULT_MAX, out);
    return r < 0 ? r : said.p != NULL;
}

/* `Link: <URL>; rel="next"` */
char *hf_answer_next_page(struct sv head, const char *endpoint) {
    struct sv link = hf_head_field(head, SV("Link"));
    size_t end = sv_find(link, SV(">"));
    if (link.n == 0 || link.p[0] != '<' || end == (size_t)-1 ||
        sv_find(link, SV("rel=\"next\"")) == (size_t)-1) {
        return NULL;
    }
    struct sv url = {link.p + 1, end - 1};
    AUTO_FREE char *own = mem_printf("%s/", endpoint);
    return own && sv_starts_with(url, sv_from(own)) ? mem_strndup(url.p, url.n) : NULL;
}

int hf_answer_jobs(struct sv body, json_t *all, struct err *err) {
    AUTO_JSON json_t *page = NULL;
    int r = json_parse(body, "the Hub's list", &page, err);
    if (r < 0 || !json_is_array(page)) {
        return err_set(err, ERR_PROTOCOL, "the Hub's list of jobs is no array");
    }
    return json_array_extend(all, page) < 0 ? err_set(err, ERR_NOMEM, "out of memory") : 0;
}

json_t *hf_answer_stages(const json_t *jobs) {
    json_t *stages = json_object();
    size_t i;
    json_t *job;
    json_array_foreach((json_t *)jobs, i, job) {
        const char *id = json_string_value(json_object_get(job, "id"));
        json_t *stage = json_object_get(json_object_get(job, "status"), "stage");
        if (stages && id && json_is_string(stage)) {
            json_object_set(stages, id, stage);
        }
    }
    return stages;
}

/* `data: {"data": TEXT, ...}` a line. */
int hf_answer_log(struct sv body, struct buf *out) {
    int r = 0;
    while (r == 0 && body.n > 0) {
        size_t end = sv_find(body, SV("\n"));
        struct sv line = end == (size_t)-1 ? body : (struct sv){body.p, end};
        AUTO_JSON json_t *event = NULL;
        struct err ignored = {0};
        body = sv_cut(body, line.n + 1);
        if (sv_starts_with(line, SV("data: {")) &&
            json_parse(sv_cut(line, 6), "log", &event, &ignored) == 0) {
            struct sv text = text_of(json_object_get(event, "data"));
            r = text.p ? buf_adds(out, " | ") : 0;
            r = r < 0 ? r : hf_answer_line(text, LOG_LINE_MAX, out);
        }
    }
    return r;
}

int hf_answer_protocol(struct sv body, int *out, struct err *err) {
    AUTO_JSON json_t *health = NULL;
    int r = json_parse(body, "health", &health, err);
    if (r < 0 || !json_is_object(health)) {
        return err_set(err, ERR_PROTOCOL, "what answers /health is not the sandbox's server");
    }
    json_int_t n = json_integer_value(json_object_get(health, "protocol"));
    *out = n < 1 ? 1 : n < PROTOCOL_LAST ? (int)n : PROTOCOL_LAST;
    return 0;
}

int hf_answer_size(struct sv body, const char *path, uint64_t *out, struct err *err) {
    AUTO_JSON json_t *entry = NULL;
    int r = json_parse(body, "stat", &entry, err);
    const char *type = json_string_value(json_object_get(entry, "type"));
    if (r == 0 && type && strcmp(type, "file") != 0) {
        return err_set(err, ERR_INPUT, "'%s' is no regular file", path);
    }
    const json_t *size = json_object_get(entry, "size");
    if (r < 0 || !json_is_integer(size) || json_integer_value(size) < 0) {
        return err_set(err, ERR_PROTOCOL, "what the sandbox's server says of '%s' has no size",
                       path);
    }
    *out = (uint64_t)json_integer_value(size);
    return 0;
}
