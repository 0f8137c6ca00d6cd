/* SPDX-License-Identifier: BSD-3-Clause */
#include "sandbox/spawner.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/thread.h"
#include "sandbox/spawn_child.h"

struct request {
    const struct spawn *what;
    int report_fd;
    pid_t pid; /* The child's, or minus errno; 0 until the thread has answered. */
    struct request *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t asked = PTHREAD_COND_INITIALIZER;
static pthread_cond_t answered = PTHREAD_COND_INITIALIZER;
static struct request *first;
static struct request **last = &first;
static pid_t spawner_of; /* The process that the thread runs in; 0: none yet. */

/* The thread sanitizer knows of fork alone: after _Fork it takes the child for a thread of ours,
 * and ends it, now and then, for a race about a descriptor that another thread made meanwhile. */
#ifdef __SANITIZE_THREAD__
#define FORK fork
#else
#define FORK _Fork
#endif

static pid_t fork_child(const struct request *r) {
    pid_t self = getpid();
    pid_t pid = FORK();
    if (pid == 0) {
        spawn_child_run(r->what, self, r->report_fd);
    }
    return pid > 0 ? pid : -errno;
}

static void *serve(void *arg) {
    pthread_mutex_lock(&lock);
    for (;;) {
        while (!first) {
            pthread_cond_wait(&asked, &lock);
        }
        struct request *r = first;
        first = r->next;
        last = first ? last : &first;
        pthread_mutex_unlock(&lock);
        pid_t pid = fork_child(r);
        pthread_mutex_lock(&lock);
        r->pid = pid;
        pthread_cond_broadcast(&answered);
    }
    return arg;
}

/* With the lock held. */
static int start_thread(struct err *err) {
    if (spawner_of == getpid()) {
        return 0;
    }
    pthread_t thread;
    int r = thread_start(&thread, 0, serve, NULL);
    if (r != 0) {
        return err_sys(err, ERR_SYS, r, "cannot start the spawner thread");
    }
    pthread_detach(thread);
    spawner_of = getpid();
    return 0;
}

static int ask(struct request *r, struct err *err) {
    pthread_mutex_lock(&lock);
    int result = start_thread(err);
    if (result == 0) {
        *last = r;
        last = &r->next;
        pthread_cond_signal(&asked);
        while (r->pid == 0) {
            pthread_cond_wait(&answered, &lock);
        }
    }
    pthread_mutex_unlock(&lock);
    return result;
}

/* The report's end without a word means that the program runs. */
static int read_report(int fd, const struct request *r, struct err *err) {
    struct spawn_failure f;
    ssize_t n;
    do {
        n = read(fd, &f, sizeof f);
    } while (n < 0 && errno == EINTR);
    if (n == 0) {
        return 0;
    }
    while (waitpid(r->pid, NULL, 0) < 0 && errno == EINTR) {
    }
    if (n != sizeof f) {
        return err_set(err, ERR_SYS, "cannot start '%s'", r->what->program);
    }
    int code = f.step == SPAWN_STEP_MOUNT ? ERR_UNSUPPORTED
               : f.sys == ENOENT          ? ERR_ENVIRONMENT
                                          : ERR_SYS;
    return err_sys(err, code, f.sys, "cannot start '%s': it could not %s", r->what->program,
                   spawn_step_names[f.step]);
}

int spawner_start(const struct spawn *what, pid_t *out_pid, struct err *err) {
    BUG_IF(what->n_fds > SPAWN_FDS_MAX || what->program[0] != '/');
    int report[2];
    if (pipe2(report, O_CLOEXEC) < 0) {
        return err_sys(err, ERR_SYS, errno, "cannot make a pipe");
    }
    struct request r = {.what = what, .report_fd = report[1]};
    int result = ask(&r, err);
    close(report[1]);
    if (result == 0 && r.pid < 0) {
        result = err_sys(err, ERR_SYS, -r.pid, "cannot start a process for '%s'", what->program);
    }
    if (result == 0) {
        result = read_report(report[0], &r, err);
    }
    close(report[0]);
    if (result == 0) {
        *out_pid = r.pid;
    }
    return result;
}
