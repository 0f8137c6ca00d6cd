/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/http_client.h"

#include <curl/curl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "net/url.h"

#define DEFAULT_TIMEOUT_S 30
/* A head over this is no control answer. */
#define HEAD_MAX (64u * 1024)
#define KEPT_IDLE_S 5L
/* What a long body is sent in, a piece a turn of the loop; libcurl's own are 64 KB. */
#define UPLOAD_PIECE (256L * 1024)
#define KEPT_MAX 64 /* Handles of a pool: as many calls at once as one server is worth. */

/* What a call goes through; its connections live in the multi handle. */
struct handle {
    CURL *easy;
    CURLM *multi;
};

struct http_pool {
    pthread_mutex_t lock;
    struct handle idle[KEPT_MAX];
    size_t n_idle;
};

struct transfer {
    const struct http_call *call;
    struct http_answer *answer;
    struct handle h;
    struct curl_slist *headers;
    char detail[CURL_ERROR_SIZE];
};

void http_answer_deinit(struct http_answer *a) {
    buf_deinit(&a->body);
    buf_deinit(&a->head);
    a->status = 0;
}

static void init_once(void) {
    (void)curl_global_init(CURL_GLOBAL_DEFAULT);
}

static size_t on_body(char *p, size_t size, size_t n, void *arg) {
    struct transfer *t = arg;
    if (buf_add(&t->answer->body, p, size * n) < 0) {
        return 0;
    }
    return size * n;
}

static size_t on_head(char *p, size_t size, size_t n, void *arg) {
    struct transfer *t = arg;
    struct sv line = {p, size * n};
    if (sv_starts_with(line, SV("HTTP/"))) { /* A head before it was interim. */
        buf_reset(&t->answer->head);
    }
    if (buf_add_sv(&t->answer->head, line) < 0) {
        return 0;
    }
    return line.n;
}

static bool is_loopback(const char *host) {
    return strcmp(host, "localhost") == 0 || strncmp(host, "127.", 4) == 0 ||
           strcmp(host, "::1") == 0;
}

static int add_headers(struct transfer *t) {
    for (const char *const *h = t->call->headers; h && *h; h++) {
        if (strpbrk(*h, "\r\n")) {
            return ERR_INPUT;
        }
        struct curl_slist *grown = curl_slist_append(t->headers, *h);
        if (!grown) {
            return ERR_NOMEM;
        }
        t->headers = grown;
    }
    /* curl would wait a second for a 100 that many servers never send. */
    struct curl_slist *grown = curl_slist_append(t->headers, "Expect:");
    if (!grown) {
        return ERR_NOMEM;
    }
    t->headers = grown;
    return 0;
}

static CURLcode set_method(struct transfer *t) {
    const struct http_call *call = t->call;
    CURLcode r = CURLE_OK;
    if (call->body.p) {
        r = curl_easy_setopt(t->h.easy, CURLOPT_POST, 1L);
        r = r ? r : curl_easy_setopt(t->h.easy, CURLOPT_POSTFIELDS, call->body.p);
        r = r ? r
              : curl_easy_setopt(t->h.easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)call->body.n);
        r = r || call->body.n < (size_t)UPLOAD_PIECE
                ? r
                : curl_easy_setopt(t->h.easy, CURLOPT_UPLOAD_BUFFERSIZE, UPLOAD_PIECE);
    }
    if (!r && call->method && strcmp(call->method, "HEAD") == 0) {
        return curl_easy_setopt(t->h.easy, CURLOPT_NOBODY, 1L);
    }
    return !r && call->method ? curl_easy_setopt(t->h.easy, CURLOPT_CUSTOMREQUEST, call->method)
                              : r;
}

static CURLcode set_options(struct transfer *t, const char *host) {
    const struct http_call *call = t->call;
    CURL *e = t->h.easy;
    const char *ca = env_get("SSL_CERT_FILE"); /* The library, unlike the tool, does not look. */
    CURLcode r = curl_easy_setopt(e, CURLOPT_URL, call->url);
    r = r ? r : curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
    r = r ? r : curl_easy_setopt(e, CURLOPT_MAXAGE_CONN, KEPT_IDLE_S);
    r = r ? r : curl_easy_setopt(e, CURLOPT_FRESH_CONNECT, call->once ? 1L : 0L);
    r = r ? r : curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https");
    r = r ? r : curl_easy_setopt(e, CURLOPT_ERRORBUFFER, t->detail);
    r = r ? r : curl_easy_setopt(e, CURLOPT_USERAGENT, "snaffle/" SNAFFLE_VERSION);
    r = r ? r : curl_easy_setopt(e, CURLOPT_HTTPHEADER, t->headers);
    r = r ? r : curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, on_body);
    r = r ? r : curl_easy_setopt(e, CURLOPT_WRITEDATA, t);
    r = r ? r : curl_easy_setopt(e, CURLOPT_HEADERFUNCTION, on_head);
    r = r ? r : curl_easy_setopt(e, CURLOPT_HEADERDATA, t);
    if (!r && ca) {
        r = curl_easy_setopt(e, CURLOPT_CAINFO, ca);
    }
    if (!r && call->unix_socket) {
        r = curl_easy_setopt(e, CURLOPT_UNIX_SOCKET_PATH, call->unix_socket);
    }
    if (!r && (call->direct || call->unix_socket || is_loopback(host))) {
        r = curl_easy_setopt(e, CURLOPT_PROXY, "");
    }
    return r ? r : set_method(t);
}

static int failure(const struct transfer *t, CURLcode code, const char *host, struct err *err) {
    const char *detail = t->detail[0] ? t->detail : curl_easy_strerror(code);
    switch ((int)code) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_CONNECT:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
        return err_set(err, ERR_CONNECT, "cannot connect to '%s': %s", host, detail);
    case CURLE_WRITE_ERROR:
        return err_set(err, ERR_LIMIT, "the answer of '%s' is too long", host);
    case CURLE_OUT_OF_MEMORY:
        return err_set(err, ERR_NOMEM, "no memory for a call to '%s'", host);
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
    case CURLE_GOT_NOTHING:
    case CURLE_PARTIAL_FILE:
        return err_set(err, ERR_CLOSED, "the call to '%s' was cut off: %s", host, detail);
    default:
        return err_set(err, ERR_PROTOCOL, "the call to '%s' failed: %s", host, detail);
    }
}

static int wait_more(struct transfer *t, deadline_ms until, const char *host, struct err *err) {
    struct curl_waitfd cancel = {.fd = cancel_fd(t->call->cancel), .events = CURL_WAIT_POLLIN};
    if (cancel_thrown(t->call->cancel)) {
        return err_set(err, ERR_CANCELLED, "the call to '%s' was cancelled", host);
    }
    if (deadline_passed(until)) {
        return err_set(err, ERR_TIMEOUT, "no answer from '%s' in time", host);
    }
    CURLMcode r =
        curl_multi_poll(t->h.multi, &cancel, cancel.fd >= 0 ? 1 : 0,
                        deadline_poll_ms(until) < 0 ? 1000 : deadline_poll_ms(until), NULL);
    return r == CURLM_OK ? 0 : err_set(err, ERR_INTERNAL, "%s", curl_multi_strerror(r));
}

static int perform(struct transfer *t, const char *host, struct err *err) {
    deadline_ms until = t->call->deadline ? t->call->deadline : deadline_in_s(DEFAULT_TIMEOUT_S);
    int running = 1;
    for (;;) {
        CURLMcode m = curl_multi_perform(t->h.multi, &running);
        if (m != CURLM_OK) {
            return err_set(err, ERR_INTERNAL, "%s", curl_multi_strerror(m));
        }
        if (running == 0) {
            break;
        }
        int r = wait_more(t, until, host, err);
        if (r < 0) {
            return r;
        }
    }
    int left = 0;
    const CURLMsg *msg = curl_multi_info_read(t->h.multi, &left);
    CURLcode code = msg ? msg->data.result : CURLE_GOT_NOTHING;
    if (code != CURLE_OK) {
        return failure(t, code, host, err);
    }
    long status = 0;
    curl_easy_getinfo(t->h.easy, CURLINFO_RESPONSE_CODE, &status);
    t->answer->status = (int)status;
    return 0;
}

/* --- kept connections --- */

int http_pool_new(struct http_pool **out, struct err *err) {
    struct http_pool *p = calloc(1, sizeof *p);
    if (!p) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    pthread_mutex_init(&p->lock, NULL);
    *out = p;
    return 0;
}

static void handle_free(const struct handle *h) {
    curl_easy_cleanup(h->easy);
    curl_multi_cleanup(h->multi);
}

void http_pool_free(struct http_pool *p) {
    if (!p) {
        return;
    }
    for (size_t i = 0; i < p->n_idle; i++) {
        handle_free(&p->idle[i]);
    }
    pthread_mutex_destroy(&p->lock);
    free(p);
}

/* The one used last is the likeliest to have a living connection. */
static void handle_take(struct http_pool *p, struct handle *out) {
    *out = (struct handle){0};
    if (p) {
        pthread_mutex_lock(&p->lock);
        if (p->n_idle > 0) {
            *out = p->idle[--p->n_idle];
        }
        pthread_mutex_unlock(&p->lock);
    }
    if (!out->easy) {
        *out = (struct handle){curl_easy_init(), curl_multi_init()};
    }
}

/* Takes it. A call that failed may have left a connection in its middle. */
static void handle_give(struct http_pool *p, struct handle *h, bool good) {
    bool kept = false;
    if (p && good) {
        curl_easy_reset(h->easy);
        pthread_mutex_lock(&p->lock);
        kept = p->n_idle < KEPT_MAX;
        if (kept) {
            p->idle[p->n_idle++] = *h;
        }
        pthread_mutex_unlock(&p->lock);
    }
    if (!kept) {
        handle_free(h);
    }
}

static int run(struct transfer *t, const char *host, struct err *err) {
    handle_take(t->call->pool, &t->h);
    if (!t->h.easy || !t->h.multi) {
        return err_set(err, ERR_NOMEM, "no memory for a call to '%s'", host);
    }
    int r = add_headers(t);
    if (r < 0) {
        return err_set(err, r, "a header of a call to '%s' can't be sent", host);
    }
    CURLcode code = set_options(t, host);
    if (code != CURLE_OK || curl_multi_add_handle(t->h.multi, t->h.easy) != CURLM_OK) {
        return err_set(err, ERR_INTERNAL, "cannot set up a call to '%s': %s", host,
                       curl_easy_strerror(code));
    }
    r = perform(t, host, err);
    curl_multi_remove_handle(t->h.multi, t->h.easy);
    return r;
}

int http_call(const struct http_call *call, struct http_answer *out, struct err *err) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct url u = {0};
    int r = url_parse(sv_from(call->url), &u, err);
    if (r < 0) {
        return r;
    }
    pthread_once(&once, init_once);
    struct http_answer answer = {
        .body.limit = call->answer_max ? call->answer_max : HTTP_ANSWER_MAX,
        .head.limit = HEAD_MAX,
    };
    struct transfer t = {.call = call, .answer = &answer};
    r = run(&t, u.host, err);
    handle_give(call->pool, &t.h, r == 0);
    curl_slist_free_all(t.headers);
    url_deinit(&u);
    if (r < 0) {
        http_answer_deinit(&answer);
        return r;
    }
    *out = answer;
    return 0;
}

#define OWN_HEADERS 2
#define HEADERS_MAX 64 /* More than any API asks for. */

int http_call_json(const struct http_call *call, struct http_answer *out, struct err *err) {
    const char *headers[HEADERS_MAX + OWN_HEADERS + 1] = {"Accept: application/json"};
    size_t n = 1;
    if (call->body.p) {
        headers[n++] = "Content-Type: application/json";
    }
    for (const char *const *h = call->headers; h && *h; h++) {
        if (n == HEADERS_MAX + OWN_HEADERS) {
            return err_set(err, ERR_LIMIT, "more than %d headers in a call", HEADERS_MAX);
        }
        headers[n++] = *h;
    }
    struct http_call with = *call;
    with.headers = headers;
    return http_call(&with, out, err);
}
