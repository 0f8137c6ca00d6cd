/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "sandbox/local.h"

#define BEAT_S 15 /* A guest gives its host up after 90 s: five beats may be lost. */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t beaten = PTHREAD_COND_INITIALIZER;
static struct local *first;
static pid_t thread_of; /* The process that the thread runs in; 0: none yet. */

/* A guest that does not answer is found dead by the call that needs it. */
static void beat_one(const struct local *l) {
    struct err err = {0};
    if (guest_beat(&l->guest, &err) < 0 && !cancel_thrown(l->torn_down)) {
        log_debug("sandbox '%s' missed a beat: %s", l->base.id, err.msg);
    }
}

/* One that is being beaten stays in the list, so the walk can go on from it. */
static void beat_all(void) {
    pthread_mutex_lock(&lock);
    for (struct local *l = first; l; l = l->next) {
        l->beating = true;
        pthread_mutex_unlock(&lock);
        beat_one(l);
        pthread_mutex_lock(&lock);
        l->beating = false;
        pthread_cond_broadcast(&beaten);
    }
    pthread_mutex_unlock(&lock);
}

static void *beat_for_ever(void *arg) {
    for (;;) {
        struct timespec pause = {.tv_sec = BEAT_S};
        while (nanosleep(&pause, &pause) < 0 && errno == EINTR) {
        }
        beat_all();
    }
    return arg;
}

/* With the lock held. The thread takes no signals: those are for the program's own threads. */
static int start_thread(struct err *err) {
    if (thread_of == getpid()) {
        return 0;
    }
    pthread_t thread;
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int r = pthread_create(&thread, NULL, beat_for_ever, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (r != 0) {
        return err_sys(err, ERR_SYS, r, "cannot start the beat's thread");
    }
    pthread_detach(thread);
    thread_of = getpid();
    return 0;
}

int local_beat_join(struct local *l, struct err *err) {
    pthread_mutex_lock(&lock);
    int r = start_thread(err);
    if (r == 0) {
        l->next = first;
        first = l;
    }
    pthread_mutex_unlock(&lock);
    return r;
}

void local_beat_leave(struct local *l) {
    pthread_mutex_lock(&lock);
    while (l->beating) {
        pthread_cond_wait(&beaten, &lock);
    }
    for (struct local **at = &first; *at; at = &(*at)->next) {
        if (*at == l) {
            *at = l->next;
            break;
        }
    }
    pthread_mutex_unlock(&lock);
}
