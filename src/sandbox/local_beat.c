/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/thread.h"
#include "sandbox/guest_client_call.h"
#include "sandbox/local.h"

#define BEAT_S 15    /* A guest gives its host up after 90 s: five beats may be lost. */
#define AT_ONCE 64   /* Beats under way; each holds a descriptor. */
#define ANSWER_S 5.0 /* It counts as soon as the guest has it: the answer is only looked at. */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t beaten = PTHREAD_COND_INITIALIZER;
static struct local *first;
static pid_t thread_of; /* The process that the thread runs in; 0: none yet. */

struct beat {
    struct local *l;
    struct guest_call call;
    bool sent;
};

/* A guest that does not answer is found dead by the call that needs it. */
static void tell_missed(const struct beat *b, const struct err *err) {
    if (!cancel_thrown(b->l->torn_down)) {
        log_debug("sandbox '%s' missed a beat: %s", b->l->base.id, err->msg);
    }
}

/* All are sent before the first answer is waited for: a round among a thousand guests on a busy
 * machine would else take longer than a guest is patient. */
static void beat_some(struct beat *beats, size_t n) {
    deadline_ms until = deadline_in_s(ANSWER_S);
    for (size_t i = 0; i < n; i++) {
        struct err err = {0};
        beats[i].sent = guest_beat_send(&beats[i].call, &beats[i].l->guest, until, &err) == 0;
        if (!beats[i].sent) {
            tell_missed(&beats[i], &err);
        }
    }
    for (size_t i = 0; i < n; i++) {
        struct err err = {0};
        if (beats[i].sent && guest_beat_answer(&beats[i].call, &err) < 0) {
            tell_missed(&beats[i], &err);
        }
        guest_call_deinit(&beats[i].call);
    }
}

/* Those that are being beaten stay in the list, so the walk can go on from the last. */
static void beat_all(void) {
    static struct beat beats[AT_ONCE]; /* The thread's own. */
    pthread_mutex_lock(&lock);
    struct local *next = first;
    while (next) {
        size_t n = 0;
        for (struct local *l = next; l && n < AT_ONCE; l = l->next) {
            l->beating = true;
            beats[n++] = (struct beat){.l = l, .call = {.fd = -1}};
        }
        pthread_mutex_unlock(&lock);
        beat_some(beats, n);
        pthread_mutex_lock(&lock);
        next = beats[n - 1].l->next;
        for (size_t i = 0; i < n; i++) {
            beats[i].l->beating = false;
        }
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

/* With the lock held. */
static int start_thread(struct err *err) {
    if (thread_of == getpid()) {
        return 0;
    }
    pthread_t thread;
    int r = thread_start(&thread, 0, beat_for_ever, NULL);
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
