/* SPDX-License-Identifier: BSD-3-Clause */
#include "rollout/records.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "net/url.h"

#define LISTEN_DEFAULT "127.0.0.1:7000"

struct rollout_records_impl {
    struct rollout_records_options o;
    char *host; /* Of the listener; NULL: there is none. */
    uint16_t port;
    pthread_mutex_t lock;
};

static int take_name(struct rollout_records *r, const char *run, struct err *err) {
    if (!run) {
        store_new_run_name(r->run);
        return 0;
    }
    int code = store_check_name("run", run, err);
    snprintf(r->run, sizeof r->run, "%s", run);
    return code;
}

/* "ADDRESS:PORT"; an IPv6 address stands in brackets. */
static int read_listen(struct rollout_records_impl *impl, const char *text, struct err *err) {
    const char *colon = strrchr(text, ':');
    unsigned long long port = 0;
    size_t n = colon ? (size_t)(colon - text) : 0;
    bool bracketed = n > 2 && text[0] == '[' && text[n - 1] == ']';
    if (n == 0 || !sv_parse_u64(sv_from(colon + 1), UINT16_MAX, &port)) {
        return err_set(err, ERR_INPUT, "listen: want ADDRESS:PORT, as in '0.0.0.0:7000', got '%s'",
                       text);
    }
    impl->host = bracketed ? mem_strndup(text + 1, n - 2) : mem_strndup(text, n);
    impl->port = (uint16_t)port;
    return impl->host ? 0 : err_set(err, ERR_NOMEM, "out of memory");
}

static int take_addresses(struct rollout_records *r, const struct rollout_records_options *o,
                          struct err *err) {
    struct url url = {0};
    if (!o->public_url) {
        return o->listen ? err_set(err, ERR_INPUT,
                                   "listen: '%s' is of the gateway that sandboxes reach at "
                                   "public_url: give --public-url too",
                                   o->listen)
                         : 0;
    }
    int code = url_parse(sv_from(o->public_url), &url, err);
    if (code == 0 && *url.query) {
        code = err_set(err, ERR_INPUT, "'%s' has a query, and can't be continued", o->public_url);
    }
    url_deinit(&url);
    if (code < 0) {
        return err_wrap(err, "public_url");
    }
    r->public_url = o->public_url;
    return read_listen(r->impl, o->listen ? o->listen : LISTEN_DEFAULT, err);
}

int rollout_records_new(const struct rollout_records_options *o, struct rollout_records **out,
                        struct err *err) {
    struct rollout_records *r = calloc(1, sizeof *r);
    struct rollout_records_impl *impl = calloc(1, sizeof *impl);
    if (!r || !impl) {
        free(r);
        free(impl);
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    impl->o = *o;
    r->keeps_journal = o->keep_raw;
    pthread_mutex_init(&impl->lock, NULL);
    r->impl = impl;
    int code = take_name(r, o->run, err);
    code = code < 0 ? code : take_addresses(r, o, err);
    if (code < 0) {
        rollout_records_free(r);
        return code;
    }
    *out = r;
    return 0;
}

void rollout_records_free(struct rollout_records *r) {
    if (!r) {
        return;
    }
    gateway_stop(r->gateway);
    journal_close(r->journal);
    store_close(r->store);
    free(r->journal_dir);
    pthread_mutex_destroy(&r->impl->lock);
    free(r->impl->host);
    free(r->impl);
    free(r);
}

/* Each step is done once. */
static int open_locked(struct rollout_records *r, struct err *err) {
    const struct rollout_records_options *o = &r->impl->o;
    int code = r->store ? 0 : store_open(o->runs_dir, &r->store, err);
    code = code < 0 ? code : store_make_run(r->store, r->run, err);
    if (code < 0) {
        return code;
    }
    if (!r->journal_dir) {
        r->journal_dir = store_journal_path(r->store, r->run);
    }
    if (!r->journal_dir) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    if (!r->journal) {
        code = journal_open(&(struct journal_options){.dir = r->journal_dir, .durable = o->durable},
                            &r->journal, err);
    }
    code = code < 0 ? code
                    : gateway_start(&(struct gateway_options){.journal = r->journal,
                                                              .host = r->impl->host,
                                                              .port = r->impl->port,
                                                              .clients_max = o->clients_max,
                                                              .keep_raw = o->keep_raw},
                                    &r->gateway, err);
    if (code == 0 && r->impl->host) {
        log_info("sandboxes reach the gateway at %s, which has to lead to %s port %u",
                 r->public_url, r->impl->host, (unsigned)gateway_port(r->gateway));
    }
    return code;
}

int rollout_records_open(struct rollout_records *r, struct err *err) {
    pthread_mutex_lock(&r->impl->lock);
    int code = r->gateway ? 0 : open_locked(r, err);
    pthread_mutex_unlock(&r->impl->lock);
    return code;
}
