/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/loop.h"

#include <semaphore.h>
#include <stdlib.h>

#include "base/thread.h"
#include "net/conn.h"
#include "net/loop_internal.h"

static void run_tasks(uv_async_t *wake) {
    struct loop *l = wake->data;
    pthread_mutex_lock(&l->lock);
    struct loop_task *t = l->first;
    l->first = NULL;
    l->last = &l->first;
    pthread_mutex_unlock(&l->lock);
    while (t) {
        struct loop_task *next = t->next; /* The task may post itself again, or be freed. */
        struct loop_task copy = *t;
        if (t->is_heap) {
            free(t);
        }
        copy.fn(copy.arg);
        t = next;
    }
}

static void *run(void *arg) {
    struct loop *l = arg;
    uv_run(&l->uv, UV_RUN_DEFAULT);
    return NULL;
}

static void release(struct loop *l) {
    pthread_mutex_destroy(&l->lock);
    free(l->read_buffer);
    free(l);
}

int loop_new(struct loop **out, struct err *err) {
    struct loop *l = calloc(1, sizeof *l);
    if (!l) {
        return err_set(err, ERR_NOMEM, "no memory for an event loop");
    }
    l->last = &l->first;
    pthread_mutex_init(&l->lock, NULL);
    l->read_buffer = malloc(CONN_READ_MAX);
    int r = l->read_buffer ? uv_loop_init(&l->uv) : UV_ENOMEM;
    if (r < 0) {
        release(l);
        return err_set(err, ERR_SYS, "cannot make an event loop: %s", uv_strerror(r));
    }
    l->wake.data = l;
    r = uv_async_init(&l->uv, &l->wake, run_tasks);
    if (r == 0) {
        r = -thread_start(&l->thread, 0, run, l);
        if (r != 0) {
            uv_close((uv_handle_t *)&l->wake, NULL);
            uv_run(&l->uv, UV_RUN_DEFAULT);
        }
    }
    if (r < 0) {
        uv_loop_close(&l->uv);
        release(l);
        return err_set(err, ERR_SYS, "cannot start an event loop: %s", uv_strerror(r));
    }
    *out = l;
    return 0;
}

static void check_closing(uv_handle_t *h, void *arg) {
    (void)arg;
    BUG_IF(!uv_is_closing(h)); /* A listener, connection, dial or timer outlives its loop. */
}

static void stop(void *arg) {
    struct loop *l = arg;
    conn_drop_ending(l);
    uv_close((uv_handle_t *)&l->wake, NULL);
    uv_walk(&l->uv, check_closing, NULL);
}

void loop_free(struct loop *l) {
    if (!l) {
        return;
    }
    BUG_IF(loop_is_current(l));
    loop_post(l, stop, l);
    pthread_join(l->thread, NULL);
    BUG_IF(l->first);
    BUG_IF(uv_loop_close(&l->uv) != 0);
    release(l);
}

bool loop_is_current(const struct loop *l) {
    return pthread_equal(l->thread, pthread_self());
}

void loop_post_task(struct loop *l, struct loop_task *task) {
    task->next = NULL;
    pthread_mutex_lock(&l->lock);
    *l->last = task;
    l->last = &task->next;
    /* Under the lock: after it the loop may run the task, end, and be gone. */
    uv_async_send(&l->wake);
    pthread_mutex_unlock(&l->lock);
}

void loop_post(struct loop *l, void (*fn)(void *arg), void *arg) {
    struct loop_task *task = malloc(sizeof *task);
    BUG_IF(!task);
    *task = (struct loop_task){.fn = fn, .arg = arg, .is_heap = true};
    loop_post_task(l, task);
}

struct call {
    void (*fn)(void *arg);
    void *arg;
    sem_t done;
};

static void run_call(void *arg) {
    struct call *call = arg;
    call->fn(call->arg);
    sem_post(&call->done);
}

void loop_call(struct loop *l, void (*fn)(void *arg), void *arg) {
    if (loop_is_current(l)) {
        fn(arg);
        return;
    }
    struct call call = {.fn = fn, .arg = arg};
    struct loop_task task = {.fn = run_call, .arg = &call};
    sem_init(&call.done, 0, 0);
    loop_post_task(l, &task);
    while (sem_wait(&call.done) < 0) {
    }
    sem_destroy(&call.done);
}

int64_t loop_now_ms(const struct loop *l) {
    return (int64_t)uv_now(&l->uv);
}
