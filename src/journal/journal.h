/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_JOURNAL_JOURNAL_H
#define SNAFFLE_JOURNAL_JOURNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/sv.h"

/*
 * The journal: append-only files in which the gateway writes down each call before the agent sees
 * its end. One journal a process; one writer thread; appends from any thread, also many at once:
 * the lock they share is held for a few instructions, never over I/O or checksums. Records of one
 * thread keep their order. Files: DIR/<boot>/NNNNNN.log, boot = host, pid and start time, the
 * folder held by flock while its writer lives. Format: docs/internals/journal.md.
 */

enum journal_type {
    JOURNAL_SESSION_OPEN = 1,   /* head: token_sha256, upstream, key_name, model, mode, level */
    JOURNAL_SESSION_CHANGE = 2, /* head: what changed */
    JOURNAL_INTENT = 3,         /* a call is about to go out; parts: agent_body [, splices] */
    JOURNAL_RESULT = 4,         /* its whole answer; parts as below */
    JOURNAL_TAIL = 5,           /* completes a result whose head says tail_open */
    JOURNAL_SESSION_CLOSE = 6,
    JOURNAL_TRACED = 7, /* The disk has the session's whole trace: its records may go. */
};

/*
 * A part is a named run of raw bytes. The parts of a result are complete JSON values, spelled as
 * the engine spelled them, and become the fields of the same name in trace.jsonl: "response",
 * "logprobs", "completion_tokens", "completion_token_ids", "per_token_logps", "prompt_token_ids",
 * "usage". An intent's "agent_body" is what the agent sent, "splices" what was changed in it
 * on the way to the engine (journal/splices.h); older ones have all of that in "sent_body". The
 * trace's "request" is what went out.
 */
struct journal_part {
    struct sv name; /* At most 63 bytes. */
    struct sv bytes;
};

#define JOURNAL_PARTS_MAX                                                                          \
    16 /* A result has seven; room for kept raw answers and later dialects.                        \
        */

struct journal_record {
    enum journal_type type;
    unsigned n_parts;
    struct sv session; /* "<rollout>.<attempt>" */
    uint64_t call;     /* From 1 within the session; 0 for records of the session itself. */
    double time;       /* Seconds since 1970; 0: now. */
    struct sv head;    /* A JSON object; its fields are in docs/internals/journal.md. */
    struct journal_part parts[JOURNAL_PARTS_MAX];
};

struct journal;

struct journal_options {
    const char *dir;        /* runs/<run>/journal; made if missing. */
    bool durable;           /* A record counts after fdatasync (by groups), else after write. */
    uint64_t segment_bytes; /* 0: 256 MiB. */
};

int journal_open(const struct journal_options *o, struct journal **out,
                 struct err *err) CHECK_RESULT;

/* Called on the writer thread once the record counts (code 0) or could not be written (ERR_FULL,
 * ERR_SYS). Must not block. */
typedef void (*journal_done_fn)(void *arg, int code);

/* Copies the record and queues it. `done` may be NULL. Over
 * 256 MiB of copies is ERR_LIMIT. After a failed write appends are refused with its code (ERR_FULL,
 * ERR_SYS), but for one a second that is tried: once it can be written all is well again. */
int journal_append(struct journal *j, const struct journal_record *r, journal_done_fn done,
                   void *arg, struct err *err) CHECK_RESULT;

/* The same, but the parts' bytes are not copied: they must stay as they are until `done` is called.
 */
int journal_append_kept(struct journal *j, const struct journal_record *r, journal_done_fn done,
                        void *arg, struct err *err) CHECK_RESULT;

/* As journal_append_kept; but where nothing else is to be written the caller writes the record
 * itself, without waking a thread: 1, it counts, and `done` is not called (0: it will be). That
 * takes as long as the disk lets it; once it was slow, records are queued for some seconds. A
 * durable journal always queues.
 */
int journal_append_at_once(struct journal *j, const struct journal_record *r, journal_done_fn done,
                           void *arg, struct err *err) CHECK_RESULT;

/* The same, and waits until it counts. Not for event loops. */
int journal_append_wait(struct journal *j, const struct journal_record *r,
                        struct err *err) CHECK_RESULT;

/* Waits until all that is queued counts. */
int journal_flush(struct journal *j, struct err *err) CHECK_RESULT;
void journal_close(struct journal *j); /* Flushes. Accepts NULL. */

/*
 * Reading: every segment of every boot under DIR, also while it grows. Whole records only; a torn
 * or damaged end of a segment, and a record with a damaged body, are counted. The record's views
 * are valid until the next call. What was written behind a damaged place is read. A segment of
 * another major version is ERR_UNSUPPORTED.
 */
struct journal_reader;

int journal_reader_open(const char *dir, struct journal_reader **out, struct err *err) CHECK_RESULT;
/* 1: a record; 0: the end (a later call may find more). Record types it does not know are skipped.
 */
int journal_reader_next(struct journal_reader *r, struct journal_record *out,
                        struct err *err) CHECK_RESULT;
unsigned journal_reader_torn(const struct journal_reader *r);
/* Where: "vm1-4711-99/000001.log at byte 4096, ...", as far as it fits; "" for nowhere. */
void journal_reader_put_torn(const struct journal_reader *r, char *out, size_t size);

/* From now on only records of this session are given; the bodies of others are not read. */
int journal_reader_only(struct journal_reader *r, struct sv session, struct err *err) CHECK_RESULT;

/* Records from before this time are passed over: they are of another session of the same name. */
void journal_reader_since(struct journal_reader *r, double time);

/* Where the record stands that was given last, and that record again. */
struct journal_place {
    unsigned segment;
    uint64_t offset;
};
struct journal_place journal_reader_place(const struct journal_reader *r);
int journal_reader_at(struct journal_reader *r, struct journal_place place,
                      struct journal_record *out, struct err *err) CHECK_RESULT;

/* 1: gives a reader of the records of this session that `j` itself wrote and that count by now: it
 * costs these alone, however much the journal holds. 0: their places are not known (there was no
 * memory); read the folder. Places are kept until journal_forget. */
int journal_reader_own(struct journal *j, struct sv session, struct journal_reader **out,
                       struct err *err) CHECK_RESULT;
void journal_forget(struct journal *j, struct sv session); /* None is success. */

/* The same, when the disk has the session's whole trace: a segment goes once that is true of each
 * session in it. What is still written to goes at journal_close. Waits for the journal. */
int journal_release(struct journal *j, struct sv session, struct err *err) CHECK_RESULT;

void journal_reader_close(struct journal_reader *r); /* Accepts NULL. */

#endif
