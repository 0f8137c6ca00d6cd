/* SPDX-License-Identifier: BSD-3-Clause */
#include "guest/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"

#define EXIT_NOT_RUN 127 /* The shell's code for a command that cannot be run. */

extern char **environ;

static void tell(int status_fd, enum spawn_event event, int value) {
    struct spawn_record record = {.event = event, .value = value};
    ssize_t n = write(status_fd, &record, sizeof record); /* Whole: far below PIPE_BUF. */
    (void)n;                                              /* The guest may be gone. */
}

static void reset_signals(void) {
    struct sigaction standard = {.sa_handler = SIG_DFL};
    for (int number = 1; number <= SIGRTMAX; number++) {
        sigaction(number, &standard, NULL); /* Refused for KILL, STOP and libc's own; fine. */
    }
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

static void become_command(const struct spawn_plan *plan, int error_fd) {
    setsid();
    reset_signals();
    setrlimit(RLIMIT_NOFILE, &plan->open_files);
    bool ready = fchdir(plan->cwd_fd) == 0;
    for (int i = 0; i < 3 && ready; i++) {
        ready = dup2(plan->stdio[i], i) == i;
    }
    ready = ready && dup2(error_fd, 3) == 3 && fcntl(3, F_SETFD, FD_CLOEXEC) == 0;
    if (ready) {
        fd_close_from(4);
        environ = (char **)plan->env;
        execvp(plan->argv[0], plan->argv);
    }
    int reason = errno;
    ssize_t n = write(ready ? 3 : error_fd, &reason, sizeof reason);
    (void)n;
    _exit(EXIT_NOT_RUN);
}

/* Waits for the command's execve; 0, or its errno. */
static int execve_result(int error_fd) {
    int reason = 0;
    ssize_t n;
    do {
        n = read(error_fd, &reason, sizeof reason);
    } while (n < 0 && errno == EINTR);
    return n == (ssize_t)sizeof reason ? reason : 0;
}

/* Reaps until nothing below is left. */
static void keep(pid_t command, int status_fd) {
    for (;;) {
        int status;
        pid_t pid = waitpid(-1, &status, 0);
        if (pid < 0 && errno != EINTR) {
            _exit(0);
        }
        if (pid == command) {
            tell(status_fd, SPAWN_EXITED, status);
        }
    }
}

/* All signals are blocked: the command may send any to everything it can see. */
static void become_keeper(const struct spawn_plan *plan, int status_fd) {
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    int error_pipe[2];
    if (pipe2(error_pipe, O_CLOEXEC) < 0) {
        tell(status_fd, SPAWN_FAILED, errno);
        _exit(EXIT_NOT_RUN);
    }
    pid_t command = fork();
    if (command < 0) {
        tell(status_fd, SPAWN_FAILED, errno);
        _exit(EXIT_NOT_RUN);
    }
    if (command == 0) {
        become_command(plan, error_pipe[1]);
    }
    close(error_pipe[1]);
    int reason = execve_result(error_pipe[0]);
    if (dup2(status_fd, 0) == 0) {
        fd_close_from(
            1); /* Among them the command's pipes: their end is for the command to make. */
    }
    tell(0, reason ? SPAWN_FAILED : SPAWN_STARTED, reason ? reason : command);
    keep(command, 0);
}

int spawn_keeper(const struct spawn_plan *plan, pid_t *keeper, int *status_fd, struct err *err) {
    int status[2];
    if (pipe2(status, O_CLOEXEC | O_NONBLOCK) < 0) {
        return err_sys(err, ERR_SYS, errno, "cannot make a pipe");
    }
    pid_t pid = fork();
    if (pid == 0) {
        become_keeper(plan, status[1]);
        _exit(EXIT_NOT_RUN);
    }
    int reason = errno;
    close(status[1]);
    if (pid < 0) {
        close(status[0]);
        return err_sys(err, reason == EAGAIN ? ERR_LIMIT : ERR_SYS, reason,
                       "cannot start a process");
    }
    *keeper = pid;
    *status_fd = status[0];
    return 0;
}
