/* SPDX-License-Identifier: BSD-3-Clause */
#include "guest/guard.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"

static void become(const char *program, char *const *argv, pid_t parent, const sigset_t *before) {
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* For as long as it lasts. */
    if (getppid() != parent) {
        _exit(127);
    }
    sigprocmask(SIG_SETMASK, before, NULL);
    execv(program, argv);
    fprintf(stderr, "cannot start '%s': %s\n", program, strerror(errno));
    _exit(127);
}

/* True when it has ended, with its status. */
static bool has_ended(pid_t pid, int options, int *status) {
    pid_t got;
    do {
        got = waitpid(pid, status, options);
    } while (got < 0 && errno == EINTR);
    return got == pid;
}

int guard(const char *program, char *const *argv, struct err *err) {
    sigset_t ours;
    sigset_t before;
    int sig = 0;
    int status = 0;
    sigemptyset(&ours);
    sigaddset(&ours, SIGTERM);
    sigaddset(&ours, SIGCHLD);
    sigprocmask(SIG_BLOCK, &ours, &before);
    /* Until now it was SIGKILL, and nothing there to take along. */
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    pid_t self = getpid();
    pid_t pid = fork();
    if (pid < 0) {
        return err_sys(err, ERR_SYS, errno, "cannot start a process for '%s'", program);
    }
    if (pid == 0) {
        become(program, argv, self, &before);
    }
    fd_close_from(3);
    do {
        sigwait(&ours, &sig);
        if (sig == SIGTERM) {
            kill(pid, SIGKILL);
        }
    } while (!has_ended(pid, sig == SIGTERM ? 0 : WNOHANG, &status));
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
