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
#include "guest/record.h"
#include "guest/self.h"

#define END_KILL_MS 8000

struct runner {
    struct loop loop;
    struct jobs jobs;
    struct kill_all kill_all;
    struct self_signals signals;
    struct job *job;
    const char *dir;
};

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

/* `job`: NULL while it runs. */
static int write_record(const struct runner *r, const struct job *job, struct err *err) {
    struct record_end end = {0};
    if (job) {
        end = (struct record_end){job->exit_code, job->is_timed_out};
    }
    return record_write(r->dir, (uint64_t)getpid(), job ? &end : NULL, err);
}

static void on_started(void *arg, struct job *job) {
    (void)job;
    struct runner *r = arg;
    if (write_record(r, NULL, NULL) < 0) {
        job_kill(r->job); /* Nobody could be told its end. */
    }
}

static void on_failed(void *arg, const struct err *err) {
    struct runner *r = arg;
    r->job = NULL;
    record_write_failure(r->dir, err);
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

/* What the spec holds or names as input, else /dev/null. It may be a secret, so a file is taken off
 * the disk before the command runs. */
static int read_input(struct sv spec, struct command *command, struct buf *out, struct err *err) {
    struct sv value;
    AUTO_FREE char *path = NULL;
    if (protocol_find(spec, PROTOCOL_BYTES, &value)) {
        command->has_input = true;
        return buf_add_sv(out, value) < 0 ? err_set(err, ERR_NOMEM, "out of memory") : 0;
    }
    command->has_input = protocol_find(spec, PROTOCOL_PATH, &value);
    if (!command->has_input) {
        return 0;
    }
    int r = files_path(value, &path, err);
    r = r < 0 ? r : record_read_file(path, JOB_INPUT_MAX, out, err);
    if (r == 0 && unlink(path) < 0) {
        r = err_sys(err, ERR_SYS, errno, "cannot remove '%s'", path);
    }
    return r;
}

static const struct job_events job_events = {.started = on_started, .failed = on_failed};

static int begin(struct runner *r, struct sv spec, struct err *err) {
    struct command command;
    int code = command_parse(spec, AT_FDCWD, &command, err);
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

int run_supervise(const char *dir, struct sv spec, int lock_fd) {
    static struct runner r;
    struct err err = {0};
    r.dir = dir;
    int code = check_spec(spec, &err);
    code = code < 0 ? code : begin(&r, spec, &err);
    code = code < 0 ? code : loop_run(&r.loop, &err);
    if (code < 0) {
        record_write_failure(dir, &err);
    }
    close(lock_fd);
    return code < 0 ? 1 : 0;
}
