/* SPDX-License-Identifier: BSD-3-Clause */
#include "rollout/probe.h"

#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "net/http_client.h"

#define PROBE_S 10.0 /* A model list comes at once; a cold TLS path across the world takes 2 s. */

static const char *key_words(const struct endpoint_probe *e) {
    return e->key_name ? e->key_name : "the configuration";
}

int endpoint_probe(const struct endpoint_probe *e, const struct cancel *cancel, struct err *err) {
    struct http_answer answer = {0};
    size_t n = strlen(e->base_url);
    while (n > 0 && e->base_url[n - 1] == '/') {
        n--;
    }
    AUTO_FREE char *url = mem_printf("%.*s/models", (int)n, e->base_url);
    AUTO_FREE char *key = mem_printf("Authorization: Bearer %s", e->api_key ? e->api_key : "");
    if (!url || !key) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    const char *const headers[] = {e->api_key ? key : NULL, NULL};
    int r = http_call(
        &(struct http_call){
            .url = url, .headers = headers, .deadline = deadline_in_s(PROBE_S), .cancel = cancel},
        &answer, err);
    explicit_bzero(key, strlen(key));
    if (r == ERR_CANCELLED || r == ERR_INPUT || r == ERR_NOMEM) {
        return r;
    }
    if (r == ERR_LIMIT || r == ERR_PROTOCOL) {
        return 0; /* Something answers there; what it is, the first model call will tell. */
    }
    if (r < 0) {
        struct err cause = *err;
        return err_set(err, ERR_ENVIRONMENT,
                       "no model endpoint answers at '%s': %s (is it running, and is the address "
                       "right?)",
                       e->base_url, cause.msg);
    }
    int status = answer.status;
    http_answer_deinit(&answer);
    if (status == 401) {
        return err_set(err, ERR_ENVIRONMENT,
                       "the model endpoint '%s' refuses the key from %s (HTTP 401): set a valid "
                       "one",
                       e->base_url, key_words(e));
    }
    if (status == 403) {
        log_warning("the model endpoint '%s' forbids listing its models to the key from %s (HTTP "
                    "403); going on",
                    e->base_url, key_words(e));
    }
    return 0;
}
