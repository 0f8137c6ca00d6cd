/* SPDX-License-Identifier: BSD-3-Clause */
#include "guest/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"

#define KERNEL_SIGNALS 64 /* _NSIG of every machine but MIPS. */
#define EXIT_NOT_RUN 127  /* The shell's code for a command that cannot be run. */

extern char **environ;

static void tell(int fd, enum spawn_event event, int value) {
    struct spawn_record record = {.event = event, .value = value};
    ssize_t n = write(fd, &record, sizeof record); /* Whole: far below PIPE_BUF. */
    (void)n;                                       /* The guest may be gone. */
}

/* By the kernel's own call: libc keeps some numbers for itself, and whoever started the guest may
 * have ignored those too. All zero is SIG_DFL in the kernel's struct. */
static void reset_signals(void) {
    static const unsigned long standard[16];
    for (int number = 1; number <= KERNEL_SIGNALS; number++) {
        syscall(SYS_rt_sigaction, number, standard, NULL, KERNEL_SIGNALS / 8);
    }
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

bool become_user(uint32_t user) {
    return user == 0 || (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && setgroups(0, NULL) == 0 &&
                         setgid(user) == 0 && setuid(user) == 0);
}

static void become_command(const struct spawn_plan *plan, int start_fd) {
    setsid();
    reset_signals();
    tell(start_fd, SPAWN_PID, getpid());
    setrlimit(RLIMIT_NOFILE, &plan->open_files);
    bool ready = fchdir(plan->cwd_fd) == 0 && become_user(plan->user);
    for (int i = 0; i < 3 && ready; i++) {
        ready = dup2(plan->stdio[i], i) == i;
    }
    if (ready && dup2(start_fd, 3) == 3 && fcntl(3, F_SETFD, FD_CLOEXEC) == 0) {
        start_fd = 3;
        fd_close_from(4);
        environ = (char **)plan->env;
        execvp(plan->argv[0], plan->argv);
    }
    tell(start_fd, SPAWN_FAILED, errno);
    _exit(EXIT_NOT_RUN);
}

/* Reaps until nothing below is left. The command is looked at first and reaped after it was told:
 * a keeper that is killed in between leaves it to the guest, with its status. */
static void keep(pid_t command, int status_fd) {
    siginfo_t info;
    while (waitid(P_ALL, 0, &info, WEXITED | WNOWAIT) == 0) {
        if (info.si_pid == command) {
            int status = info.si_code == CLD_EXITED ? (info.si_status & 0xff) << 8 : info.si_status;
            tell(status_fd, SPAWN_EXITED, status);
        }
        waitpid(info.si_pid, NULL, 0);
    }
    _exit(0);
}

/* All signals are blocked: the command may send any to everything it can see. */
static void become_keeper(const struct spawn_plan *plan, int start_fd, int status_fd) {
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    pid_t command = fork();
    if (command == 0) {
        become_command(plan, start_fd);
    }
    if (command < 0) {
        tell(start_fd, SPAWN_FAILED, errno);
        _exit(EXIT_NOT_RUN);
    }
    if (dup2(status_fd, 0) == 0) {
        fd_close_from(1); /* `start` and the command's pipes: their ends are for it to make. */
    }
    keep(command, 0);
}

static int open_pipes(int start[2], int status[2], struct err *err) {
    if (pipe2(start, O_CLOEXEC | O_NONBLOCK) < 0) {
        return err_sys(err, ERR_SYS, errno, "cannot make a pipe");
    }
    if (pipe2(status, O_CLOEXEC | O_NONBLOCK) < 0) {
        int reason = errno;
        close(start[0]);
        close(start[1]);
        return err_sys(err, ERR_SYS, reason, "cannot make a pipe");
    }
    return 0;
}

int spawn_keeper(const struct spawn_plan *plan, struct spawned *out, struct err *err) {
    int start[2];
    int status[2];
    int r = open_pipes(start, status, err);
    if (r < 0) {
        return r;
    }
    pid_t pid = fork();
    if (pid == 0) {
        become_keeper(plan, start[1], status[1]);
        _exit(EXIT_NOT_RUN);
    }
    int reason = errno;
    close(start[1]);
    close(status[1]);
    if (pid < 0) {
        close(start[0]);
        close(status[0]);
        return err_sys(err, reason == EAGAIN ? ERR_LIMIT : ERR_SYS, reason,
                       "cannot start a process");
    }
    *out = (struct spawned){.keeper = pid, .start_fd = start[0], .status_fd = status[0]};
    return 0;
}
