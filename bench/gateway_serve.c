/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The gateway's bench: a gateway with one recorded session, in a process of its own, and the count
 * of what it recorded.
 *
 *     gateway_serve JOURNAL_DIR UPSTREAM_URL [--durable]     prints port and token
 *     gateway_serve --count JOURNAL_DIR                      prints what each of its files holds
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "gateway/gateway.h"

#define CONNECTIONS_MAX 20000     /* More than any descriptor limit that the bench meets. */
#define SEGMENT_BYTES (64u << 20) /* Small, so that what was counted can go soon. */

static int serve(const char *dir, const char *url, bool durable) {
    struct journal *j;
    struct gateway *g;
    struct gateway_session *s;
    struct err e = {0};
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    const struct journal_options jo = {
        .dir = dir, .durable = durable, .segment_bytes = SEGMENT_BYTES};
    const struct gateway_options go = {.host = "127.0.0.1", .connections_max = CONNECTIONS_MAX};
    const struct gateway_session_options so = {.name = "bench.1",
                                               .upstream_url = url,
                                               .api_key = "sk-bench-0123456789abcdef",
                                               .key_name = "BENCH_KEY",
                                               .edits = true,
                                               .record = true,
                                               .top_logprobs = 5};
    struct gateway_options with_journal = go;
    int rc = journal_open(&jo, &j, &e);
    with_journal.journal = rc < 0 ? NULL : j;
    rc = rc < 0 ? rc : gateway_start(&with_journal, &g, &e);
    rc = rc < 0 ? rc : gateway_session_open(g, &so, &s, &e);
    if (rc < 0) {
        fprintf(stderr, "gateway_serve: %s\n", e.msg);
        return 1;
    }
    printf("%u %s\n", gateway_port(g), gateway_session_token(s));
    fflush(stdout);
    while (getchar() != EOF) { /* Until the bench lets go. */
    }
    gateway_stop(g);
    journal_close(j);
    return 0;
}

/* {"segments": {"0": [intents, results], ...}}: by their places in the sorted list of files. */
static int count(const char *dir) {
    struct journal_reader *r;
    struct journal_record record;
    struct err e = {0};
    bool any = false;
    unsigned segment = 0;
    unsigned long intents = 0;
    unsigned long results = 0;
    int rc = journal_reader_open(dir, &r, &e);
    const char *between = "";
    printf("{\"segments\":{");
    while (rc >= 0 && (rc = journal_reader_next(r, &record, &e)) == 1) {
        unsigned now = journal_reader_place(r).segment;
        if (any && now != segment) {
            printf("%s\"%u\":[%lu,%lu]", between, segment, intents, results);
            between = ",";
            intents = results = 0;
        }
        any = true;
        segment = now;
        intents += record.type == JOURNAL_INTENT;
        results += record.type == JOURNAL_RESULT;
    }
    if (rc < 0) {
        fprintf(stderr, "gateway_serve: %s\n", e.msg);
        return 1;
    }
    printf("%s\"%u\":[%lu,%lu]},\"torn\":%u}\n", between, segment, intents, results,
           journal_reader_torn(r));
    journal_reader_close(r);
    return 0;
}

int main(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[1], "--count") == 0) {
        return count(argv[2]);
    }
    if (argc < 3) {
        fprintf(stderr, "usage: gateway_serve DIR URL [--durable] | --count DIR\n");
        return 2;
    }
    return serve(argv[1], argv[2], argc > 3 && strcmp(argv[3], "--durable") == 0);
}
