/* SPDX-License-Identifier: BSD-3-Clause */
#include "sandbox/hf/server.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "net/http_client.h"
#include "sandbox/digest.h"
#include "sandbox/hf/answer.h"
#include "sandbox/hf/server_call.h"

#define CALL_S 60.0
#define AGAIN_MS 50 /* Before the second attempt; four times as long before each further one. */

char *hf_server_token(const char *token, const char *nonce) {
    char hex[DIGEST_HEX_MAX];
    AUTO_FREE char *text = mem_printf("hf-sandbox:%s", nonce);
    char *out = text && digest_hmac_hex(token, text, hex) == 0 ? mem_strdup(hex) : NULL;
    explicit_bzero(hex, sizeof hex);
    return out;
}

static void forget(char *secret) {
    if (secret) {
        explicit_bzero(secret, strlen(secret));
    }
    free(secret);
}

int hf_server_init(struct hf_server *s, const char *base, const char *token, const char *nonce,
                   struct err *err) {
    struct hf_server made = {0};
    int r = http_pool_new(&made.pool, err);
    if (r < 0) {
        return r;
    }
    char *own = hf_server_token(token, nonce);
    size_t n = strlen(base);
    while (n > 0 && base[n - 1] == '/') {
        n--;
    }
    made.base = mem_strndup(base, n);
    made.authorization = mem_printf("Authorization: Bearer %s", token);
    made.token = own ? mem_printf("X-Sandbox-Token: %s", own) : NULL;
    forget(own);
    if (!made.base || !made.authorization || !made.token) {
        hf_server_deinit(&made);
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    *s = made;
    return 0;
}

void hf_server_deinit(struct hf_server *s) {
    free(s->base);
    forget(s->authorization);
    forget(s->token);
    http_pool_free(s->pool);
    *s = (struct hf_server){0};
}

bool hf_server_may_pass(int code) {
    return code == ERR_CONNECT || code == ERR_CLOSED || code == ERR_TIMEOUT ||
           code == ERR_UPSTREAM || code == ERR_PROTOCOL;
}

/* --- a call --- */

static int put_escaped(struct buf *out, const char *text) {
    int r = 0;
    for (const unsigned char *c = (const unsigned char *)text; *c && r == 0; c++) {
        bool plain = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') ||
                     (*c >= '0' && *c <= '9') || strchr("-._~/", *c);
        r = plain ? buf_addc(out, (char)*c) : buf_addf(out, "%%%02X", *c);
    }
    return r;
}

/* Anything but the server's own words is the proxy's, and may pass. */
static int status_error(const struct http_answer *a, const char *what, struct err *err) {
    AUTO_BUF struct buf said = {0};
    bool is_own = hf_answer_server_fault(buf_sv(&a->body), &said) > 0;
    int code = ERR_UPSTREAM;
    if (a->status == 404 && is_own) {
        code = ERR_NOT_FOUND;
    } else if (a->status == 401 || a->status == 403) {
        code = ERR_DENIED;
    } else if (a->status == 400 || a->status == 409 || a->status == 411) {
        code = ERR_INPUT;
    }
    return err_set(err, code, "%s: the sandbox's server answers HTTP %d%s%s", what, a->status,
                   said.len > 0 ? ": " : "", buf_cstr(&said));
}

static int call_once(struct hf_server *s, const struct hf_server_ask *ask, struct http_answer *out,
                     struct err *err) {
    const char *const headers[] = {s->authorization, s->token,
                                   ask->is_json ? "Content-Type: application/json"
                                                : "Content-Type: application/octet-stream",
                                   NULL};
    AUTO_BUF struct buf url = {0};
    int r = buf_addf(&url, "%s%s", s->base, ask->route);
    r = r < 0 || !ask->path ? r : buf_adds(&url, "?path=");
    r = r < 0 || !ask->path ? r : put_escaped(&url, ask->path);
    r = r < 0 || !ask->query ? r : buf_addf(&url, "%s%s", ask->path ? "&" : "?", ask->query);
    if (r < 0) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    struct http_call call = {
        .method = ask->method,
        .url = buf_cstr(&url),
        .headers = headers,
        .body = ask->body,
        .answer_max = ask->answer_max,
        .deadline =
            deadline_min(ask->until, deadline_in_s(ask->seconds > 0 ? ask->seconds : CALL_S)),
        .cancel = ask->cancel,
        .pool = s->pool,
        .once = ask->once,
    };
    r = http_call(&call, out, err);
    if (r == 0 && out->status >= 300) {
        r = status_error(out, ask->what, err);
        http_answer_deinit(out);
    }
    return r;
}

int hf_server_call(struct hf_server *s, const struct hf_server_ask *ask, struct http_answer *out,
                   struct err *err) {
    int64_t pause_ms = AGAIN_MS;
    for (unsigned n = 1;; n++) {
        int r = call_once(s, ask, out, err);
        if (r == 0 || n >= ask->attempts || !hf_server_may_pass(r) || deadline_passed(ask->until) ||
            cancel_sleep(ask->cancel, deadline_in_ms(pause_ms), err) < 0) {
            return r;
        }
        pause_ms *= 4;
    }
}

int hf_server_health(struct hf_server *s, deadline_ms until, const struct cancel *cancel,
                     struct err *err) {
    struct http_answer a = {0};
    struct hf_server_ask ask = {
        .what = "health", .route = "/health", .until = until, .cancel = cancel};
    int r = hf_server_call(s, &ask, &a, err);
    if (r < 0) {
        return r;
    }
    int protocol = 1;
    r = hf_answer_protocol(buf_sv(&a.body), &protocol, err);
    http_answer_deinit(&a);
    s->protocol = r < 0 ? s->protocol : protocol;
    return r;
}

/* --- exec --- */

int hf_server_run(struct hf_server *s, const struct hf_server_run *run, deadline_ms until,
                  const struct cancel *cancel, struct hf_events *out, struct err *err) {
    AUTO_BUF struct buf body = {0};
    AUTO_JSON json_t *cmd = json_array();
    for (size_t i = 0; run->argv[i]; i++) {
        json_array_append_new(cmd, json_text(sv_from(run->argv[i])));
    }
    AUTO_JSON json_t *o = json_pack("{s:O}", "cmd", cmd);
    int r = o && run->input.n > 0 ? json_object_set_new(o, "stdin", json_text(run->input)) : 0;
    if (!o || r < 0 || json_compact(o, &body) < 0) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    struct http_answer a = {0};
    struct hf_events events = {0};
    struct hf_server_ask ask = {
        .what = run->argv[0],
        .route = "/v1/exec",
        .body = buf_sv(&body),
        .is_json = true,
        .once = !run->may_repeat,
        .answer_max = HF_SERVER_TOLD_MAX,
        .seconds = run->seconds,
        .until = until,
        .cancel = cancel,
    };
    r = hf_server_call(s, &ask, &a, err);
    if (r == 0) {
        r = hf_events_read(buf_sv(&a.body), &events, err);
        http_answer_deinit(&a);
    }
    if (r < 0) {
        hf_events_deinit(&events);
        return r;
    }
    *out = events;
    return 0;
}

/* Over the whole: an answer that was cut counts too. */
int hf_server_exec(struct hf_server *s, const char *const *argv, unsigned attempts,
                   deadline_ms until, const struct cancel *cancel, int *exit_code, struct buf *said,
                   struct err *err) {
    int64_t pause_ms = AGAIN_MS;
    struct hf_server_run run = {.argv = argv, .may_repeat = attempts > 1};
    for (unsigned n = 1;; n++) {
        struct hf_events events = {0};
        int r = hf_server_run(s, &run, until, cancel, &events, err);
        if (r == 0) {
            *exit_code = events.exit_code;
            r = hf_answer_line(buf_sv(&events.err), HF_EVENTS_ERR_MAX, said);
            hf_events_deinit(&events);
            return r < 0 ? err_set(err, r, "out of memory") : 0;
        }
        if (n >= attempts || !hf_server_may_pass(r) || deadline_passed(until) ||
            cancel_thrown(s->end) || cancel_sleep(cancel, deadline_in_ms(pause_ms), err) < 0) {
            return r;
        }
        pause_ms *= 4;
    }
}
