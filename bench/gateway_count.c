/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The gateway's bench: what the files of a journal hold.
 *
 *     gateway_count JOURNAL_DIR
 */
#include <stdio.h>

#include "journal/journal.h"

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
        fprintf(stderr, "gateway_count: %s\n", e.msg);
        return 1;
    }
    printf("%s\"%u\":[%lu,%lu]},\"torn\":%u}\n", between, segment, intents, results,
           journal_reader_torn(r));
    journal_reader_close(r);
    return 0;
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: gateway_count DIR\n");
        return 2;
    }
    return count(argv[1]);
}
