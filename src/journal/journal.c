/* SPDX-License-Identifier: BSD-3-Clause */
#include "journal/journal.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"
#include "journal/boot.h"
#include "journal/format.h"
#include "journal/places.h"
#include "journal/reader.h"
#include "journal/segment.h"

#define SEGMENT_BYTES (256u << 20)   /* Goes as a whole once its sessions have their traces. */
#define QUEUE_BYTES_MAX (256u << 20) /* A disk that is this far behind will not catch up. */
#define BATCH_MAX 256                /* Records of one write. */
#define BATCH_SPANS_MAX 1024         /* Runs of memory of one write; the kernel takes no more. */
#define RETRY_MS 1000                /* After a failure, one append in this time is tried. */
#define SLOW_MS 5                    /* A write into the page cache takes a tenth of one. */
#define SLOW_TIMES 100          /* After a slow one the thread has all writes so many times as */
#define SLOW_PAUSE_MAX_MS 60000 /* long: who writes at once waits for one part in a hundred. */

/* A record in the queue, without its checksums. */
struct item {
    struct item *next;
    journal_done_fn done;
    void *arg;
    size_t n;
    size_t own; /* Of n: bytes that are the queue's, and not kept by who appended them. */
    size_t session_bytes;
    unsigned n_spans;
    struct iovec spans[]; /* And then the bytes that are its own. */
};

struct journal {
    struct boot boot;
    struct segment segment; /* Of who made `is_writing` true. */
    pthread_t thread;
    pthread_mutex_t lock; /* Guards all below. */
    pthread_cond_t wake;  /* The queue is no longer empty, or closing. */
    pthread_cond_t ended; /* `finished` has grown. */
    struct item *first;
    struct item **last;
    size_t queued_bytes; /* The queue's own, with the batch being written. */
    uint64_t appended;   /* Records ever queued, and those of them whose fate is known. */
    uint64_t finished;
    uint64_t failures;
    struct err failure; /* Of the last write; code 0: it worked. */
    int64_t retry_at;
    struct places places;
    unsigned segments;    /* Begun so far. */
    int64_t thread_until; /* Till then nobody else writes: the disk was slow. */
    bool is_writing;
    bool closing;
};

struct batch {
    struct item *items[BATCH_MAX];
    unsigned n;
    unsigned n_spans;
    bool begins_segment;
};

/* Takes records that go into one segment with one write. Called with the lock held. */
static void take_batch(struct journal *j, struct batch *b) {
    uint64_t bytes = 0;
    *b = (struct batch){.begins_segment = !segment_fits(&j->segment, j->first->n)};
    while (j->first && b->n < BATCH_MAX && b->n_spans + j->first->n_spans <= BATCH_SPANS_MAX) {
        bool alone = b->begins_segment && b->n == 0; /* Larger than a segment: one of its own. */
        if (!alone && !(b->begins_segment ? bytes + j->first->n <= j->segment.bytes_max
                                          : segment_fits(&j->segment, bytes + j->first->n))) {
            break;
        }
        bytes += j->first->n;
        b->n_spans += j->first->n_spans;
        b->items[b->n++] = j->first;
        j->first = j->first->next;
    }
    if (!j->first) {
        j->last = &j->first;
    }
}

/* Writes a batch; returns how many of its records count. *first: where the first of them stands. */
static unsigned write_batch(struct journal *j, const struct batch *b, struct journal_place *first,
                            struct err *err) {
    struct iovec spans[BATCH_SPANS_MAX];
    uint64_t ends[BATCH_MAX];
    uint64_t end = 0;
    unsigned n_spans = 0;
    unsigned whole = 0;
    for (unsigned i = 0; i < b->n; i++) {
        const struct item *item = b->items[i];
        format_seal(item->spans, item->n_spans);
        memcpy(spans + n_spans, item->spans, item->n_spans * sizeof *spans);
        n_spans += item->n_spans;
        ends[i] = end += item->n;
    }
    const struct segment_batch to_write = {spans, n_spans, ends, b->n};
    int r = b->begins_segment ? segment_begin(&j->segment, err) : 0;
    *first = (struct journal_place){j->segment.number, j->segment.bytes};
    if (r == 0) {
        r = segment_write(&j->segment, &to_write, &whole, err);
    }
    err->code = r;
    return whole;
}

/* Notes where the records that count stand. Called with the lock held. */
static void note_places(struct journal *j, const struct batch *b, unsigned whole,
                        struct journal_place place) {
    j->segments = place.segment;
    for (unsigned i = 0; i < whole; i++) {
        const struct item *item = b->items[i];
        const char *bytes = item->spans[0].iov_base;
        struct sv session = {bytes + FORMAT_HEAD_BYTES, item->session_bytes};
        places_add(&j->places, session, place);
        place.offset += item->n;
    }
}

/* Tells each record's owner, and then the waiters. */
static void finish_batch(struct journal *j, const struct batch *b, unsigned whole,
                         struct journal_place first, const struct err *err) {
    size_t bytes = 0;
    BUG_IF(whole > b->n);
    /* Before the calls of `done`, so that who learns of a failure there is refused after it. */
    pthread_mutex_lock(&j->lock);
    j->failure = *err;
    note_places(j, b, whole, first);
    if (err->code < 0) {
        j->failures += b->n - whole;
        j->retry_at = clock_ms() + RETRY_MS;
    }
    pthread_mutex_unlock(&j->lock);
    for (unsigned i = 0; i < b->n; i++) {
        struct item *item = b->items[i];
        if (item->done) {
            item->done(item->arg, i < whole ? 0 : err->code);
        }
        bytes += item->own;
        free(item);
    }
    pthread_mutex_lock(&j->lock);
    j->queued_bytes -= bytes;
    j->finished += b->n;
    j->is_writing = false;
    if (j->first || j->closing) {
        pthread_cond_signal(&j->wake);
    }
    pthread_cond_broadcast(&j->ended);
    pthread_mutex_unlock(&j->lock);
}

static void *writer_main(void *arg) {
    struct journal *j = arg;
    for (;;) {
        struct batch batch;
        pthread_mutex_lock(&j->lock);
        while (j->is_writing || (!j->first && !j->closing)) {
            pthread_cond_wait(&j->wake, &j->lock);
        }
        if (!j->first) {
            pthread_mutex_unlock(&j->lock);
            return NULL;
        }
        take_batch(j, &batch);
        j->is_writing = true;
        pthread_mutex_unlock(&j->lock);
        struct err err = {0};
        struct journal_place first;
        unsigned whole = write_batch(j, &batch, &first, &err);
        finish_batch(j, &batch, whole, first, &err);
    }
}

static void release(struct journal *j) {
    segment_end(&j->segment);
    boot_deinit(&j->boot);
    places_deinit(&j->places);
    pthread_mutex_destroy(&j->lock);
    pthread_cond_destroy(&j->wake);
    pthread_cond_destroy(&j->ended);
    free(j);
}

int journal_open(const struct journal_options *o, struct journal **out, struct err *err) {
    struct journal *j = calloc(1, sizeof *j);
    if (!j) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    pthread_mutex_init(&j->lock, NULL);
    pthread_cond_init(&j->wake, NULL);
    pthread_cond_init(&j->ended, NULL);
    j->last = &j->first;
    j->boot.fd = -1;
    j->segment = (struct segment){.boot = &j->boot,
                                  .durable = o->durable,
                                  .bytes_max = o->segment_bytes ? o->segment_bytes : SEGMENT_BYTES,
                                  .fd = -1};
    int r = boot_make(o->dir, &j->boot, err);
    r = r < 0 ? r : segment_begin(&j->segment, err);
    if (r == 0) {
        int e = thread_start(&j->thread, 0, writer_main, j);
        r = e == 0 ? 0 : err_sys(err, ERR_SYS, e, "cannot start the journal's thread");
    }
    if (r < 0) {
        release(j);
        return r;
    }
    *out = j;
    return 0;
}

static struct item *lay_out(const struct journal_record *r, bool keeps, struct err *err) {
    size_t n = 0;
    if (format_measure(r, &n, err) < 0) {
        return NULL;
    }
    unsigned spans_max = keeps ? 1 + 2 * r->n_parts : 1;
    size_t own = keeps ? format_frame_bytes(r) : n;
    struct item *item = malloc(sizeof *item + spans_max * sizeof item->spans[0] + own);
    if (!item) {
        err_set(err, ERR_NOMEM, "no memory for a journal record of %zu bytes", n);
        return NULL;
    }
    struct journal_record timed = *r;
    timed.time = r->time != 0 ? r->time : clock_unix();
    *item = (struct item){.n = n, .own = own, .session_bytes = r->session.n};
    item->n_spans = format_lay(&timed, keeps, (char *)&item->spans[spans_max], item->spans);
    return item;
}

/* Whether one more record may be queued, that takes so much of the queue's memory. What its owner
 * keeps takes none: a refusal would free nothing, and end a call. Called with the lock held. */
static int admit(struct journal *j, size_t n, struct err *err) {
    if (j->failure.code < 0) {
        int64_t now = clock_ms();
        if (now < j->retry_at) {
            return err_set(err, j->failure.code, "%s", j->failure.msg);
        }
        j->retry_at = now + RETRY_MS;
    }
    if (j->queued_bytes > 0 && j->queued_bytes + n > QUEUE_BYTES_MAX) {
        return err_set(err, ERR_LIMIT, "the journal's disk is too slow: over %u MiB are waiting",
                       QUEUE_BYTES_MAX >> 20);
    }
    return 0;
}

/* Called with the lock held. */
static void enqueue(struct journal *j, struct item *item) {
    *j->last = item;
    j->last = &item->next;
    j->queued_bytes += item->own;
    j->appended++;
}

static int append(struct journal *j, const struct journal_record *r, bool keeps,
                  journal_done_fn done, void *arg, struct err *err) {
    struct err own = {0};
    struct item *item = lay_out(r, keeps, &own);
    if (!item) {
        return err_set(err, own.code, "%s", own.msg);
    }
    item->done = done;
    item->arg = arg;
    pthread_mutex_lock(&j->lock);
    int code = admit(j, item->own, err);
    if (code == 0) {
        enqueue(j, item);
        pthread_cond_signal(&j->wake);
    }
    pthread_mutex_unlock(&j->lock);
    if (code < 0) {
        free(item);
    }
    return code;
}

int journal_append(struct journal *j, const struct journal_record *r, journal_done_fn done,
                   void *arg, struct err *err) {
    return append(j, r, /* keeps= */ false, done, arg, err);
}

int journal_append_kept(struct journal *j, const struct journal_record *r, journal_done_fn done,
                        void *arg, struct err *err) {
    return append(j, r, /* keeps= */ true, done, arg, err);
}

/* Takes the place of the writer thread, if it has nothing to do. */
static bool become_writer(struct journal *j, int64_t now) {
    bool is_free = !j->segment.durable && !j->is_writing && !j->first && now >= j->thread_until;
    j->is_writing = j->is_writing || is_free;
    return is_free;
}

/* Who writes on his own is kept up once by a disk that stalls, and not again and again. */
static void note_speed(struct journal *j, int64_t began) {
    int64_t now = clock_ms();
    int64_t took = now - began;
    if (took > SLOW_MS) {
        int64_t pause = took * SLOW_TIMES;
        pthread_mutex_lock(&j->lock);
        j->thread_until = now + (pause < SLOW_PAUSE_MAX_MS ? pause : SLOW_PAUSE_MAX_MS);
        pthread_mutex_unlock(&j->lock);
    }
}

int journal_append_at_once(struct journal *j, const struct journal_record *r, journal_done_fn done,
                           void *arg, struct err *err) {
    struct err own = {0};
    struct item *item = lay_out(r, /* keeps= */ true, &own);
    struct batch batch;
    struct journal_place first;
    if (!item) {
        return err_set(err, own.code, "%s", own.msg);
    }
    int64_t began = clock_ms();
    pthread_mutex_lock(&j->lock);
    int code = admit(j, item->own, err);
    bool is_writer = code == 0 && become_writer(j, began);
    if (code == 0 && !is_writer) {
        item->done = done;
        item->arg = arg;
        pthread_cond_signal(&j->wake);
    }
    if (code == 0) {
        enqueue(j, item);
    }
    if (is_writer) {
        take_batch(j, &batch);
    }
    pthread_mutex_unlock(&j->lock);
    if (code < 0) {
        free(item);
    }
    if (!is_writer) {
        return code;
    }
    unsigned whole = write_batch(j, &batch, &first, &own);
    note_speed(j, began);
    finish_batch(j, &batch, whole, first, &own);
    return whole == 1 ? 1 : err_set(err, own.code, "%s", own.msg);
}

struct waiter {
    sem_t ended;
    int code;
};

static void wake_waiter(void *arg, int code) {
    struct waiter *w = arg;
    w->code = code;
    sem_post(&w->ended);
}

int journal_append_wait(struct journal *j, const struct journal_record *r, struct err *err) {
    struct waiter w = {0};
    sem_init(&w.ended, 0, 0);
    int code = append(j, r, /* keeps= */ true, wake_waiter, &w, err);
    if (code == 0) {
        while (sem_wait(&w.ended) < 0) {
        }
        code = w.code;
        if (code < 0) {
            err_set(err, code, "cannot write the journal '%s'", j->boot.path);
        }
    }
    sem_destroy(&w.ended);
    return code;
}

int journal_flush(struct journal *j, struct err *err) {
    pthread_mutex_lock(&j->lock);
    uint64_t upto = j->appended;
    uint64_t failures = j->failures;
    while (j->finished < upto) {
        pthread_cond_wait(&j->ended, &j->lock);
    }
    int code = 0;
    if (j->failures != failures) {
        code = j->failure.code < 0 ? j->failure.code : ERR_SYS;
        err_set(err, code, "not all that was queued could be written to the journal '%s'",
                j->boot.path);
    }
    pthread_mutex_unlock(&j->lock);
    return code;
}

int journal_reader_own(struct journal *j, struct sv session, struct journal_reader **out,
                       struct err *err) {
    struct reader_places own = {.boot_path = j->boot.path};
    pthread_mutex_lock(&j->lock);
    bool lossy = j->places.lossy;
    int code = lossy ? 0 : places_copy(&j->places, session, &own.places, &own.n, err);
    own.segments = j->segments;
    pthread_mutex_unlock(&j->lock);
    if (lossy || code < 0) {
        return code;
    }
    code = reader_open_places(&own, out, err);
    return code < 0 ? code : 1;
}

void journal_forget(struct journal *j, struct sv session) {
    pthread_mutex_lock(&j->lock);
    places_forget(&j->places, session);
    pthread_mutex_unlock(&j->lock);
}

/* Outside the lock, since the removal of a large file takes its time. */
static void remove_free(struct journal *j, unsigned last) {
    unsigned segment;
    do {
        pthread_mutex_lock(&j->lock);
        segment = places_take_free(&j->places, last ? last : j->segments - 1);
        pthread_mutex_unlock(&j->lock);
        if (segment) {
            segment_remove(&j->boot, segment);
        }
    } while (segment);
}

int journal_release(struct journal *j, struct sv session, struct err *err) {
    const struct journal_record traced = {
        .type = JOURNAL_TRACED, .session = session, .head = SV("{}")};
    int code = journal_append_wait(j, &traced, err);
    if (code < 0) {
        return code;
    }
    pthread_mutex_lock(&j->lock);
    places_release(&j->places, session);
    pthread_mutex_unlock(&j->lock);
    remove_free(j, 0);
    return 0;
}

void journal_close(struct journal *j) {
    if (!j) {
        return;
    }
    pthread_mutex_lock(&j->lock);
    j->closing = true;
    pthread_cond_signal(&j->wake);
    pthread_mutex_unlock(&j->lock);
    pthread_join(j->thread, NULL);
    remove_free(j, j->segment.number);
    if (places_all_taken(&j->places, j->segment.number)) {
        (void)rmdir(j->boot.path);
    }
    release(j);
}
