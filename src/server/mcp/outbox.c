/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/mcp/outbox.h"

#include <limits.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/thread.h"

/* As much as a pipe takes without blocking once it says that it takes any. */
#define PIECE_BYTES PIPE_BUF

#define LOOK_MS 100 /* How often a waiting reader looks at its switch. */

struct outbox {
    int fd;
    struct cancel *gone;
    struct cancel *quit; /* What is not written is given up. */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct buf lines;
    bool is_broken; /* Nothing is taken any more. */
    bool ends;
    bool is_done; /* The thread is about to end. */
};

/* Takes what there is; false: it is the end. */
static bool take(struct outbox *o, struct buf *out) {
    pthread_mutex_lock(&o->lock);
    while (o->lines.len == 0 && !o->ends) {
        pthread_cond_wait(&o->changed, &o->lock);
    }
    *out = o->lines;
    o->lines = (struct buf){0};
    pthread_cond_broadcast(&o->changed);
    pthread_mutex_unlock(&o->lock);
    return out->len > 0;
}

static int write_pieces(struct outbox *o, struct sv bytes) {
    int r = 0;
    while (bytes.n > 0 && r == 0) {
        size_t n = bytes.n < PIECE_BYTES ? bytes.n : PIECE_BYTES;
        r = fd_write_all(o->fd, bytes.p, n, DEADLINE_NEVER, o->quit, NULL);
        bytes = sv_cut(bytes, n);
    }
    return r;
}

static void *write_all(void *arg) {
    struct outbox *o = arg;
    struct buf lines = {0};
    while (take(o, &lines)) {
        int r = o->is_broken ? 0 : write_pieces(o, buf_sv(&lines));
        buf_deinit(&lines);
        if (r < 0) {
            pthread_mutex_lock(&o->lock);
            o->is_broken = true;
            pthread_cond_broadcast(&o->changed);
            pthread_mutex_unlock(&o->lock);
            cancel_throw(o->gone);
        }
    }
    buf_deinit(&lines);
    pthread_mutex_lock(&o->lock);
    o->is_done = true;
    pthread_cond_broadcast(&o->changed);
    pthread_mutex_unlock(&o->lock);
    return NULL;
}

int outbox_new(int fd, struct cancel *gone, const struct cancel *hard, struct outbox **out,
               struct err *err) {
    struct outbox *o = calloc(1, sizeof *o);
    if (!o) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    *o = (struct outbox){.fd = fd, .gone = gone};
    pthread_mutex_init(&o->lock, NULL);
    pthread_cond_init(&o->changed, NULL);
    int r = cancel_new_under(hard, &o->quit, err);
    int why = r < 0 ? 0 : thread_start(&o->thread, 0, write_all, o);
    if (r < 0 || why) {
        cancel_free(o->quit);
        free(o);
        return r < 0 ? r : err_sys(err, ERR_SYS, why, "cannot start a thread");
    }
    *out = o;
    return 0;
}

static void add(struct outbox *o, struct sv line, size_t most) {
    pthread_mutex_lock(&o->lock);
    size_t before = o->lines.len;
    if (!o->is_broken && before < most &&
        (buf_add_sv(&o->lines, line) < 0 || buf_addc(&o->lines, '\n') < 0)) {
        o->lines.len = before; /* Half a line would spoil the next. */
        log_error("no memory for an answer of %zu bytes", line.n);
    }
    pthread_cond_broadcast(&o->changed);
    pthread_mutex_unlock(&o->lock);
}

void outbox_add(struct outbox *o, struct sv line) {
    add(o, line, SIZE_MAX);
}

void outbox_add_note(struct outbox *o, struct sv line) {
    add(o, line, OUTBOX_NOTES_MAX);
}

void outbox_wait(struct outbox *o, const struct cancel *c) {
    pthread_mutex_lock(&o->lock);
    while (o->lines.len > OUTBOX_HIGH && !o->is_broken && !cancel_thrown(c)) {
        thread_wait(&o->changed, &o->lock, deadline_in_ms(LOOK_MS));
    }
    pthread_mutex_unlock(&o->lock);
}

void outbox_free(struct outbox *o) {
    if (!o) {
        return;
    }
    deadline_ms until = deadline_in_ms(OUTBOX_FLUSH_MS);
    pthread_mutex_lock(&o->lock);
    o->ends = true;
    pthread_cond_broadcast(&o->changed);
    while (!o->is_done && !deadline_passed(until)) {
        thread_wait(&o->changed, &o->lock, until);
    }
    pthread_mutex_unlock(&o->lock);
    cancel_throw(o->quit);
    pthread_join(o->thread, NULL);
    cancel_free(o->quit);
    buf_deinit(&o->lines);
    pthread_cond_destroy(&o->changed);
    pthread_mutex_destroy(&o->lock);
    free(o);
}
