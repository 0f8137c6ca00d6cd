/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_ROLLOUT_RECORDS_H
#define SNAFFLE_ROLLOUT_RECORDS_H

#include "base/err.h"
#include "gateway/gateway.h"
#include "journal/journal.h"
#include "store/store.h"

/*
 * What a run is written by: its folder in the store, its journal and the gateway that fills it. A
 * factory has its own, unless it is given one that several factories share. Any thread.
 */
struct rollout_records {
    char run[STORE_NAME_MAX + 1];
    bool keeps_journal; /* Raw answers stand there alone. */
    /* Where sandboxes elsewhere reach the gateway; NULL: nowhere. As the options have it. */
    const char *public_url;
    /* NULL before rollout_records_open; then as long as the records. */
    struct store *store;
    char *journal_dir;
    struct journal *journal;
    struct gateway *gateway;
    struct rollout_records_impl *impl; /* Private. */
};

struct rollout_records_options {
    const char *runs_dir; /* Kept. NULL: "./runs". */
    const char *run;      /* NULL: made from the time and chance. */
    bool keep_raw;
    bool durable;
    /* Kept. What leads from elsewhere to the gateway's listener; NULL: it has none, but sockets. */
    const char *public_url;
    const char *listen;   /* Where it listens then: ADDRESS:PORT; NULL: 127.0.0.1:7000. */
    unsigned clients_max; /* Connections there; 0: as gateway.h has it. */
};

/* Checks name and addresses, and opens nothing. */
int rollout_records_new(const struct rollout_records_options *o, struct rollout_records **out,
                        struct err *err) CHECK_RESULT;
/* Opens what is not open yet; what failed is tried again by the next call. */
int rollout_records_open(struct rollout_records *r, struct err *err) CHECK_RESULT;
/* Every factory on it was freed. Accepts NULL. */
void rollout_records_free(struct rollout_records *r);

#endif
