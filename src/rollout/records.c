/* SPDX-License-Identifier: BSD-3-Clause */
#include "rollout/records.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

struct rollout_records_impl {
    struct rollout_records_options o;
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
    return code < 0 ? code
                    : gateway_start(&(struct gateway_options){.journal = r->journal,
                                                              .host = o->host,
                                                              .port = o->port,
                                                              .keep_raw = o->keep_raw},
                                    &r->gateway, err);
}

int rollout_records_open(struct rollout_records *r, struct err *err) {
    pthread_mutex_lock(&r->impl->lock);
    int code = r->gateway ? 0 : open_locked(r, err);
    pthread_mutex_unlock(&r->impl->lock);
    return code;
}
