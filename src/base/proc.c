/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"

#define OUTPUT_MAX_DEFAULT 65536 /* The tail of npm's talk that explains a failure. */

extern char **environ;

void proc_result_deinit(struct proc_result *r) {
    buf_deinit(&r->out);
    buf_deinit(&r->err);
}

char *proc_find(const char *name) {
    if (strchr(name, '/')) {
        return access(name, X_OK) == 0 ? mem_strdup(name) : NULL;
    }
    const char *path = getenv("PATH");
    struct sv rest = sv_from(path ? path : "/usr/local/bin:/usr/bin:/bin");
    while (rest.n > 0) {
        size_t n = sv_find(rest, SV(":"));
        n = n == (size_t)-1 ? rest.n : n;
        AUTO_FREE char *file = mem_printf("%.*s/%s", (int)n, rest.p, name);
        if (file && n > 0 && access(file, X_OK) == 0) {
            return TAKE(file);
        }
        rest = sv_cut(rest, n + 1);
    }
    return NULL;
}

static int spawn_piped(const struct proc_options *o, const char *file, int out_fd, int err_fd,
                       pid_t *pid) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    sigset_t none;
    sigset_t standard;
    sigemptyset(&none);
    sigemptyset(&standard);
    sigaddset(&standard, SIGPIPE);
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK |
                                        POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setsigdefault(&attr, &standard);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, out_fd, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, err_fd, STDERR_FILENO);
    if (o->cwd) {
        posix_spawn_file_actions_addchdir_np(&actions, o->cwd);
    }
    int r = posix_spawn(pid, file, &actions, &attr, (char *const *)o->argv,
                        o->env ? (char *const *)o->env : environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attr);
    return r;
}

/* Keeps the last `max` bytes; true while the stream is open. */
static bool drain(int fd, struct buf *tail, size_t max) {
    char piece[16384];
    ssize_t n = read(fd, piece, sizeof piece);
    if (n <= 0) {
        return n < 0 && (errno == EINTR || errno == EAGAIN);
    }
    if (buf_add(tail, piece, (size_t)n) == 0 && tail->len > 2 * max) {
        buf_consume(tail, tail->len - max);
    }
    return true;
}

static int collect(const struct proc_options *o, int fds[2], struct proc_result *out,
                   struct err *err) {
    size_t max = o->output_max ? o->output_max : OUTPUT_MAX_DEFAULT;
    deadline_ms until = o->deadline ? o->deadline : DEADLINE_NEVER;
    while (fds[0] >= 0 || fds[1] >= 0) {
        struct pollfd p[3] = {
            {.fd = fds[0], .events = POLLIN},
            {.fd = fds[1], .events = POLLIN},
            {.fd = cancel_fd(o->cancel), .events = POLLIN},
        };
        if (poll(p, 3, deadline_poll_ms(until)) < 0 && errno != EINTR) {
            return err_sys(err, ERR_SYS, errno, "cannot wait for '%s'", o->argv[0]);
        }
        if (cancel_thrown(o->cancel)) {
            return err_set(err, ERR_CANCELLED, "cancelled while '%s' ran", o->argv[0]);
        }
        if (deadline_passed(until)) {
            return err_set(err, ERR_TIMEOUT, "'%s' ran out of time", o->argv[0]);
        }
        for (int i = 0; i < 2; i++) {
            if (fds[i] >= 0 && p[i].revents && !drain(fds[i], i ? &out->err : &out->out, max)) {
                close(fds[i]);
                fds[i] = -1;
            }
        }
    }
    return 0;
}

static int reap(pid_t pid) {
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int proc_run(const struct proc_options *o, struct proc_result *out, struct err *err) {
    AUTO_FREE char *file = proc_find(o->argv[0]);
    if (!file) {
        return err_set(err, ERR_NOT_FOUND, "no program '%s' in PATH", o->argv[0]);
    }
    int out_pipe[2];
    int err_pipe[2];
    if (pipe2(out_pipe, O_CLOEXEC) < 0) {
        return err_sys(err, ERR_SYS, errno, "cannot make a pipe");
    }
    if (pipe2(err_pipe, O_CLOEXEC) < 0) {
        close(out_pipe[0]);
        close(out_pipe[1]);
        return err_sys(err, ERR_SYS, errno, "cannot make a pipe");
    }
    pid_t pid;
    int r = spawn_piped(o, file, out_pipe[1], err_pipe[1], &pid);
    close(out_pipe[1]);
    close(err_pipe[1]);
    int fds[2] = {out_pipe[0], err_pipe[0]};
    if (r != 0) {
        r = err_sys(err, ERR_SYS, r, "cannot start '%s'", file);
    } else {
        r = collect(o, fds, out, err);
        if (r < 0) {
            kill(-pid, SIGKILL);
        }
        out->exit_code = reap(pid);
    }
    mem_auto_close(&fds[0]);
    mem_auto_close(&fds[1]);
    return r;
}
