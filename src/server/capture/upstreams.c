/* SPDX-License-Identifier: BSD-3-Clause */
/* The engines of sessions that name none. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "server/capture/server.h"

#define UPSTREAM_FILE_MAX (1024u * 1024) /* 256 URLs with comments. */

int upstreams_of(const json_t *object, const char ***out, struct err *err) {
    const struct json_at at = {object, "body"};
    const json_t *urls = NULL;
    const char *url = NULL;
    size_t i;
    const json_t *one;
    int rc = json_get_string(at, "llm_url", &url, err);
    rc = rc < 0 ? rc : json_get_array(at, "llm_urls", &urls, err);
    if (rc < 0 || (!url && !urls)) {
        return rc;
    }
    if (url && urls) {
        return err_set(err, ERR_INPUT, "want either 'llm_url' or 'llm_urls'");
    }
    AUTO_FREE const char **list = calloc((urls ? json_array_size(urls) : 1) + 1, sizeof *list);
    if (!list) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    list[0] = url;
    json_array_foreach(urls, i, one) {
        list[i] = json_string_value(one);
        if (!list[i]) {
            return err_set(err, ERR_INPUT, "llm_urls: want texts, got %s", json_kind(one));
        }
    }
    if (!list[0]) {
        return err_set(err, ERR_INPUT, "llm_urls: want at least one");
    }
    *out = TAKE(list);
    return 0;
}

/* Cuts the text into its lines; blank ones and those with a '#' in front are left out. */
static size_t take_lines(char *text, const char **lines, size_t max) {
    size_t n = 0;
    char *rest = text;
    char *line;
    while ((line = strsep(&rest, "\r\n")) != NULL && n < max) {
        struct sv v = sv_trim(sv_from(line));
        if (v.n > 0 && v.p[0] != '#') {
            line[(size_t)(v.p - line) + v.n] = 0;
            lines[n++] = v.p;
        }
    }
    return n;
}

static int load_file(struct capture *c, const char *path, struct err *err) {
    AUTO_BUF struct buf text = {0};
    int rc = file_read(path, UPSTREAM_FILE_MAX, &text, err);
    if (rc < 0) {
        return rc;
    }
    AUTO_FREE const char **lines = calloc(text.len + 2, sizeof *lines);
    if (!lines) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    if (text.len == 0 || take_lines(text.data, lines, text.len + 1) == 0) {
        return err_set(err, ERR_INPUT, "'%s' names no upstream: want one URL a line", path);
    }
    rc = gateway_set_upstreams(c->gateway, lines, err);
    return rc < 0 ? err_wrap(err, "%s", path) : 0;
}

int upstreams_load(struct capture *c, struct err *err) {
    const struct capture_options *o = c->o;
    return o->upstream_file ? load_file(c, o->upstream_file, err)
                            : gateway_set_upstreams(c->gateway, o->upstreams, err);
}

static int add_upstream(void *list, const struct gateway_upstream *u) {
    return json_array_append_new(list, json_pack("{s:s, s:i, s:i, s:b}", "llm_url", u->url, "calls",
                                                 (int)u->calls, "sessions", (int)u->sessions,
                                                 "available", !u->is_out));
}

int upstreams_list(struct capture *c, struct reply *out, struct err *err) {
    AUTO_JSON json_t *list = json_array();
    if (!list || gateway_list_upstreams(c->gateway, add_upstream, list) < 0) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    return reply_json(out, 200, json_pack("{s:o}", "upstreams", TAKE(list)), err);
}

int upstreams_replace(struct capture *c, const struct request_view *r, struct reply *out,
                      struct err *err) {
    static const char *const known[] = {"llm_url", "llm_urls", NULL};
    AUTO_JSON json_t *body = NULL;
    AUTO_FREE const char **urls = NULL;
    int rc = body_object(r, known, &body, err);
    rc = rc < 0 ? rc : upstreams_of(body, &urls, err);
    if (rc == 0 && !urls) {
        rc = err_set(err, ERR_INPUT, "want 'llm_url' or 'llm_urls'");
    }
    rc = rc < 0 ? rc : gateway_set_upstreams(c->gateway, urls, err);
    return rc < 0 ? rc : upstreams_list(c, out, err);
}
