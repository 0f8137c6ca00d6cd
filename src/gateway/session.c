/* SPDX-License-Identifier: BSD-3-Clause */
#include "gateway/session.h"

#include <openssl/sha.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

struct gateway_session *session_find(struct gateway *g, struct sv token) {
    unsigned char digest[SESSION_DIGEST_BYTES];
    const struct sv shown = {(const char *)digest, sizeof digest};
    struct gateway_session *found = NULL;
    SHA256((const unsigned char *)token.p, token.n, digest);
    for (struct gateway_session *s = g->sessions; s; s = s->next) {
        if (sv_eq_constant_time((struct sv){(const char *)s->digest, sizeof s->digest}, shown)) {
            found = s;
        }
    }
    return found;
}

static struct refusal *find_refusal(struct gateway_session *s, struct sv model, bool stream,
                                    bool tools) {
    for (unsigned i = 0; i < s->n_refusals; i++) {
        struct refusal *r = &s->refusals[i];
        if (r->stream == stream && r->tools == tools && sv_eq(sv_from(r->model), model)) {
            return r;
        }
    }
    return NULL;
}

enum capture_level session_level(const struct gateway_session *s, struct sv model, bool stream,
                                 bool tools) {
    const struct refusal *r =
        find_refusal((struct gateway_session *)(uintptr_t)s, model, stream, tools);
    if (r) {
        return r->level;
    }
    return s->is_openai ? LEVEL_LOGPROBS : LEVEL_TOKENS;
}

void session_remember(struct gateway_session *s, struct sv model, bool stream, bool tools,
                      enum capture_level level) {
    struct refusal *r = find_refusal(s, model, stream, tools);
    if (r) {
        r->level = level;
        return;
    }
    char *copy = s->n_refusals < SESSION_REFUSALS_MAX ? mem_strndup(model.p, model.n) : NULL;
    if (copy) { /* Else it is asked again; no more is lost than a round trip. */
        s->refusals[s->n_refusals++] = (struct refusal){copy, stream, tools, level};
    }
}

void session_note_answer(struct gateway_session *s, bool answered) {
    if (answered) {
        s->stats.failed_in_a_row = 0;
    } else if (s->stats.failed_in_a_row++ == 0) {
        s->failing_since_ms = clock_ms();
    }
}

static void wipe(char *secret) {
    if (secret) {
        explicit_bzero(secret, strlen(secret));
        free(secret);
    }
}

void session_free(struct gateway_session *s) {
    if (!s) {
        return;
    }
    for (unsigned i = 0; i < s->n_refusals; i++) {
        free(s->refusals[i].model);
    }
    free(s->name);
    free(s->upstream_url);
    free(s->host);
    free(s->host_field);
    free(s->chat_target);
    free(s->models_target);
    free(s->key_name);
    free(s->model_override);
    buf_deinit(&s->policy_version);
    wipe(s->api_key);
    explicit_bzero(s->token, sizeof s->token);
    pthread_cond_destroy(&s->idle);
    free(s);
}
