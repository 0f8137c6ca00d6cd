/* SPDX-License-Identifier: BSD-3-Clause */
#include "guest/self.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/fd.h"

static bool is_kept(const int *kept, size_t n, int fd) {
    for (size_t i = 0; i < n; i++) {
        if (kept[i] == fd) {
            return true;
        }
    }
    return false;
}

void self_close_strays(const int *kept, size_t n) {
    int top = 2;
    for (size_t i = 0; i < n; i++) {
        top = kept[i] > top ? kept[i] : top;
        if (kept[i] >= 0) {
            fcntl(kept[i], F_SETFD, FD_CLOEXEC);
        }
    }
    for (int fd = 3; fd < top; fd++) {
        if (!is_kept(kept, n, fd)) {
            close(fd);
        }
    }
    fd_close_from(top + 1);
    int fd = open("/dev/null", O_RDWR); /* Takes the lowest that is free. */
    while (fd >= 0 && fd < 3) {
        fd = open("/dev/null", O_RDWR);
    }
    if (fd >= 0) {
        close(fd);
    }
}

int self_harden(struct err *err) {
    struct rlimit none = {0};
    if (prctl(PR_SET_DUMPABLE, 0) < 0 || prctl(PR_SET_CHILD_SUBREAPER, 1) < 0 ||
        setrlimit(RLIMIT_CORE, &none) < 0) {
        return err_sys(err, ERR_SYS, errno, "cannot protect the guest's own process");
    }
    return 0;
}

int self_limit_processes(unsigned long processes, struct err *err) {
    struct rlimit limit = {.rlim_cur = processes, .rlim_max = processes};
    if (processes && setrlimit(RLIMIT_NPROC, &limit) < 0) {
        return err_sys(err, ERR_SYS, errno, "cannot limit processes to %lu", processes);
    }
    return 0;
}

/* The kernel lets nobody inside forge a plain kill() from process 0, which is one that has no
 * number here. */
static bool is_heard(const struct signalfd_siginfo *info) {
    return getpid() != 1 || (info->ssi_code == SI_USER && info->ssi_pid == 0);
}

static void on_signal(struct loop_watch *w, short events) {
    (void)events;
    struct self_signals *s = LOOP_OWNER(w, struct self_signals, watch);
    struct signalfd_siginfo info;
    bool has_child = false;
    bool has_end = false;
    while (read(s->fd, &info, sizeof info) == (ssize_t)sizeof info) {
        has_child = has_child || info.ssi_signo == SIGCHLD;
        has_end = has_end || (info.ssi_signo != SIGCHLD && is_heard(&info));
    }
    if (has_child) {
        s->on_child(s->arg);
    }
    if (has_end) {
        s->on_end(s->arg);
    }
}

int self_catch_signals(struct self_signals *s, struct loop *loop, struct err *err) {
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigaction(SIGPIPE, &ignore, NULL);
    sigaction(SIGXFSZ, &ignore, NULL); /* A file limit is an error of one write. */
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    sigprocmask(SIG_SETMASK, &set, NULL);
    s->watch.on_ready = on_signal;
    s->fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (s->fd < 0) {
        return err_sys(err, ERR_SYS, errno, "cannot receive signals");
    }
    if (loop_add(loop, &s->watch, s->fd, POLLIN) < 0) {
        close(s->fd);
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    return 0;
}
