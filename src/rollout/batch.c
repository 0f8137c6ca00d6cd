/* SPDX-License-Identifier: BSD-3-Clause */
#include "rollout/batch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "rollout/batch_room.h"
#include "rollout/factory_impl.h"
#include "rollout/result.h"
#include "sandbox/state.h"

#define TICK_MS 500
#define LOCK_GRACE_MS 10000 /* See try_lock: milliseconds, and seconds while the disk is busy. */
#define LOCK_LOOK_MS 20
#define RATE_TICKS 20 /* Ten seconds: steady enough to be read, and soon right. */
/* Reserved, not used: a rollout's thread touches some 40 KB. An engine's deepest JSON (2,048
 * levels) takes half a megabyte in the parser. */
#define STACK_BYTES (1u << 20)

struct batch {
    struct rollout_factory *factory;
    struct batch_plan *plan;
    const struct batch_options *o;
    int64_t began_ms;
    size_t left; /* To be done, when it began. */

    pthread_mutex_t lock; /* Over all below, and the items while they are not ended. */
    pthread_cond_t changed;
    pthread_cond_t rested; /* Only waited at for a time: nobody signals it. */
    size_t n_resting;
    size_t next;                     /* The first item that may be waiting. */
    const struct batch_item **ended; /* In their order. */
    size_t n_ended;
    unsigned threads; /* That have not ended. */

    unsigned long long tokens[RATE_TICKS]; /* The last counts, in a ring; the caller's alone. */
    int64_t token_times[RATE_TICKS];
    size_t n_samples;
};

struct running {
    struct batch *batch;
    struct batch_item *item;
};

static void progress(void *arg, const struct rollout_event *e) {
    const struct running *r = arg;
    pthread_mutex_lock(&r->batch->lock);
    r->item->phase = e->phase;
    r->item->calls = e->calls;
    r->item->completion_tokens = e->completion_tokens;
    r->item->wall_s = e->elapsed_s;
    pthread_mutex_unlock(&r->batch->lock);
}

/* With the lock held. What the item came to holds. */
static void end_item(struct batch *b, struct batch_item *item) {
    item->state = BATCH_ENDED;
    b->ended[b->n_ended++] = item;
    pthread_cond_signal(&b->changed);
}

/* The resting item that may go on first, or NULL. With the lock held, as the next ones. */
static struct batch_item *first_resting(struct batch *b) {
    struct batch_item *first = NULL;
    for (size_t i = 0; b->n_resting > 0 && i < b->next; i++) {
        struct batch_item *at = &b->plan->items[i];
        first =
            at->state == BATCH_RESTING && (!first || at->again_at < first->again_at) ? at : first;
    }
    return first;
}

/* Their last attempt stands. */
static void end_resting(struct batch *b) {
    struct batch_item *item;
    while ((item = first_resting(b))) {
        b->n_resting--;
        end_item(b, item);
    }
}

static struct batch_item *next_waiting(struct batch *b) {
    while (b->next < b->plan->n) {
        struct batch_item *at = &b->plan->items[b->next++];
        if (at->state == BATCH_WAITING) {
            return at;
        }
    }
    return NULL;
}

/* Gives NULL when there is nothing left for this thread. What runs now and will have to be tried
 * again is its own thread's. */
static struct batch_item *choose_next(struct batch *b) {
    for (;;) {
        if (cancel_thrown(b->o->cancel)) {
            end_resting(b);
            return NULL;
        }
        struct batch_item *resting = first_resting(b);
        if (resting && deadline_passed(resting->again_at)) {
            b->n_resting--;
            resting->attempt++;
            return resting;
        }
        struct batch_item *item = next_waiting(b);
        if (item || !resting) {
            return item;
        }
        /* The switch is looked at now and then. */
        thread_wait(&b->rested, &b->lock, deadline_min(resting->again_at, deadline_in_ms(TICK_MS)));
    }
}

static struct batch_item *take_next(struct batch *b) {
    pthread_mutex_lock(&b->lock);
    struct batch_item *item = choose_next(b);
    if (item) {
        item->state = BATCH_RUNNING;
        item->tries++;
    }
    pthread_mutex_unlock(&b->lock);
    return item;
}

/* It has no folder that tells: what is known stands in the item alone. */
static void take_error(struct batch_item *item, const struct err *why) {
    item->status = mem_strdup(why->code == ERR_CANCELLED ? "cancelled" : "failed");
    item->cause = why->code == ERR_CANCELLED ? NULL : mem_strdup("internal");
    item->error = mem_strdup(why->msg);
}

static void run_item(struct batch *b, struct batch_item *item) {
    struct running running = {b, item};
    struct rollout_control control = {
        .cancel = b->o->cancel, .hard = b->o->hard, .progress = progress, .progress_arg = &running};
    struct rollout_names names = {
        .group = item->group, .rollout = item->rollout, .attempt = item->attempt};
    struct rollout_result result = {0};
    struct err err = {0};
    double again_s = -1;
    int r =
        rollout_try(b->factory, item->task, &names, &control, item->tries, &result, &again_s, &err);
    pthread_mutex_lock(&b->lock);
    if (r == 0 && (r = batch_item_take(item, result.json, result.dir, &err)) < 0) {
        log_warning("%s: %s", item->rollout, err.msg);
    }
    if (r < 0) {
        take_error(item, &err);
    }
    if (r == 0 && again_s >= 0) {
        item->state = BATCH_RESTING;
        item->again_at = deadline_in_s(again_s);
        b->n_resting++;
    } else {
        end_item(b, item);
    }
    pthread_mutex_unlock(&b->lock);
    rollout_result_deinit(&result);
}

static void *worker(void *arg) {
    struct batch *b = arg;
    struct batch_item *item;
    while ((item = take_next(b))) {
        run_item(b, item);
    }
    pthread_mutex_lock(&b->lock);
    b->threads--;
    pthread_cond_signal(&b->changed);
    pthread_mutex_unlock(&b->lock);
    return NULL;
}

/* Tokens per second since the oldest count that is still known. */
static double token_rate(struct batch *b, unsigned long long tokens, int64_t now_ms) {
    size_t at = b->n_samples++ % RATE_TICKS;
    size_t oldest = b->n_samples > RATE_TICKS ? b->n_samples % RATE_TICKS : 0;
    unsigned long long before = at == oldest ? tokens : b->tokens[oldest];
    int64_t since = at == oldest ? now_ms : b->token_times[oldest];
    b->tokens[at] = tokens;
    b->token_times[at] = now_ms;
    return now_ms > since && tokens > before
               ? 1000 * (double)(tokens - before) / (double)(now_ms - since)
               : 0;
}

/* With the lock held. */
static void fill_rows(const struct batch *b, struct batch_view *v) {
    for (size_t i = 0; i < b->next && v->n_rows < BATCH_ROWS_MAX; i++) {
        const struct batch_item *item = &b->plan->items[i];
        if (item->state == BATCH_RUNNING) {
            struct batch_row *row = &v->rows[v->n_rows++];
            memcpy(row->rollout, item->rollout, sizeof row->rollout);
            row->phase = item->phase;
            row->calls = item->calls;
            row->completion_tokens = item->completion_tokens;
            row->elapsed_s = item->wall_s;
        }
    }
}

static void tick(struct batch *b) {
    struct batch_view v = {0};
    int64_t now = clock_ms();
    if (!b->o->tick) {
        return;
    }
    pthread_mutex_lock(&b->lock);
    batch_totals(b->plan, &v.totals);
    fill_rows(b, &v);
    size_t done = b->n_ended;
    pthread_mutex_unlock(&b->lock);
    v.elapsed_s = (double)(now - b->began_ms) / 1000;
    v.tokens_per_s = token_rate(b, v.totals.own_tokens, now);
    v.eta_s = batch_eta_s(done, b->left - done, v.elapsed_s);
    b->o->tick(b->o->arg, &v);
}

/* Waits for the next half second or for a change. */
static void wait_changed(struct batch *b, size_t told) {
    deadline_ms until = deadline_in_ms(TICK_MS);
    while (b->n_ended == told && b->threads > 0 && !deadline_passed(until)) {
        thread_wait(&b->changed, &b->lock, until);
    }
}

/* Tells the caller what happens until the last thread has ended. */
static void watch(struct batch *b) {
    size_t told = 0;
    bool over = false;
    while (!over) {
        pthread_mutex_lock(&b->lock);
        wait_changed(b, told);
        size_t upto = b->n_ended;
        over = b->threads == 0;
        pthread_mutex_unlock(&b->lock);
        for (; told < upto; told++) {
            if (b->o->ended) {
                b->o->ended(b->o->arg, b->ended[told]);
            }
        }
        tick(b);
    }
}

/* Starts at most `n` threads; gives how many there are. */
static unsigned start_threads(struct batch *b, pthread_t *threads, unsigned n, int *why) {
    unsigned started = 0;
    pthread_mutex_lock(&b->lock);
    while (started < n && (*why = thread_start(&threads[started], STACK_BYTES, worker, b)) == 0) {
        started++;
    }
    b->threads = started;
    pthread_mutex_unlock(&b->lock);
    return started;
}

static int run_threads(struct batch *b, unsigned n, struct err *err) {
    AUTO_FREE pthread_t *threads = calloc(n, sizeof *threads);
    int why = 0;
    if (!threads) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    unsigned started = start_threads(b, threads, n, &why);
    if (started == 0) {
        return err_sys(err, ERR_SYS, why, "cannot start a thread for a rollout");
    }
    if (started < n) {
        log_warning("only %u rollouts run at once: %s", started, strerror(why));
    }
    watch(b);
    for (unsigned i = 0; i < started; i++) {
        pthread_join(threads[i], NULL);
    }
    return 0;
}

/* A process that was killed while it started a program leaves its lock to that child, for as long
 * as the child takes to become the program. */
static int try_lock(int fd) {
    deadline_ms until = deadline_in_ms(LOCK_GRACE_MS);
    while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        if (errno != EWOULDBLOCK || deadline_passed(until)) {
            return -1;
        }
        clock_sleep_ms(LOCK_LOOK_MS);
    }
    return 0;
}

/* One batch at a time has the run: its folder is held by flock. */
static int hold_run(const struct rollout_factory *f, int *out_fd, struct err *err) {
    AUTO_FREE char *dir = file_join(store_dir(f->store), f->run);
    if (!dir) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    AUTO_CLOSE int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return err_sys(err, ERR_SYS, errno, "cannot open the folder '%s'", dir);
    }
    if (try_lock(fd) < 0) {
        return errno == EWOULDBLOCK
                   ? err_set(err, ERR_STATE,
                             "another process is at the run '%s' (wait for it, or give another "
                             "--run)",
                             f->run)
                   : err_sys(err, ERR_SYS, errno, "cannot lock the folder '%s'", dir);
    }
    *out_fd = TAKE_FD(fd);
    return 0;
}

static int check_room(const struct batch *b, unsigned at_once, struct err *err) {
    char what[64];
    uint64_t each = b->o->rollout_bytes ? b->o->rollout_bytes : BATCH_ROLLOUT_BYTES;
    int r = batch_room_descriptors(at_once, err);
    if (r < 0) {
        return r;
    }
    (void)snprintf(what, sizeof what, "%zu rollouts", b->left);
    r = batch_room_disk(store_dir(b->factory->store), b->left * each, what, err);
    if (r < 0 || b->factory->backend != &sandbox_local) {
        return r;
    }
    AUTO_FREE char *state = NULL;
    r = state_dir(&state, err);
    (void)snprintf(what, sizeof what, "%u sandboxes", at_once);
    return r < 0 ? r : batch_room_disk(state, (uint64_t)at_once * BATCH_SANDBOX_BYTES, what, err);
}

static int run_held(struct batch *b, struct err *err) {
    unsigned most = b->o->concurrency ? b->o->concurrency : BATCH_CONCURRENCY_DEFAULT;
    int r = batch_plan_look_up(b->plan, b->factory->store, b->factory->run, b->o->resume, &b->left,
                               err);
    if (r < 0 || b->left == 0) {
        return r;
    }
    if (most > BATCH_CONCURRENCY_MAX) {
        return err_set(err, ERR_INPUT, "concurrency: want at most %d", BATCH_CONCURRENCY_MAX);
    }
    unsigned at_once = b->left < most ? (unsigned)b->left : most;
    r = check_room(b, at_once, err);
    if (r < 0) {
        return r;
    }
    b->ended = calloc(b->left, sizeof *b->ended); // NOLINT(bugprone-sizeof-expression): pointers
    r = b->ended ? run_threads(b, at_once, err) : err_set(err, ERR_NOMEM, "out of memory");
    free(b->ended);
    return r;
}

int batch_run(struct rollout_factory *f, struct batch_plan *plan, const struct batch_options *o,
              struct err *err) {
    struct batch b = {.factory = f, .plan = plan, .o = o, .began_ms = clock_ms()};
    AUTO_CLOSE int held = -1;
    int r = factory_open(f, err);
    r = r < 0 ? r : hold_run(f, &held, err);
    if (r < 0) {
        return r;
    }
    pthread_mutex_init(&b.lock, NULL);
    pthread_cond_init(&b.changed, NULL);
    pthread_cond_init(&b.rested, NULL);
    r = run_held(&b, err);
    pthread_cond_destroy(&b.rested);
    pthread_cond_destroy(&b.changed);
    pthread_mutex_destroy(&b.lock);
    return r;
}
