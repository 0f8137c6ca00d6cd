/* SPDX-License-Identifier: BSD-3-Clause */
/* A command in the foreground: a thread reads its output and posts it to the loop, line by line. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "tests/doubles/hub/sbx.h"

#define READ_BYTES (32 * 1024)
#define PING_MS 15000
#define DRAIN_MS 2000 /* Generations 2 and 3 wait so long for output after the end. */

struct exec {
    struct sbx *sbx;
    struct exchange *x;
    pid_t pid;
    int pid_fd;
    int fds[2]; /* stdout, stderr; -1 once at its end. */
    int64_t started_ms;
    deadline_ms until;
    bool timed_out;
    bool full;
};

struct line {
    struct exec *exec;
    json_t *event;
    bool last;
};

static void on_line(void *arg) {
    struct line *l = arg;
    struct exec *e = l->exec;
    char *text = json_dumps(l->event, JSON_SORT_KEYS | JSON_COMPACT);
    AUTO_FREE char *with_end = mem_printf("%s\n", text ? text : "{}");
    free(text);
    (void)exchange_send(e->x, sv_from(with_end));
    e->full = exchange_is_full(e->x);
    if (l->last) {
        exchange_end(e->x);
        e->sbx->executing--;
        e->sbx->active_ms = e->sbx->protocol > 1 ? clock_ms() : e->sbx->active_ms;
    }
}

static void look_full(void *arg) {
    struct exec *e = arg;
    e->full = exchange_is_full(e->x);
}

/* Takes `event`. */
static void tell(struct exec *e, json_t *event, bool last) {
    struct line l = {e, event, last};
    loop_call(e->sbx->loop, on_line, &l);
    json_decref(event);
    while (!last && e->full) {
        clock_sleep_ms(5);
        loop_call(e->sbx->loop, look_full, e);
    }
}

/* True while there may be more. */
static bool pass_on(struct exec *e, int i, bool drop) {
    char bytes[READ_BYTES];
    ssize_t n = read(e->fds[i], bytes, sizeof bytes);
    if (n <= 0) {
        close(e->fds[i]);
        e->fds[i] = -1;
        return false;
    }
    if (!drop) { /* Each read is decoded for itself, as the real one does it. */
        tell(e,
             json_pack("{s:s, s:o}", "event", i == 0 ? "stdout" : "stderr", "data",
                       json_text((struct sv){bytes, (size_t)n})),
             false);
    }
    return true;
}

static int wait_ms(const struct exec *e) {
    int64_t left = e->until == DEADLINE_NEVER ? PING_MS : deadline_left_ms(e->until);
    return (int)(left < PING_MS ? left : PING_MS);
}

/* Until the process has ended. */
static void follow(struct exec *e) {
    for (;;) {
        struct pollfd p[3] = {{.fd = e->pid_fd, .events = POLLIN},
                              {.fd = e->fds[0], .events = POLLIN},
                              {.fd = e->fds[1], .events = POLLIN}};
        int n = poll(p, 3, wait_ms(e));
        bool ended = n > 0 && p[0].revents;
        if (ended && e->sbx->protocol == 1) {
            return;
        }
        for (int i = 0; i < 2; i++) {
            if (n > 0 && p[i + 1].revents) {
                (void)pass_on(e, i, e->sbx->loses_output);
            }
        }
        if (ended) {
            return;
        }
        if (!e->timed_out && deadline_passed(e->until)) {
            e->timed_out = true;
            e->until = DEADLINE_NEVER;
            kill(-e->pid, SIGKILL);
        } else if (n == 0) {
            tell(e, json_pack("{s:s}", "event", "ping"), false);
        }
    }
}

static void drain(struct exec *e) {
    deadline_ms until = deadline_in_ms(DRAIN_MS);
    while ((e->fds[0] >= 0 || e->fds[1] >= 0) && !deadline_passed(until)) {
        struct pollfd p[2] = {{.fd = e->fds[0], .events = POLLIN},
                              {.fd = e->fds[1], .events = POLLIN}};
        if (poll(p, 2, deadline_poll_ms(until)) <= 0) {
            break;
        }
        for (int i = 0; i < 2; i++) {
            if (p[i].revents) {
                (void)pass_on(e, i, false);
            }
        }
    }
}

static json_t *end_of(const struct exec *e, int status) {
    return json_pack("{s:s, s:o, s:o, s:b, s:I}", "event", "exit", "exit_code",
                     WIFEXITED(status) ? json_integer(WEXITSTATUS(status)) : json_null(), "signal",
                     WIFSIGNALED(status) ? json_integer(WTERMSIG(status)) : json_null(),
                     "timed_out", e->timed_out, "duration_ms",
                     (json_int_t)(clock_ms() - e->started_ms));
}

static void *run(void *arg) {
    struct exec *e = arg;
    int status = 0;
    tell(e, json_pack("{s:s, s:i}", "event", "start", "pid", (int)e->pid), false);
    follow(e);
    (void)waitpid(e->pid, &status, 0);
    if (e->sbx->protocol > 1) {
        drain(e);
    }
    tell(e, end_of(e, status), true);
    for (int i = 0; i < 2; i++) {
        if (e->fds[i] >= 0) {
            close(e->fds[i]);
        }
    }
    close(e->pid_fd);
    free(e);
    return NULL;
}

/* 0, or a negative errno with nothing left behind. */
static int start(struct exec *e, const struct sbx_command *c) {
    int out[2];
    int err[2];
    if (pipe2(out, O_CLOEXEC) < 0) {
        return -errno;
    }
    if (pipe2(err, O_CLOEXEC) < 0) {
        close(out[0]);
        close(out[1]);
        return -ENFILE;
    }
    e->pid = sbx_spawn(c, out[1], err[1]);
    close(out[1]);
    close(err[1]);
    if (e->pid < 0) {
        close(out[0]);
        close(err[0]);
        return (int)e->pid;
    }
    e->pid_fd = (int)syscall(SYS_pidfd_open, e->pid, 0);
    e->fds[0] = out[0];
    e->fds[1] = err[0];
    return 0;
}

void sbx_exec(struct sbx *s, struct exchange *x) {
    struct sbx_command c = {0};
    if (sbx_command_read(x, &c) < 0) {
        return;
    }
    if (json_is_true(json_object_get(c.body, "background"))) {
        sbx_start_background(s, x, &c, false);
        return;
    }
    struct exec *e = calloc(1, sizeof *e);
    int r = e ? 0 : -ENOMEM;
    if (r == 0) {
        *e = (struct exec){.sbx = s, .x = x, .started_ms = clock_ms(), .until = c.until};
        r = start(e, &c);
    }
    if (r < 0) {
        sbx_fail_spawn(x, &c, -r);
        sbx_command_deinit(&c);
        free(e);
        return;
    }
    sbx_command_deinit(&c);
    s->executing++;
    const struct server_field fields[] = {{SV("Content-Type"), SV("application/x-ndjson")},
                                          {SV("X-Accel-Buffering"), SV("no")}};
    (void)exchange_start(x, 200, fields, 2, HTTP1_CHUNKED, 0);
    pthread_t thread;
    if (pthread_create(&thread, NULL, run, e) == 0) {
        pthread_detach(thread);
    } else {
        exchange_cut(x, EXCHANGE_CUT_RESET);
        s->executing--;
        kill(-e->pid, SIGKILL);
        free(e);
    }
}
