/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "guest/job_private.h"
#include "guest/protocol.h"

static char scratch[PROTOCOL_BYTES_MAX]; /* Shared: nothing stays in it between two reads. */

static void close_stream(struct job_stream *s) {
    if (s->fd >= 0) {
        loop_drop(s->job->jobs->loop, &s->watch);
        close(s->fd);
        s->fd = -1;
    }
}

static void take_output(struct job_stream *s, size_t n) {
    struct job *job = s->job;
    s->total += n;
    s->last = scratch[n - 1];
    s->left -= s->is_bounded ? n : 0;
    if (job->events && job->events->output) {
        job->events->output(job->arg, s->number, (struct sv){scratch, n});
    }
}

static void on_output(struct loop_watch *w, short events) {
    (void)events;
    struct job_stream *s = LOOP_OWNER(w, struct job_stream, watch);
    struct job *job = s->job;
    if (job->events && job->events->has_room && !job->events->has_room(job->arg)) {
        loop_mute(job->jobs->loop, w); /* The command's own writes wait then. */
        return;
    }
    size_t want = s->is_bounded && s->left < sizeof scratch ? s->left : sizeof scratch;
    ssize_t n = want ? read(s->fd, scratch, want) : 0;
    if (n > 0) {
        take_output(s, (size_t)n);
    }
    bool is_over =
        n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR) || (s->is_bounded && s->left == 0);
    if (is_over) {
        close_stream(s);
        job_check_end(job);
    }
}

void job_resume_output(struct job *job) {
    for (int i = 0; i < 2; i++) {
        loop_want(job->jobs->loop, &job->streams[i].watch, POLLIN);
    }
}

void job_io_end_grace(struct job *job) {
    for (int i = 0; i < 2; i++) {
        struct job_stream *s = &job->streams[i];
        int waiting = 0;
        if (s->fd < 0) {
            continue;
        }
        if (ioctl(s->fd, FIONREAD, &waiting) < 0 || waiting <= 0) {
            close_stream(s);
            continue;
        }
        s->is_bounded = true;
        s->left = (size_t)waiting;
    }
}

static void close_input(struct job *job) {
    if (job->input_fd >= 0) {
        loop_drop(job->jobs->loop, &job->input_watch);
        close(job->input_fd);
        job->input_fd = -1;
    }
    buf_deinit(&job->input);
}

/* Writes what the pipe takes. A command that reads no more is no fault. */
static void flush_input(struct job *job) {
    size_t at = 0;
    ssize_t n = 0;
    while (job->input_fd >= 0 && at < job->input.len) {
        n = write(job->input_fd, job->input.data + at, job->input.len - at);
        if (n < 0) {
            break;
        }
        at += (size_t)n;
    }
    buf_consume(&job->input, at);
    bool is_refused = n < 0 && errno != EAGAIN && errno != EINTR;
    if (is_refused || (job->input_ended && job->input.len == 0)) {
        close_input(job);
    }
    loop_want(job->jobs->loop, &job->input_watch, job->input.len ? POLLOUT : 0);
}

static void on_input(struct loop_watch *w, short events) {
    struct job *job = LOOP_OWNER(w, struct job, input_watch);
    if (events & (POLLERR | POLLNVAL)) {
        close_input(job);
    } else {
        flush_input(job);
    }
    if (!job_has_input(job) && job->events && job->events->input_taken) {
        job->events->input_taken(job->arg);
    }
}

int job_add_input(struct job *job, struct sv bytes) {
    if (job->input_fd < 0) {
        return 0;
    }
    int r = buf_add_sv(&job->input, bytes);
    flush_input(job);
    return r;
}

void job_end_input(struct job *job) {
    job->input_ended = true;
    flush_input(job);
}

bool job_has_input(const struct job *job) {
    return job->input_fd >= 0 && job->input.len > 0;
}

bool job_wants_input(const struct job *job) {
    return job->command.has_input && !job->input_ended;
}

void job_io_init(struct job *job) {
    job->input_fd = -1;
    job->input.limit = JOB_INPUT_MAX;
    job->input_watch.on_ready = on_input;
    for (int i = 0; i < 2; i++) {
        job->streams[i] = (struct job_stream){.job = job, .fd = -1, .number = i + 1};
        job->streams[i].watch.on_ready = on_output;
    }
}

void job_io_close(struct job *job) {
    close_stream(&job->streams[0]);
    close_stream(&job->streams[1]);
    close_input(job);
}

/* One pipe: `ours` is non-blocking, the command's end is not. */
static int open_pipe(int *ours, int *theirs, bool is_input, struct err *err) {
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) < 0) {
        return err_sys(err, ERR_SYS, errno, "cannot make a pipe");
    }
    *ours = fds[is_input ? 1 : 0];
    *theirs = fds[is_input ? 0 : 1];
    fcntl(*ours, F_SETFL, O_NONBLOCK);
    return 0;
}

static int open_null(int *out_fd, int flags, struct err *err) {
    *out_fd = open("/dev/null", flags | O_CLOEXEC);
    return *out_fd < 0 ? err_sys(err, ERR_SYS, errno, "cannot open '/dev/null'") : 0;
}

static int open_input(struct job *job, int *child, struct err *err) {
    if (!job->command.has_input) {
        return open_null(child, O_RDONLY, err);
    }
    int r = open_pipe(&job->input_fd, child, true, err);
    if (r == 0 && loop_add(job->jobs->loop, &job->input_watch, job->input_fd, 0) < 0) {
        r = err_set(err, ERR_NOMEM, "out of memory");
    }
    return r;
}

static int open_output(struct job *job, int i, int *child, struct err *err) {
    struct job_stream *s = &job->streams[i];
    int file = i ? job->command.stderr_fd : job->command.stdout_fd;
    if (!job->command.is_detached) {
        int r = open_pipe(&s->fd, child, false, err);
        if (r == 0 && loop_add(job->jobs->loop, &s->watch, s->fd, POLLIN) < 0) {
            r = err_set(err, ERR_NOMEM, "out of memory");
        }
        return r;
    }
    if (file < 0) {
        return open_null(child, O_WRONLY, err);
    }
    *child = fcntl(file, F_DUPFD_CLOEXEC, 3);
    return *child < 0 ? err_sys(err, ERR_SYS, errno, "cannot copy a descriptor") : 0;
}

int job_io_open(struct job *job, int child[3], struct err *err) {
    int r = open_input(job, &child[0], err);
    for (int i = 0; i < 2 && r == 0; i++) {
        r = open_output(job, i, &child[i + 1], err);
    }
    return r;
}

/* On a line of its own, whatever stands before. */
void job_io_append_line(int fd, const char *line) {
    struct stat st;
    char last = '\n';
    if (fd < 0 || fstat(fd, &st) < 0) {
        return;
    }
    if (st.st_size > 0 && pread(fd, &last, 1, st.st_size - 1) != 1) {
        last = '\n';
    }
    struct sv parts[2] = {last == '\n' ? SV("") : SV("\n"), sv_from(line)};
    for (int i = 0; i < 2; i++) {
        ssize_t n = parts[i].n ? write(fd, parts[i].p, parts[i].n) : 0;
        (void)n; /* A full disk loses the line, not the record. */
    }
}
