/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/mcp/outbox.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/thread.h"

struct outbox {
    int fd;
    struct cancel *gone;
    const struct cancel *hard;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct buf lines;
    bool is_broken; /* Nothing is taken any more. */
    bool ends;
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

static void *write_all(void *arg) {
    struct outbox *o = arg;
    struct buf lines = {0};
    struct err err = {0};
    while (take(o, &lines)) {
        int r = o->is_broken
                    ? 0
                    : fd_write_all(o->fd, lines.data, lines.len, DEADLINE_NEVER, o->hard, &err);
        buf_deinit(&lines);
        if (r < 0) {
            pthread_mutex_lock(&o->lock);
            o->is_broken = true;
            pthread_mutex_unlock(&o->lock);
            cancel_throw(o->gone);
        }
    }
    buf_deinit(&lines);
    return NULL;
}

int outbox_new(int fd, struct cancel *gone, const struct cancel *hard, struct outbox **out,
               struct err *err) {
    struct outbox *o = calloc(1, sizeof *o);
    if (!o) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    *o = (struct outbox){.fd = fd, .gone = gone, .hard = hard};
    pthread_mutex_init(&o->lock, NULL);
    pthread_cond_init(&o->changed, NULL);
    int why = thread_start(&o->thread, 0, write_all, o);
    if (why) {
        free(o);
        return err_sys(err, ERR_SYS, why, "cannot start a thread");
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

void outbox_wait(struct outbox *o) {
    pthread_mutex_lock(&o->lock);
    while (o->lines.len > OUTBOX_HIGH && !o->is_broken) {
        pthread_cond_wait(&o->changed, &o->lock);
    }
    pthread_mutex_unlock(&o->lock);
}

void outbox_free(struct outbox *o) {
    if (!o) {
        return;
    }
    pthread_mutex_lock(&o->lock);
    o->ends = true;
    pthread_cond_broadcast(&o->changed);
    pthread_mutex_unlock(&o->lock);
    pthread_join(o->thread, NULL);
    buf_deinit(&o->lines);
    pthread_cond_destroy(&o->changed);
    pthread_mutex_destroy(&o->lock);
    free(o);
}
