/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/capture/pool.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/thread.h"

/* A session's end may wait minutes for its calls; a trainer ends some dozens at a time. */
#define POOL_THREADS_MAX 64u

struct task {
    struct task *next;
    void (*fn)(void *arg);
    void *arg;
};

struct pool {
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    struct task *first;
    struct task **last;
    unsigned n_tasks;
    unsigned n_idle;
    unsigned n_threads;
    pthread_t threads[POOL_THREADS_MAX];
    bool ending;
};

int pool_new(struct pool **out, struct err *err) {
    struct pool *p = calloc(1, sizeof *p);
    if (!p) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    p->last = &p->first;
    pthread_mutex_init(&p->mutex, NULL);
    pthread_cond_init(&p->wake, NULL);
    *out = p;
    return 0;
}

/* Under the mutex. NULL: there is no more. */
static struct task *next_task(struct pool *p) {
    while (!p->first && !p->ending) {
        p->n_idle++;
        pthread_cond_wait(&p->wake, &p->mutex);
        p->n_idle--;
    }
    struct task *t = p->first;
    if (t) {
        p->first = t->next;
        p->last = p->first ? p->last : &p->first;
        p->n_tasks--;
    }
    return t;
}

static void *run(void *arg) {
    struct pool *p = arg;
    struct task *t;
    pthread_mutex_lock(&p->mutex);
    while ((t = next_task(p)) != NULL) {
        pthread_mutex_unlock(&p->mutex);
        t->fn(t->arg);
        free(t);
        pthread_mutex_lock(&p->mutex);
    }
    pthread_mutex_unlock(&p->mutex);
    return NULL;
}

/* Under the mutex. */
static int add_thread(struct pool *p, struct err *err) {
    if (p->n_tasks < p->n_idle || p->n_threads == POOL_THREADS_MAX) {
        return 0;
    }
    int e = thread_start(&p->threads[p->n_threads], 0, run, p);
    p->n_threads += e == 0;
    if (e != 0 && p->n_threads == 0) {
        return err_sys(err, ERR_SYS, e, "cannot start a thread");
    }
    return 0;
}

int pool_add(struct pool *p, void (*fn)(void *arg), void *arg, struct err *err) {
    struct task *t = malloc(sizeof *t);
    if (!t) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    *t = (struct task){.fn = fn, .arg = arg};
    pthread_mutex_lock(&p->mutex);
    int rc = add_thread(p, err);
    if (rc == 0) {
        *p->last = t;
        p->last = &t->next;
        p->n_tasks++;
        pthread_cond_signal(&p->wake);
    }
    pthread_mutex_unlock(&p->mutex);
    if (rc < 0) {
        free(t);
    }
    return rc;
}

void pool_free(struct pool *p) {
    if (!p) {
        return;
    }
    pthread_mutex_lock(&p->mutex);
    p->ending = true;
    pthread_cond_broadcast(&p->wake);
    pthread_mutex_unlock(&p->mutex);
    for (unsigned i = 0; i < p->n_threads; i++) {
        pthread_join(p->threads[i], NULL);
    }
    pthread_cond_destroy(&p->wake);
    pthread_mutex_destroy(&p->mutex);
    free(p);
}
