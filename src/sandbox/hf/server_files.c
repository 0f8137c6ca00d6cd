/* SPDX-License-Identifier: BSD-3-Clause */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "sandbox/hf/answer.h"
#include "sandbox/hf/server_call.h"

#define RANGES_AT_ONCE 16       /* As many as the official client sends. */
#define FIRST_RANGE (64u << 10) /* Of several: the others wait for it. */

int hf_server_read(struct hf_server *s, const struct hf_server_part *part, deadline_ms until,
                   const struct cancel *cancel, struct buf *out, struct err *err) {
    const char *path = part->path;
    size_t length = part->length;
    char query[80];
    (void)snprintf(query, sizeof query, "offset=%llu&length=%zu", (unsigned long long)part->offset,
                   length);
    struct http_answer a = {0};
    struct hf_server_ask ask = {
        .what = path,
        .route = "/v1/files/read",
        .path = path,
        .query = query,
        .answer_max = length > 4096 ? length : 4096, /* An error's words. */
        .attempts = part->attempts,
        .until = until,
        .cancel = cancel,
    };
    int r = hf_server_call(s, &ask, &a, err);
    if (r < 0) {
        return r;
    }
    struct sv bytes = buf_sv(&a.body);
    bytes.n = bytes.n < length ? bytes.n : length;
    r = buf_add_sv(out, bytes);
    http_answer_deinit(&a);
    return r < 0 ? err_set(err, r, "no room for what '%s' holds", path) : 0;
}

int hf_server_size(struct hf_server *s, const char *path, deadline_ms until,
                   const struct cancel *cancel, uint64_t *out, struct err *err) {
    struct http_answer a = {0};
    struct hf_server_ask ask = {.what = path,
                                .route = "/v1/files/stat",
                                .path = path,
                                .attempts = HF_SERVER_ATTEMPTS,
                                .until = until,
                                .cancel = cancel};
    int r = hf_server_call(s, &ask, &a, err);
    if (r < 0) {
        return r;
    }
    r = hf_answer_size(buf_sv(&a.body), path, out, err);
    http_answer_deinit(&a);
    return r;
}

int hf_server_delete(struct hf_server *s, const char *path, deadline_ms until, struct err *err) {
    struct http_answer a = {0};
    struct hf_server_ask ask = {.what = path,
                                .method = "DELETE",
                                .route = "/v1/files/delete",
                                .path = path,
                                .query = "recursive=1",
                                .attempts = HF_SERVER_ATTEMPTS,
                                .until = until};
    int r = hf_server_call(s, &ask, &a, err);
    http_answer_deinit(&a);
    return r == ERR_NOT_FOUND ? 0 : r;
}

/* --- writing --- */

struct upload {
    struct hf_server *server;
    const char *path;
    struct sv content;
    unsigned mode;
    deadline_ms until;
    const struct cancel *cancel;
    atomic_size_t next; /* Where the next range begins. */
    pthread_mutex_t lock;
    struct err err; /* The first; code 0: none. Under lock. */
};

/* The first range has no offset: it cuts a longer file that stands there. */
int hf_server_write_range(struct hf_server *s, const struct hf_server_range *range,
                          deadline_ms until, const struct cancel *cancel, struct err *err) {
    char query[64];
    int n = snprintf(query, sizeof query, "mode=%o", range->mode & 07777);
    if (range->at > 0) {
        (void)snprintf(query + n, sizeof query - (size_t)n, "&offset=%zu", range->at);
    }
    struct hf_server_ask ask = {
        .what = range->path,
        .method = "PUT",
        .route = "/v1/files/write",
        .path = range->path,
        .query = query,
        .body = {range->bytes.p ? range->bytes.p : "", range->bytes.n},
        .attempts = HF_SERVER_ATTEMPTS,
        .until = until,
        .cancel = cancel,
    };
    struct http_answer a = {0};
    int r = hf_server_call(s, &ask, &a, err);
    http_answer_deinit(&a);
    return r;
}

static int write_range(struct upload *u, size_t at, size_t max, struct err *err) {
    size_t left = u->content.n - at;
    size_t n = left < max ? left : max;
    struct hf_server_range range = {
        .path = u->path, .at = at, .bytes = {u->content.p + at, n}, .mode = u->mode};
    return hf_server_write_range(u->server, &range, u->until, u->cancel, err);
}

static void *write_ranges(void *arg) {
    struct upload *u = arg;
    for (;;) {
        size_t at = atomic_fetch_add(&u->next, HF_SERVER_RANGE);
        struct err err = {0};
        if (at >= u->content.n) {
            return NULL;
        }
        if (write_range(u, at, HF_SERVER_RANGE, &err) < 0) {
            pthread_mutex_lock(&u->lock);
            u->err = u->err.code ? u->err : err;
            pthread_mutex_unlock(&u->lock);
            atomic_store(&u->next, u->content.n); /* The others need not go on. */
            return NULL;
        }
    }
}

/* What no thread could be had for, this one does. */
static void write_rest(struct upload *u) {
    pthread_t threads[RANGES_AT_ONCE];
    size_t n = 0;
    size_t ranges = (u->content.n - FIRST_RANGE) / HF_SERVER_RANGE;
    while (n < ranges && n < RANGES_AT_ONCE &&
           pthread_create(&threads[n], NULL, write_ranges, u) == 0) {
        n++;
    }
    (void)write_ranges(u);
    for (size_t i = 0; i < n; i++) {
        pthread_join(threads[i], NULL);
    }
}

int hf_server_write(struct hf_server *s, const char *path, struct sv content, unsigned mode,
                    deadline_ms until, const struct cancel *cancel, struct err *err) {
    struct upload u = {
        .server = s,
        .path = path,
        .content = content,
        .mode = mode,
        .until = until,
        .cancel = cancel,
        .lock = PTHREAD_MUTEX_INITIALIZER,
    };
    bool one = content.n <= HF_SERVER_RANGE;
    int r = write_range(&u, 0, one ? HF_SERVER_RANGE : FIRST_RANGE, err);
    if (r < 0 || one) {
        return r;
    }
    atomic_store(&u.next, FIRST_RANGE);
    write_rest(&u);
    pthread_mutex_destroy(&u.lock);
    if (u.err.code < 0 && err) {
        *err = u.err;
    }
    return u.err.code;
}
