/* SPDX-License-Identifier: BSD-3-Clause */
#include "journal/journal.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>

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
#define BATCH_MAX 512                /* Records of one write; the kernel takes at most 1,024. */
#define SPARES_MAX 16                /* About as many big records are under way on one loop. */
#define SPARE_BYTES_MIN (32u << 10)  /* Smaller ones malloc gives without asking the kernel. */
#define SPARE_BYTES_MAX (1u << 20)
#define RETRY_MS 1000 /* After a failure, one append in this time is tried. */

/* An encoded record in the queue. */
struct item {
    struct item *next;
    journal_done_fn done;
    void *arg;
    size_t n;
    size_t cap;
    size_t session_bytes;
    char bytes[];
};

struct journal {
    struct boot boot;
    struct segment segment; /* Used by the writer thread only. */
    pthread_t thread;
    pthread_mutex_t lock; /* Guards all below. */
    pthread_cond_t wake;  /* The queue is no longer empty, or closing. */
    pthread_cond_t ended; /* `finished` has grown. */
    struct item *first;
    struct item **last;
    size_t queued_bytes; /* With the batch being written. */
    struct item *spares; /* Memory for big ones: fresh pages would be cleared each time. */
    unsigned n_spares;
    uint64_t appended; /* Records ever queued, and those of them whose fate is known. */
    uint64_t finished;
    uint64_t failures;
    struct err failure; /* Of the last write; code 0: it worked. */
    int64_t retry_at;
    struct places places;
    unsigned segments; /* Begun so far. */
    bool closing;
};

/* Takes at most BATCH_MAX records that go into one segment. Called with the lock held. */
static unsigned take_batch(struct journal *j, struct item **batch, bool *begin_segment) {
    uint64_t bytes = 0;
    unsigned n = 0;
    *begin_segment = !segment_fits(&j->segment, j->first->n);
    while (j->first && n < BATCH_MAX) {
        bool alone = *begin_segment && n == 0; /* Larger than a segment may be: one of its own. */
        if (!alone && !(*begin_segment ? bytes + j->first->n <= j->segment.bytes_max
                                       : segment_fits(&j->segment, bytes + j->first->n))) {
            break;
        }
        bytes += j->first->n;
        batch[n++] = j->first;
        j->first = j->first->next;
    }
    if (!j->first) {
        j->last = &j->first;
    }
    return n;
}

/* Writes a batch; returns how many of its records count. *first: where the first of them stands. */
static unsigned write_batch(struct journal *j, struct item **batch, unsigned n, bool begin_segment,
                            struct journal_place *first, struct err *err) {
    struct iovec records[BATCH_MAX];
    unsigned whole = 0;
    for (unsigned i = 0; i < n; i++) {
        records[i] = (struct iovec){batch[i]->bytes, batch[i]->n};
    }
    int r = begin_segment ? segment_begin(&j->segment, err) : 0;
    *first = (struct journal_place){j->segment.number, j->segment.bytes};
    if (r == 0) {
        r = segment_write(&j->segment, records, n, &whole, err);
    }
    err->code = r;
    return whole;
}

/* Notes where the records that count stand. Called with the lock held. */
static void note_places(struct journal *j, struct item **batch, unsigned whole,
                        struct journal_place place) {
    j->segments = place.segment;
    for (unsigned i = 0; i < whole; i++) {
        struct sv session = {batch[i]->bytes + FORMAT_HEAD_BYTES, batch[i]->session_bytes};
        places_add(&j->places, session, place);
        place.offset += batch[i]->n;
    }
}

static struct item *new_item(struct journal *j, size_t n) {
    size_t cap = n;
    if (n >= SPARE_BYTES_MIN && n <= SPARE_BYTES_MAX) {
        for (cap = SPARE_BYTES_MIN; cap < n; cap *= 2) {
        }
        pthread_mutex_lock(&j->lock);
        for (struct item **at = &j->spares; *at; at = &(*at)->next) {
            if ((*at)->cap == cap) {
                struct item *item = *at;
                *at = item->next;
                j->n_spares--;
                pthread_mutex_unlock(&j->lock);
                return item;
            }
        }
        pthread_mutex_unlock(&j->lock);
    }
    struct item *item = malloc(sizeof *item + cap);
    if (item) {
        item->cap = cap;
    }
    return item;
}

/* Called with the lock held. */
static void free_item(struct journal *j, struct item *item) {
    if (item->cap < SPARE_BYTES_MIN || item->cap > SPARE_BYTES_MAX || j->n_spares == SPARES_MAX) {
        free(item);
        return;
    }
    item->next = j->spares;
    j->spares = item;
    j->n_spares++;
}

/* Tells each record's owner, and then the waiters. */
static void finish_batch(struct journal *j, struct item **batch, unsigned n, unsigned whole,
                         struct journal_place first, const struct err *err) {
    size_t bytes = 0;
    BUG_IF(whole > n);
    /* Before the calls of `done`, so that who learns of a failure there is refused after it. */
    pthread_mutex_lock(&j->lock);
    j->failure = *err;
    note_places(j, batch, whole, first);
    if (err->code < 0) {
        j->failures += n - whole;
        j->retry_at = clock_ms() + RETRY_MS;
    }
    pthread_mutex_unlock(&j->lock);
    for (unsigned i = 0; i < n; i++) {
        if (batch[i]->done) {
            batch[i]->done(batch[i]->arg, i < whole ? 0 : err->code);
        }
        bytes += batch[i]->n;
    }
    pthread_mutex_lock(&j->lock);
    for (unsigned i = 0; i < n; i++) {
        free_item(j, batch[i]);
    }
    j->queued_bytes -= bytes;
    j->finished += n;
    pthread_cond_broadcast(&j->ended);
    pthread_mutex_unlock(&j->lock);
}

static void *writer_main(void *arg) {
    struct journal *j = arg;
    for (;;) {
        struct item *batch[BATCH_MAX];
        bool begin_segment;
        pthread_mutex_lock(&j->lock);
        while (!j->first && !j->closing) {
            pthread_cond_wait(&j->wake, &j->lock);
        }
        if (!j->first) {
            pthread_mutex_unlock(&j->lock);
            return NULL;
        }
        unsigned n = take_batch(j, batch, &begin_segment);
        pthread_mutex_unlock(&j->lock);
        struct err err = {0};
        struct journal_place first;
        unsigned whole = write_batch(j, batch, n, begin_segment, &first, &err);
        finish_batch(j, batch, n, whole, first, &err);
    }
}

static void release(struct journal *j) {
    segment_end(&j->segment);
    boot_deinit(&j->boot);
    places_deinit(&j->places);
    while (j->spares) {
        struct item *next = j->spares->next;
        free(j->spares);
        j->spares = next;
    }
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

static struct item *encode(struct journal *j, const struct journal_record *r, struct err *err) {
    size_t n = 0;
    if (format_measure(r, &n, err) < 0) {
        return NULL;
    }
    struct item *item = new_item(j, n);
    if (!item) {
        err_set(err, ERR_NOMEM, "no memory for a journal record of %zu bytes", n);
        return NULL;
    }
    struct journal_record timed = *r;
    timed.time = r->time != 0 ? r->time : clock_unix();
    item->next = NULL;
    item->n = n;
    item->session_bytes = r->session.n;
    format_write(&timed, item->bytes);
    return item;
}

/* Whether one more record may be queued. Called with the lock held. */
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

int journal_append(struct journal *j, const struct journal_record *r, journal_done_fn done,
                   void *arg, struct err *err) {
    struct err own = {0};
    struct item *item = encode(j, r, &own);
    if (!item) {
        return err_set(err, own.code, "%s", own.msg);
    }
    item->done = done;
    item->arg = arg;
    pthread_mutex_lock(&j->lock);
    int code = admit(j, item->n, err);
    if (code == 0) {
        *j->last = item;
        j->last = &item->next;
        j->queued_bytes += item->n;
        j->appended++;
        pthread_cond_signal(&j->wake);
    }
    pthread_mutex_unlock(&j->lock);
    if (code < 0) {
        free(item);
    }
    return code;
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
    int code = journal_append(j, r, wake_waiter, &w, err);
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

void journal_close(struct journal *j) {
    if (!j) {
        return;
    }
    pthread_mutex_lock(&j->lock);
    j->closing = true;
    pthread_cond_signal(&j->wake);
    pthread_mutex_unlock(&j->lock);
    pthread_join(j->thread, NULL);
    release(j);
}
