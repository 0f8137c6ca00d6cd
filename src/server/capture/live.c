/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/capture/live.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/thread.h"
#include "journal/trace_follow.h"

struct live {
    struct trace_follow *follow;
    pthread_t thread;
    sem_t due;
    atomic_bool ending;
    int rc; /* Of the last step. */
    struct err err;
};

static void step(struct live *l, bool last) {
    struct err err = {0};
    int before = l->rc;
    l->rc = last ? trace_follow_end(l->follow, &err) : trace_follow_step(l->follow, &err);
    if (l->rc < 0) {
        l->err = err;
        if (before == 0 && !last) { /* Once, and not for each call. */
            log_error("%s", err.msg);
        }
    }
}

static void *run(void *arg) {
    struct live *l = arg;
    for (;;) {
        while (sem_wait(&l->due) < 0) {
        }
        while (sem_trywait(&l->due) == 0) { /* Many at once are one step. */
        }
        if (l->ending) {
            step(l, /* last= */ true);
            return NULL;
        }
        step(l, /* last= */ false);
    }
}

int live_new(const struct trace_source *from, const char *path, struct live **out,
             struct err *err) {
    struct live *l = calloc(1, sizeof *l);
    if (!l) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    sem_init(&l->due, 0, 0);
    int rc = trace_follow_open(from, path, &l->follow, err);
    if (rc == 0) {
        int e = thread_start(&l->thread, 0, run, l);
        rc = e ? err_sys(err, ERR_SYS, e, "cannot start a thread") : 0;
    }
    if (rc < 0) {
        trace_follow_close(l->follow);
        sem_destroy(&l->due);
        free(l);
        return rc;
    }
    *out = l;
    return 0;
}

void live_wake(struct live *l) {
    sem_post(&l->due);
}

int live_end(struct live *l, struct err *err) {
    if (!l) {
        return 0;
    }
    l->ending = true;
    live_wake(l);
    pthread_join(l->thread, NULL);
    int rc = l->rc < 0 ? err_set(err, l->rc, "%s", l->err.msg) : 0;
    trace_follow_close(l->follow);
    sem_destroy(&l->due);
    free(l);
    return rc;
}
