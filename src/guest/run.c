/* SPDX-License-Identifier: BSD-3-Clause */
#include "guest/run.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"
#include "guest/files.h"
#include "guest/kill_all.h"
#include "guest/protocol.h"
#include "guest/self.h"

#define RECORD_MODE 0644 /* As other files that commands write. */
#define END_KILL_MS 8000

struct runner {
    struct loop loop;
    struct jobs jobs;
    struct kill_all kill_all;
    struct self_signals signals;
    struct job *job;
    char *exit_path;
    int told_fd; /* What became of the start goes there, to the process that was asked. */
};

static int read_whole(const char *path, size_t max, struct buf *out, struct err *err) {
    uint64_t size;
    AUTO_CLOSE int fd = -1;
    int r = files_open_read(AT_FDCWD, path, &fd, &size, err);
    if (r < 0) {
        return r;
    }
    if (size > max) {
        return err_set(err, ERR_LIMIT, "'%s' has more than %zu bytes", path, max);
    }
    ssize_t n = 1;
    while (n > 0 && out->len < size) {
        if (buf_reserve(out, size - out->len) < 0) {
            return err_set(err, ERR_NOMEM, "out of memory");
        }
        n = read(fd, out->data + out->len, size - out->len);
        out->len += n > 0 ? (size_t)n : 0;
    }
    return n < 0 ? err_sys(err, ERR_SYS, errno, "cannot read '%s'", path) : 0;
}

static int check_spec(struct sv spec, struct err *err) {
    int r = protocol_check(spec, err);
    if (r < 0) {
        return r;
    }
    uint64_t major = protocol_u64(spec, PROTOCOL_MAJOR_VERSION, 0);
    if (major != PROTOCOL_MAJOR) {
        return err_set(err, ERR_PROTOCOL,
                       "version %llu of the guest protocol: this guest speaks %d",
                       (unsigned long long)major, PROTOCOL_MAJOR);
    }
    return 0;
}

/* Whole or not at all: readers poll for it. */
static int put_record(const struct runner *r, const struct buf *record, struct err *err) {
    AUTO(files_write_deinit) struct files_write w = FILES_WRITE_NONE;
    int code = files_write_begin(AT_FDCWD, r->exit_path, RECORD_MODE, &w, err);
    code = code < 0 ? code : files_write_add(&w, buf_sv(record), err);
    return code < 0 ? code : files_write_commit(&w, err);
}

static struct protocol_out begin_record(struct buf *b) {
    struct protocol_out o = protocol_fields_begin(b);
    protocol_add_u64(&o, PROTOCOL_MAJOR_VERSION, PROTOCOL_MAJOR);
    protocol_add_u64(&o, PROTOCOL_MINOR_VERSION, PROTOCOL_MINOR);
    return o;
}

/* `job`: NULL while it runs. */
static int write_record(const struct runner *r, const struct job *job, struct err *err) {
    AUTO_BUF struct buf b = {0};
    struct protocol_out o = begin_record(&b);
    protocol_add_u64(&o, PROTOCOL_PID, (uint64_t)getpid());
    if (job) {
        protocol_add_u64(&o, PROTOCOL_EXIT_CODE, (uint64_t)job->exit_code);
        protocol_add_u64(&o, PROTOCOL_TIMED_OUT, job->is_timed_out);
    }
    if (protocol_fields_end(&o) < 0) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    return put_record(r, &b, err);
}

/* What never ran has a record too: who asked may not have heard the answer. */
static void write_failure(const struct runner *r, const struct err *failed) {
    AUTO_BUF struct buf b = {0};
    struct protocol_out o = begin_record(&b);
    protocol_add_u64(&o, PROTOCOL_CODE, (uint64_t)-failed->code);
    protocol_add(&o, PROTOCOL_MESSAGE, sv_from(failed->msg));
    if (r->exit_path && protocol_fields_end(&o) == 0) {
        (void)put_record(r, &b, NULL);
    }
}

#define STARTED "+" /* Told in place of an error's words. */

static void tell(struct runner *r, const char *message) {
    if (r->told_fd >= 0) {
        ssize_t n = write(r->told_fd, message, sv_from(message).n);
        (void)n; /* It may have been killed: the record says the same. */
        close(r->told_fd);
        r->told_fd = -1;
    }
}

static void on_started(void *arg, struct job *job) {
    (void)job;
    struct runner *r = arg;
    struct err err;
    if (write_record(r, NULL, &err) < 0) {
        tell(r, err.msg);
        job_kill(r->job);
        return;
    }
    tell(r, STARTED);
}

static void on_failed(void *arg, const struct err *err) {
    struct runner *r = arg;
    r->job = NULL;
    write_failure(r, err);
    tell(r, err->msg);
    loop_stop(&r->loop);
}

static void on_job_change(struct jobs *jobs) {
    struct runner *r = LOOP_OWNER(jobs, struct runner, jobs);
    if (r->job && r->job->has_ended) {
        (void)write_record(r, r->job, NULL); /* Nobody is left to be told. */
        loop_stop(&r->loop);
    }
}

static void on_kill_all_end(struct kill_all *k, int left) {
    (void)left;
    struct runner *r = LOOP_OWNER(k, struct runner, kill_all);
    if (r->job && r->job->has_exited && !r->job->has_ended) {
        (void)write_record(r, r->job, NULL);
    }
    loop_stop(&r->loop);
}

static void on_child(void *arg) {
    jobs_reap(&((struct runner *)arg)->jobs);
}

static void on_end(void *arg) {
    kill_all_start(&((struct runner *)arg)->kill_all, deadline_in_ms(END_KILL_MS));
}

/* What the spec names as input, else /dev/null. It may be a secret, so it is taken off the disk
 * before the command runs. */
static int read_input(struct sv spec, struct command *command, struct buf *out, struct err *err) {
    struct sv value;
    AUTO_FREE char *path = NULL;
    command->has_input = protocol_find(spec, PROTOCOL_PATH, &value);
    if (!command->has_input) {
        return 0;
    }
    int r = files_path(value, &path, err);
    r = r < 0 ? r : read_whole(path, JOB_INPUT_MAX, out, err);
    if (r == 0 && unlink(path) < 0) {
        r = err_sys(err, ERR_SYS, errno, "cannot remove '%s'", path);
    }
    return r;
}

static const struct job_events job_events = {.started = on_started, .failed = on_failed};

static int begin(struct runner *r, struct sv spec, struct err *err) {
    struct sv path = SV("");
    (void)protocol_find(spec, PROTOCOL_EXIT_PATH, &path);
    int code = files_path(path, &r->exit_path, err);
    struct command command;
    if (code == 0) {
        code = command_parse(spec, AT_FDCWD, &command, err);
    }
    if (code < 0) {
        return code;
    }
    command.is_detached = true;
    AUTO_BUF struct buf input = {0};
    code = read_input(spec, &command, &input, err);
    if (code < 0) {
        command_deinit(&command);
        return code;
    }
    jobs_init(&r->jobs, &r->loop, on_job_change);
    kill_all_init(&r->kill_all, &r->jobs, on_kill_all_end);
    r->signals.on_child = on_child;
    r->signals.on_end = on_end;
    r->signals.arg = r;
    code = self_harden(err);
    if (code == 0) {
        code = self_catch_signals(&r->signals, &r->loop, err);
    }
    if (code < 0) {
        command_deinit(&command);
        return code;
    }
    code = jobs_start(&r->jobs, &command, &job_events, r, &r->job, err);
    if (code == 0 && input.len > 0) {
        code = job_add_input(r->job, buf_sv(&input)) < 0 ? err_set(err, ERR_LIMIT, "too much input")
                                                         : 0;
    }
    if (code == 0 && r->job->command.has_input) {
        job_end_input(r->job);
    }
    return code;
}

/* In a process of its own, with nothing of the caller's open. */
static int supervise(const char *spec_path, int told_fd) {
    static struct runner r;
    AUTO_BUF struct buf spec = {0};
    struct err err = {0};
    r.told_fd = told_fd;
    int code = read_whole(spec_path, PROTOCOL_FRAME_MAX, &spec, &err);
    if (code == 0) {
        code = check_spec(buf_sv(&spec), &err);
    }
    if (code == 0) {
        code = begin(&r, buf_sv(&spec), &err);
    }
    if (code == 0) {
        code = loop_run(&r.loop, &err);
    }
    if (code < 0) {
        write_failure(&r, &err);
        tell(&r, err.msg);
    }
    return code < 0 ? 1 : 0;
}

/* Everything that is told before the other side closes. */
static int hear(int fd, struct err *err) {
    char text[ERR_MSG_MAX];
    size_t n = 0;
    ssize_t got = 1;
    while (got > 0 && n < sizeof text - 1) {
        got = read(fd, text + n, sizeof text - 1 - n);
        n += got > 0 ? (size_t)got : 0;
    }
    text[n] = '\0';
    if (sv_eq((struct sv){text, n}, SV(STARTED))) {
        return 0;
    }
    return err_set(err, ERR_INPUT, "%s", n ? text : "the command's process ended at once");
}

/* Whether this spec is ours to run: whoever asks again, not having heard, changes nothing. */
static int claim(const char *spec_path, bool *ours, struct err *err) {
    AUTO_FREE char *path = mem_printf("%s.begun", spec_path);
    int fd = path ? open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600) : -1;
    *ours = fd >= 0;
    if (fd < 0 && errno != EEXIST) {
        return err_sys(err, ERR_SYS, errno, "cannot make '%s.begun'", spec_path);
    }
    mem_auto_close(&fd);
    return 0;
}

int run(const char *spec_path, struct err *err) {
    bool ours = false;
    int claimed = claim(spec_path, &ours, err);
    if (claimed < 0 || !ours) {
        return claimed;
    }
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) < 0) {
        return err_sys(err, ERR_SYS, errno, "cannot make a pipe");
    }
    pid_t pid = fork();
    if (pid == 0) {
        setsid();
        for (int fd = 0; fd < 3; fd++) {
            close(fd);
        }
        self_close_strays(&fds[1], 1);
        _exit(supervise(spec_path, fds[1]));
    }
    int reason = errno;
    close(fds[1]);
    int r = pid < 0 ? err_sys(err, ERR_SYS, reason, "cannot start a process") : hear(fds[0], err);
    close(fds[0]);
    return r;
}
