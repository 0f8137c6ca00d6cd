/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"
#include "guest/conn.h"

#define WAIT_MAX_MS (24LL * 3600 * 1000) /* A host that waits longer asks again. */
#define SIGNAL_MAX 64                    /* The kernel's _NSIG. */

bool conn_takes_frame(const struct conn *c) {
    switch (c->request) {
    case CONN_NONE:
        return !c->server->watch.is_killing; /* What comes next is to be spared. */
    case CONN_WRITE:
    case CONN_WRITE_FAILED:
        return true;
    case CONN_EXEC:
        return !c->job || !job_has_input(c->job);
    case CONN_START:
        return c->job && job_wants_input(c->job);
    case CONN_WAIT:
    case CONN_KILL:
    case CONN_KILL_ALL:
    case CONN_READ:
        break;
    }
    return false;
}

/* The open request's last frame but for what `frame` adds; the connection is free after it. */
static void finish(struct conn *c, struct protocol_out *frame) {
    conn_end_request(c);
    conn_send(c, frame);
    conn_resume(c);
}

static void finish_done(struct conn *c) {
    struct protocol_out o = protocol_begin(&c->out, PROTOCOL_DONE, c->id);
    finish(c, &o);
}

static void finish_error(struct conn *c, const struct err *err) {
    conn_end_request(c);
    conn_send_error(c, c->id, err);
    conn_resume(c);
}

static void finish_exit(struct conn *c, const struct job *job) {
    struct protocol_out o = protocol_begin(&c->out, PROTOCOL_EXIT, c->id);
    protocol_add_u64(&o, PROTOCOL_JOB, job->number);
    protocol_add_u64(&o, PROTOCOL_EXIT_CODE, (uint64_t)job->exit_code);
    protocol_add_u64(&o, PROTOCOL_TIMED_OUT, job->is_timed_out);
    protocol_add_u64(&o, PROTOCOL_OUT_TOTAL, job->streams[0].total);
    protocol_add_u64(&o, PROTOCOL_ERR_TOTAL, job->streams[1].total);
    finish(c, &o);
}

/* A detached command has started and all its input is here: it goes on by itself. */
static void let_go(struct conn *c, struct job *job) {
    c->job = NULL;
    job_disown(job);
    struct protocol_out o = protocol_begin(&c->out, PROTOCOL_DONE, c->id);
    protocol_add_u64(&o, PROTOCOL_JOB, job->number);
    finish(c, &o);
}

static void on_started(void *arg, struct job *job) {
    struct conn *c = arg;
    if (c->request == CONN_START && !job_wants_input(job)) {
        let_go(c, job);
    }
}

static void on_failed(void *arg, const struct err *err) {
    struct conn *c = arg;
    c->job = NULL;
    finish_error(c, err);
}

static bool on_has_room(void *arg) {
    return conn_has_room(arg);
}

static void on_output(void *arg, int stream, struct sv bytes) {
    struct conn *c = arg;
    struct protocol_out o = protocol_begin(&c->out, PROTOCOL_OUTPUT, c->id);
    protocol_add_u64(&o, PROTOCOL_STREAM, (uint64_t)stream);
    protocol_add(&o, PROTOCOL_BYTES, bytes);
    conn_send(c, &o);
}

static void on_input_taken(void *arg) {
    conn_resume(arg);
}

static void on_ended(void *arg, struct job *job) {
    struct conn *c = arg;
    c->job = NULL;
    finish_exit(c, job);
}

static const struct job_events job_events = {
    .started = on_started,
    .failed = on_failed,
    .has_room = on_has_room,
    .output = on_output,
    .input_taken = on_input_taken,
    .ended = on_ended,
};

static int start(struct conn *c, struct sv fields, struct err *err) {
    if (c->server->kill_all.is_running) {
        return err_set(err, ERR_STATE, "everything is being killed: start it after that");
    }
    struct command command;
    int r = command_parse(fields, c->dir_fd, &command, err);
    if (r < 0) {
        return r;
    }
    c->request = command.is_detached ? CONN_START : CONN_EXEC;
    return jobs_start(&c->server->jobs, &command, &job_events, c, &c->job, err);
}

static int input(struct conn *c, struct sv fields, struct err *err) {
    struct sv bytes = SV("");
    (void)protocol_find(fields, PROTOCOL_BYTES, &bytes);
    bool is_end = protocol_u64(fields, PROTOCOL_END, 0) != 0;
    int r = 0;
    if ((c->request == CONN_EXEC || c->request == CONN_START) && c->job) {
        r = job_add_input(c->job, bytes);
        if (r < 0) {
            return err_set(err, r, "the command's input is too long to be held");
        }
        if (is_end) {
            job_end_input(c->job);
        }
        if (c->request == CONN_START && c->job->start_fd < 0 && !job_wants_input(c->job)) {
            let_go(c, c->job);
        }
    } else if (c->request == CONN_WRITE) {
        r = files_write_add(&c->write, bytes, err);
        r = r == 0 && is_end ? files_write_commit(&c->write, err) : r;
        if (r == 0 && is_end) {
            finish_done(c);
        } else if (r < 0 && !is_end) {
            conn_send_error(c, c->id, err);
            conn_end_request(c);
            c->request = CONN_WRITE_FAILED;
            r = 0;
        }
    } else if (c->request == CONN_WRITE_FAILED && is_end) {
        conn_end_request(c);
    }
    return r;
}

static struct job *find_job(const struct conn *c, struct sv fields, struct err *err) {
    uint64_t number = protocol_u64(fields, PROTOCOL_JOB, 0);
    struct job *job = number <= UINT32_MAX ? jobs_find(&c->server->jobs, (uint32_t)number) : NULL;
    if (!job) {
        (void)err_set(err, ERR_NOT_FOUND, "no job %llu here", (unsigned long long)number);
    }
    return job;
}

static deadline_ms expiry_of(struct sv fields) {
    uint64_t ms = protocol_u64(fields, PROTOCOL_TIMEOUT_MS, WAIT_MAX_MS);
    return deadline_in_ms(ms < WAIT_MAX_MS ? (int64_t)ms : WAIT_MAX_MS);
}

void conn_job_changed(struct conn *c) {
    if (c->request != CONN_WAIT && c->request != CONN_KILL) {
        return;
    }
    const struct job *job = jobs_find(&c->server->jobs, c->job_number);
    if (!job) { /* Its record was pushed out, or it was an attached one: it is over. */
        struct err err;
        (void)err_set(&err, ERR_NOT_FOUND, "no job %u here any more", c->job_number);
        finish_error(c, &err);
    } else if (c->request == CONN_WAIT && job->has_ended) {
        finish_exit(c, job);
    } else if (c->request == CONN_KILL && job->is_stuck) {
        struct err err;
        (void)err_set(&err, ERR_TIMEOUT, "job %u has processes that SIGKILL does not end",
                      job->number);
        finish_error(c, &err);
    } else if (c->request == CONN_KILL && job->is_gone) {
        finish_done(c);
    }
}

static int wait_job(struct conn *c, struct sv fields, struct err *err) {
    const struct job *job = find_job(c, fields, err);
    if (!job) {
        return ERR_NOT_FOUND;
    }
    c->request = CONN_WAIT;
    c->job_number = job->number;
    loop_arm(c->server->loop, &c->expiry, expiry_of(fields));
    conn_job_changed(c);
    return 0;
}

static int signal_job(struct conn *c, struct sv fields, struct err *err) {
    uint64_t number = protocol_u64(fields, PROTOCOL_SIGNAL_NUMBER, SIGKILL);
    struct job *job = find_job(c, fields, err);
    if (!job) {
        return ERR_NOT_FOUND;
    }
    if (number < 1 || number > SIGNAL_MAX) {
        return err_set(err, ERR_INPUT, "no signal %llu", (unsigned long long)number);
    }
    if (number != SIGKILL) {
        int r = job_signal(job, (int)number, err);
        if (r == 0) {
            finish_done(c);
        }
        return r;
    }
    c->request = CONN_KILL;
    c->job_number = job->number;
    job_kill(job);
    conn_job_changed(c);
    return 0;
}

static int kill_everything(struct conn *c, struct sv fields, struct err *err) {
    (void)err;
    deadline_ms until = expiry_of(fields);
    c->request = CONN_KILL_ALL;
    kill_all_start(&c->server->kill_all, until);
    return 0;
}

void conn_kill_all_ended(struct conn *c, int left) {
    if (c->request != CONN_KILL_ALL) {
        return;
    }
    if (left == 0) {
        finish_done(c);
        return;
    }
    struct err err;
    (void)err_set(&err, ERR_TIMEOUT, "%d processes are still there after SIGKILL", left);
    finish_error(c, &err);
}

static int take_path(struct sv fields, char **out, struct err *err) {
    struct sv path = SV("");
    (void)protocol_find(fields, PROTOCOL_PATH, &path);
    return files_path(path, out, err);
}

static int read_file(struct conn *c, struct sv fields, struct err *err) {
    AUTO_FREE char *path = NULL;
    uint64_t size;
    int r = take_path(fields, &path, err);
    if (r == 0) {
        r = files_open_read(c->dir_fd, path, &c->file_fd, &size, err);
    }
    if (r < 0) {
        return r;
    }
    c->request = CONN_READ;
    c->offset = protocol_u64(fields, PROTOCOL_OFFSET, 0);
    c->left = protocol_u64(fields, PROTOCOL_LENGTH, UINT64_MAX);
    conn_read_more(c);
    return 0;
}

void conn_read_more(struct conn *c) {
    static char scratch[PROTOCOL_BYTES_MAX]; /* Shared: nothing stays in it. */
    while (c->request == CONN_READ && !c->is_closing && conn_has_room(c)) {
        size_t want = c->left < sizeof scratch ? (size_t)c->left : sizeof scratch;
        bool is_past = c->offset > INT64_MAX - sizeof scratch;
        ssize_t n = want && !is_past ? pread(c->file_fd, scratch, want, (off_t)c->offset) : 0;
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            struct err err;
            (void)err_sys(&err, ERR_SYS, errno, "cannot read the file");
            finish_error(c, &err);
        } else if (n == 0) {
            finish_done(c);
        } else {
            c->offset += (uint64_t)n;
            c->left -= (uint64_t)n;
            struct protocol_out o = protocol_begin(&c->out, PROTOCOL_OUTPUT, c->id);
            protocol_add(&o, PROTOCOL_BYTES, (struct sv){scratch, (size_t)n});
            conn_send(c, &o);
        }
    }
}

static int write_file(struct conn *c, struct sv fields, struct err *err) {
    AUTO_FREE char *path = NULL;
    unsigned mode = (unsigned)(protocol_u64(fields, PROTOCOL_MODE, 0644) & 0777);
    int r = take_path(fields, &path, err);
    c->request = CONN_WRITE;
    if (r == 0) {
        r = files_write_begin(c->dir_fd, path, mode, &c->write, err);
    }
    if (r < 0) { /* Its content may be under way. */
        conn_send_error(c, c->id, err);
        c->request = CONN_WRITE_FAILED;
    }
    return 0;
}

static int exists(struct conn *c, struct sv fields, struct err *err) {
    AUTO_FREE char *path = NULL;
    int r = take_path(fields, &path, err);
    if (r == 0) {
        r = files_exists(c->dir_fd, path, err);
    }
    if (r < 0) {
        return r;
    }
    struct protocol_out o = protocol_begin(&c->out, PROTOCOL_DONE, c->id);
    protocol_add_u64(&o, PROTOCOL_COUNT, (uint64_t)r);
    finish(c, &o);
    return 0;
}

static int hello(struct conn *c, struct sv fields, struct err *err) {
    uint64_t major = protocol_u64(fields, PROTOCOL_MAJOR_VERSION, 0);
    if (major != PROTOCOL_MAJOR) {
        c->is_closing = true;
        return err_set(err, ERR_PROTOCOL,
                       "version %llu of the guest protocol: this guest speaks %d",
                       (unsigned long long)major, PROTOCOL_MAJOR);
    }
    struct sv cwd;
    if (protocol_find(fields, PROTOCOL_CWD, &cwd)) {
        AUTO_FREE char *path = NULL;
        int dir_fd = -1;
        int r = files_path(cwd, &path, err);
        r = r < 0 ? r : files_open_dir(AT_FDCWD, path, &dir_fd, err);
        if (r < 0) {
            return r;
        }
        mem_auto_close(&c->dir_fd);
        c->dir_fd = dir_fd;
    }
    c->said_hello = true;
    struct protocol_out o = protocol_begin(&c->out, PROTOCOL_HELLO, c->id);
    protocol_add_u64(&o, PROTOCOL_MAJOR_VERSION, PROTOCOL_MAJOR);
    protocol_add_u64(&o, PROTOCOL_MINOR_VERSION, PROTOCOL_MINOR);
    protocol_add(&o, PROTOCOL_PROGRAM, SV("snaffle-guest " SNAFFLE_VERSION));
    protocol_add_u64(&o, PROTOCOL_PID, (uint64_t)getpid());
    finish(c, &o);
    return 0;
}

static int beat(struct conn *c, struct sv fields, struct err *err) {
    (void)fields;
    (void)err;
    server_beat(c->server);
    finish_done(c);
    return 0;
}

static int limits(struct conn *c, struct sv fields, struct err *err) {
    (void)fields;
    (void)err;
    struct protocol_out o = protocol_begin(&c->out, PROTOCOL_DONE, c->id);
    protocol_add_u64(&o, PROTOCOL_COUNT, watch_hits(&c->server->watch));
    finish(c, &o);
    return 0;
}

typedef int (*request_fn)(struct conn *c, struct sv fields, struct err *err);

static request_fn find_request(uint8_t type) {
    static const request_fn table[] = {
        [PROTOCOL_HELLO] = hello,
        [PROTOCOL_START] = start,
        [PROTOCOL_SIGNAL] = signal_job,
        [PROTOCOL_WAIT] = wait_job,
        [PROTOCOL_KILL_ALL] = kill_everything,
        [PROTOCOL_READ] = read_file,
        [PROTOCOL_WRITE] = write_file,
        [PROTOCOL_EXISTS] = exists,
        [PROTOCOL_BEAT] = beat,
        [PROTOCOL_LIMITS] = limits,
    };
    return type < ARRAY_LEN(table) ? table[type] : NULL;
}

void conn_handle(struct conn *c, const struct protocol_frame *f) {
    struct err err = {0};
    int r = 0;
    if (f->type == PROTOCOL_INPUT) {
        r = input(c, f->fields, &err);
    } else if (c->request != CONN_NONE) {
        (void)err_set(&err, ERR_STATE, "another request is open on this connection");
        conn_send_error(c, f->id, &err);
        return;
    } else {
        request_fn fn = find_request(f->type);
        c->id = f->id;
        r = fn ? fn(c, f->fields, &err)
               : err_set(&err, ERR_UNSUPPORTED, "no request of type %u", f->type);
    }
    if (r < 0) {
        finish_error(c, &err);
    }
}
