/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_GATEWAY_ENDPOINT_H
#define SNAFFLE_GATEWAY_ENDPOINT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "gateway/known.h"

/*
 * Where a model answers, and sets of such places that serve one model. A place is shared by all
 * sessions that name its URL and say the same of what it is, so that its calls are counted
 * together. Any thread.
 */
struct tls_context;

/* How long a place that refused a connection is left out: doubled with each further refusal. */
#define ENDPOINT_OUT_MS 500
#define ENDPOINT_OUT_MAX_MS 15000
/* Of one set; teams run dozens of engines of a model. */
#define ENDPOINT_SET_MAX 256u

struct endpoint {
    struct endpoint *next;
    unsigned users; /* Sets; under the mutex of the table. */
    char *url;
    enum engine stated; /* What it is, as the sessions say; ENGINE_UNKNOWN: it is told. */
    char *host;
    uint16_t port;
    struct tls_context *tls;
    char *host_field;  /* "example.org:8000" */
    char *chat_target; /* "/v1/chat/completions" */
    char *models_target;
    struct known known;

    atomic_uint calls;    /* Under way. */
    atomic_uint sessions; /* That stick to it. */
    atomic_uint refusals; /* In a row. */
    _Atomic int64_t out_until_ms;
};

struct endpoint_set {
    atomic_uint users;
    struct endpoints *table;
    unsigned n;
    struct endpoint *list[];
};

/* The table of all. */
struct endpoints {
    pthread_mutex_t mutex;
    struct endpoint *first;
    enum engine engine;      /* What those are of which nobody says more; ENGINE_UNKNOWN: told. */
    struct tls_context *tls; /* Made when first needed. */
};

void endpoints_init(struct endpoints *t);
void endpoints_deinit(struct endpoints *t); /* When no set is left. */

/* `urls`: NULL-ended, at least one. Equal ones count once. `stated`: what they are, or
 * ENGINE_UNKNOWN. */
int endpoint_set_new(struct endpoints *t, const char *const *urls, enum engine stated,
                     struct endpoint_set **out, struct err *err) CHECK_RESULT;
struct endpoint_set *endpoint_set_ref(struct endpoint_set *s);
void endpoint_set_unref(struct endpoint_set *s); /* Accepts NULL. */
bool endpoint_set_has(const struct endpoint_set *s, const struct endpoint *e);

/* The least busy that is not left out; when all are, the one that is due first. One that was left
 * out and is due is given to one caller, and left out for all others until it has answered. */
struct endpoint *endpoint_set_pick(struct endpoint_set *s);

bool endpoint_is_out(const struct endpoint *e);
void endpoint_note(struct endpoint *e, bool connected);

/* Appends the URLs as a JSON array. */
int endpoint_set_put(const struct endpoint_set *s, struct buf *out) CHECK_RESULT;

#endif
