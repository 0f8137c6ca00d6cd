/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_JOURNAL_TRACE_INDEX_H
#define SNAFFLE_JOURNAL_TRACE_INDEX_H

#include "journal/journal.h"

/* Where a session's calls stand in the journal. Requests repeat the conversation so far, so that
 * all of them at once would cost the square of its length: they are read again one by one. */

struct trace_entry {
    uint64_t call;
    struct journal_place intent;
    struct journal_place result;
    struct journal_place tail;
    bool has_intent;
    bool has_result;
    bool has_tail;
    size_t head; /* In `heads`: what was in force at the call. */
};

struct trace_index {
    struct trace_entry *entries; /* By call. */
    size_t n;
    size_t cap;
    char **heads; /* The session's opening and each change after it: JSON objects. */
    size_t n_heads;
};

/* Reads all that there is. The reader is set to the session. */
int trace_index_read(struct journal_reader *r, struct trace_index *out,
                     struct err *err) CHECK_RESULT;

/* One record more, and a call that is done with: for who follows a journal that grows. */
int trace_index_add(struct trace_index *x, const struct journal_record *record,
                    struct journal_place place) CHECK_RESULT;
void trace_index_remove(struct trace_index *x, size_t entry);
void trace_index_deinit(struct trace_index *x);

/* A field of the session as it was at the entry's call; empty: never said. */
struct sv trace_index_session(const struct trace_index *x, const struct trace_entry *e,
                              const char *field);

#endif
