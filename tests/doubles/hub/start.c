/* SPDX-License-Identifier: BSD-3-Clause */
/* Starting a container takes tens of milliseconds, in which the Hub has others to answer. A
 * container's first process dies with the thread that made it, so these threads live for ever. */
#include <pthread.h>
#include <stdlib.h>

#include "base/mem.h"
#include "tests/doubles/hub/hub.h"

#define THREADS 2

struct start {
    struct start *next;
    struct job *job;
    struct container *container;
    struct err err;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t more = PTHREAD_COND_INITIALIZER;
static struct start *first; /* Under lock, as is the end. */
static struct start **end = &first;

static void on_spawned(void *arg) {
    struct start *s = arg;
    if (s->container) {
        container_open(s->container);
    }
    job_on_start(s->job, s->container, &s->err);
    free(s);
}

static struct start *take(void) {
    pthread_mutex_lock(&lock);
    while (!first) {
        pthread_cond_wait(&more, &lock);
    }
    struct start *s = first;
    first = s->next;
    end = first ? end : &first;
    pthread_mutex_unlock(&lock);
    return s;
}

static void *serve(void *arg) {
    (void)arg;
    for (;;) {
        struct start *s = take();
        struct loop *loop = s->job->hub->loop;
        if (container_spawn(s->job, &s->container, &s->err) < 0) {
            s->container = NULL;
        }
        loop_post(loop, on_spawned, s);
    }
    return NULL;
}

void container_start(struct job *j) {
    static bool begun;
    struct start *s = calloc(1, sizeof *s);
    BUG_IF(!s);
    s->job = j;
    for (int i = 0; !begun && i < THREADS; i++) {
        pthread_t thread;
        BUG_IF(pthread_create(&thread, NULL, serve, NULL) != 0);
        pthread_detach(thread);
    }
    begun = true;
    pthread_mutex_lock(&lock);
    *end = s;
    end = &s->next;
    pthread_cond_signal(&more);
    pthread_mutex_unlock(&lock);
}
