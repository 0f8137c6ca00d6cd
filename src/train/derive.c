/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/derive.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "net/http_client.h"
#include "net/url.h"

/* A prompt of 64 MB as JSON, or its tokens: as great as a request may be. */
#define DERIVE_ANSWER_MAX (64u << 20)
/* Neither costs the engine a generation, but it may be busy with one. */
#define DERIVE_CALL_S 60.0

struct derive {
    char *template_url;
    char *tokens_url;
    char *key_field; /* NULL: no key. */
    const struct cancel *cancel;
    struct http_pool *pool;
};

int derive_open(const struct derive_options *o, struct derive **out, struct err *err) {
    struct url url = {0};
    struct sv base = sv_from(o->base_url);
    while (sv_ends_with(base, SV("/"))) {
        base.n--;
    }
    if (sv_ends_with(base, SV("/v1"))) {
        base.n -= 3;
    }
    int rc = url_parse(base, &url, err);
    if (rc < 0) {
        return rc;
    }
    url_deinit(&url);
    struct derive *d = calloc(1, sizeof *d);
    if (!d) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    d->cancel = o->cancel;
    d->template_url = mem_printf("%.*s/apply-template", SV_ARG(base));
    d->tokens_url = mem_printf("%.*s/tokenize", SV_ARG(base));
    d->key_field = o->api_key ? mem_printf("Authorization: Bearer %s", o->api_key) : NULL;
    rc = !d->template_url || !d->tokens_url || (o->api_key && !d->key_field)
             ? err_set(err, ERR_NOMEM, "out of memory")
             : http_pool_new(&d->pool, err);
    if (rc < 0) {
        derive_close(d);
        return rc;
    }
    *out = d;
    return 0;
}

void derive_close(struct derive *d) {
    if (!d) {
        return;
    }
    if (d->key_field) {
        explicit_bzero(d->key_field, strlen(d->key_field));
    }
    free(d->key_field);
    free(d->template_url);
    free(d->tokens_url);
    http_pool_free(d->pool);
    free(d);
}

/* --- what the server is asked --- */

/* Gives its answer as JSON, or NULL with a reason in `why`. */
static int ask(struct derive *d, const char *url, const json_t *body, json_t **out, struct buf *why,
               struct err *err) {
    AUTO_BUF struct buf text = {0};
    struct http_answer answer = {0};
    const char *const headers[] = {d->key_field, NULL};
    *out = NULL;
    int rc = json_compact(body, &text);
    if (rc < 0) {
        return err_set(err, rc, "out of memory");
    }
    const struct http_call call = {.url = url,
                                   .headers = headers,
                                   .body = buf_sv(&text),
                                   .answer_max = DERIVE_ANSWER_MAX,
                                   .deadline = deadline_in_s(DERIVE_CALL_S),
                                   .cancel = d->cancel,
                                   .pool = d->pool};
    rc = http_call_json(&call, &answer, err);
    if (rc == 0 && (answer.status == 401 || answer.status == 403)) {
        rc = err_set(err, ERR_ENVIRONMENT,
                     "'%s' refuses the key (HTTP %d): name the variable that holds a valid one "
                     "with --api-key-env",
                     url, answer.status);
    } else if (rc == 0 && (answer.status != 200 ||
                           json_parse(buf_sv(&answer.body), "answer", out, NULL) < 0)) {
        rc = buf_addf(why, "%s answered HTTP %d%s", strrchr(url, '/') + 1, answer.status,
                      answer.status == 200 ? ", which is no JSON" : "");
    }
    http_answer_deinit(&answer);
    return rc;
}

/* What is of the answer, and some of which the server refuses together. */
static json_t *question_of(const json_t *request) {
    static const char *const drop[] = {"stream",       "stream_options", "logprobs",
                                       "top_logprobs", "n_probs",        NULL};
    json_t *question = json_copy((json_t *)(uintptr_t)request);
    for (size_t i = 0; question && drop[i]; i++) {
        (void)json_object_del(question, drop[i]);
    }
    return question;
}

static bool are_ids(const json_t *list) {
    size_t i;
    const json_t *id;
    json_array_foreach(list, i, id) {
        if (!json_is_integer(id) || json_integer_value(id) < 0) {
            return false;
        }
    }
    return json_array_size(list) > 0;
}

/* Gives the ids, or NULL with a reason in `why`. */
static int ids_of(struct derive *d, const json_t *request, json_t **out, struct buf *why,
                  struct err *err) {
    AUTO_JSON json_t *question = question_of(request);
    AUTO_JSON json_t *said = NULL;
    AUTO_JSON json_t *tokens = NULL;
    int rc = ask(d, d->template_url, question, &said, why, err);
    if (rc < 0 || !said) {
        return rc;
    }
    /* As the server itself goes on with the text: its marks are tokens, and it begins as a text
     * does. */
    AUTO_JSON json_t *text =
        json_pack("{s:O?, s:b, s:b}", "content", json_object_get(said, "prompt"), "add_special",
                  true, "parse_special", true);
    rc = ask(d, d->tokens_url, text, &tokens, why, err);
    if (rc < 0 || !tokens) {
        return rc;
    }
    json_t *ids = json_object_get(tokens, "tokens");
    if (!are_ids(ids)) {
        return buf_adds(why, "tokenize gave no list of ids");
    }
    *out = json_incref(ids);
    return 0;
}

/* --- lines --- */

static bool is_wanting(const json_t *line) {
    const char *engine = json_string_value(json_object_get(line, "engine"));
    return engine && strcmp(engine, "llama.cpp") == 0 &&
           json_array_size(json_object_get(line, "prompt_token_ids")) == 0 &&
           json_is_object(json_object_get(line, "request"));
}

/* The engine's own count is the only witness. */
static int compare(const json_t *line, json_t **ids, struct buf *why) {
    const json_t *usage = json_object_get(line, "usage");
    const json_t *counted = json_object_get(usage, "prompt_tokens");
    if (!*ids) {
        return 0;
    }
    int rc = 0;
    if (!json_is_integer(counted)) {
        rc = buf_adds(why, "the engine did not count the prompt's tokens");
    } else if ((size_t)json_integer_value(counted) != json_array_size(*ids)) {
        rc = buf_addf(why, "%zu tokens, and the engine counted %lld", json_array_size(*ids),
                      (long long)json_integer_value(counted));
    } else {
        return 0;
    }
    json_decref(*ids);
    *ids = NULL;
    return rc;
}

/* Behind the last field, so that all else keeps its spelling. */
static int put(struct sv line, json_t *ids, struct sv why, struct buf *out) {
    AUTO_JSON json_t *reason = ids ? NULL : json_text(why);
    AUTO_JSON json_t *derived = json_pack("{s:O?, s:O*}", "prompt_token_ids", ids, "why", reason);
    if (!derived || (!ids && !reason)) {
        return ERR_NOMEM;
    }
    int rc = buf_add(out, line.p, line.n - 1);
    rc = rc < 0 ? rc : buf_adds(out, ",\"derived\":");
    rc = rc < 0 ? rc : json_compact(derived, out);
    return rc < 0 ? rc : buf_addc(out, '}');
}

int derive_line(struct derive *d, struct sv line, struct buf *out, struct err *err) {
    AUTO_JSON json_t *root = NULL;
    AUTO_JSON json_t *ids = NULL;
    AUTO_BUF struct buf why = {0};
    int rc;
    line = sv_trim(line);
    if (json_parse(line, "trace", &root, NULL) < 0 || !is_wanting(root)) {
        rc = buf_add_sv(out, line);
        return rc < 0 ? err_set(err, rc, "out of memory") : 0;
    }
    rc = ids_of(d, json_object_get(root, "request"), &ids, &why, err);
    if (rc < 0) {
        return err_wrap(err, "cannot derive the ids of turn %lld",
                        (long long)json_integer_value(json_object_get(root, "turn")));
    }
    rc = compare(root, &ids, &why);
    rc = rc < 0 ? rc : put(line, ids, buf_sv(&why), out);
    return rc < 0 ? err_set(err, rc, "out of memory") : 0;
}
