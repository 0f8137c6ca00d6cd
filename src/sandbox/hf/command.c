/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Commands: each is written down as a spec, started by `guest run` through a call that ends at
 * once, and followed by the record that the guest keeps of it. So no answer that is cut, lost or
 * late loses a command's output or its end.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "guest/protocol.h"
#include "sandbox/hf/hf.h"

#define EXEC_TIMEOUT_S 60.0 /* The contract's. */
#define EXEC_GRACE_S 30.0   /* Beyond a command's own time: to be killed, and to be told. */
#define OUTPUT_MAX (1u << 20)
#define RECORD_MAX 4096
#define CALL_S 60.0
#define KILL_S 15.0   /* The guest takes 8 s at most. */
#define STARTED_S 5.0 /* For a start whose answer was lost to show. */
#define LOOK_EVERY 10 /* Polls between two looks whether the guest's process is there. */
#define PATH_RECORD "exit"

static char *file_of(const struct hf_command *c, const char *name) {
    return mem_printf("%s/%s", c->folder, name);
}

void hf_command_deinit(struct hf_command *c, bool with_files) {
    struct err ignored = {0};
    if (with_files && c->folder &&
        hf_server_delete(&c->sandbox->server, c->folder, deadline_in_s(CALL_S), &ignored) < 0) {
        ignored.code = 0; /* They go with the sandbox. */
    }
    free(c->folder);
    *c = (struct hf_command){0};
}

/* --- the spec --- */

static void add_words(struct protocol_out *o, uint8_t tag, const char *const *words) {
    for (size_t i = 0; words && words[i]; i++) {
        protocol_add(o, tag, sv_from(words[i]));
    }
}

static void add_path(struct protocol_out *o, uint8_t tag, char *path) {
    protocol_add(o, tag, sv_from(path));
    free(path);
}

/* A job has no time-out of its own accord: 0 stands for none. */
static void add_command(struct protocol_out *o, const struct hf_command *c,
                        const struct sandbox_exec *what, bool is_job) {
    const struct hf *s = c->sandbox;
    double otherwise_s = is_job ? 0 : EXEC_TIMEOUT_S;
    double timeout_s = what->timeout_s > 0 ? what->timeout_s : otherwise_s;
    protocol_add_u64(o, PROTOCOL_MAJOR_VERSION, PROTOCOL_MAJOR);
    add_words(o, PROTOCOL_ARGV, what->argv);
    if (what->shell) {
        protocol_add(o, PROTOCOL_SHELL, sv_from(what->shell));
    }
    AUTO_FREE char *home = mem_printf("HOME=%s", s->home);
    if (!what->clean && home) {
        protocol_add(o, PROTOCOL_ENV, sv_from(home));
    }
    add_words(o, PROTOCOL_ENV, what->env);
    protocol_add_u64(o, PROTOCOL_CLEAN, what->clean);
    protocol_add_u64(o, PROTOCOL_TIMEOUT_MS, (uint64_t)(timeout_s * 1000));
    protocol_add_u64(o, PROTOCOL_USER, c->user);
    add_path(o, PROTOCOL_CWD, hf_path(s, what->cwd ? what->cwd : "."));
}

/* Of an exec both streams go to the command's folder; of a job where it says. */
static void add_outputs(struct protocol_out *o, const struct hf_command *c,
                        const struct sandbox_exec *what, bool is_job) {
    const struct hf *s = c->sandbox;
    if (!is_job || what->stdout_path) {
        add_path(o, PROTOCOL_STDOUT_PATH,
                 is_job ? hf_path(s, what->stdout_path) : file_of(c, "out"));
    }
    if (!is_job || what->stderr_path) {
        add_path(o, PROTOCOL_STDERR_PATH,
                 is_job ? hf_path(s, what->stderr_path) : file_of(c, "err"));
    }
    if (what->input.n > 0) {
        add_path(o, PROTOCOL_PATH, file_of(c, "in"));
    }
    add_path(o, PROTOCOL_EXIT_PATH, file_of(c, PATH_RECORD));
}

static int write_input(const struct hf_command *c, const struct sandbox_exec *what,
                       deadline_ms until, struct err *err) {
    AUTO_FREE char *path = file_of(c, "in");
    if (what->input.n == 0) {
        return 0;
    }
    return path ? hf_server_write(&c->sandbox->server, path, what->input, 0600, until, what->cancel,
                                  err)
                : err_set(err, ERR_NOMEM, "out of memory");
}

static int write_spec(const struct hf_command *c, const struct sandbox_exec *what, bool is_job,
                      deadline_ms until, struct err *err) {
    AUTO_BUF struct buf b = {0};
    AUTO_FREE char *path = file_of(c, "spec");
    struct protocol_out o = protocol_fields_begin(&b);
    add_command(&o, c, what, is_job);
    add_outputs(&o, c, what, is_job);
    if (!path || protocol_fields_end(&o) < 0) {
        return err_set(err, ERR_LIMIT,
                       "a command with its arguments is too long, or out of memory");
    }
    return hf_server_write(&c->sandbox->server, path, buf_sv(&b), 0600, until, what->cancel, err);
}

/* --- the record --- */

struct record {
    bool is_there;
    bool has_ended;
    int exit_code;
    bool timed_out;
    uint64_t pid;
};

static int read_record(const struct hf_command *c, deadline_ms until, const struct cancel *cancel,
                       struct record *out, struct err *err) {
    AUTO_BUF struct buf b = {0};
    AUTO_FREE char *path = file_of(c, PATH_RECORD);
    *out = (struct record){0};
    struct hf_server_part part = {.path = path, .length = RECORD_MAX};
    int r = path ? hf_server_read(&c->sandbox->server, &part, until, cancel, &b, err)
                 : err_set(err, ERR_NOMEM, "out of memory");
    if (r == ERR_NOT_FOUND) {
        return 0;
    }
    r = r < 0 ? r : protocol_check(buf_sv(&b), err);
    if (r < 0) {
        return r;
    }
    struct sv fields = buf_sv(&b);
    struct sv message = SV("");
    uint64_t code = protocol_u64(fields, PROTOCOL_CODE, 0);
    if (code > 0) { /* It never ran. */
        (void)protocol_find(fields, PROTOCOL_MESSAGE, &message);
        int known = code < ERR_POS_COUNT_ ? -(int)code : ERR_PROTOCOL;
        return err_set(err, known, "%.*s", SV_ARG(message));
    }
    uint64_t none = UINT64_MAX;
    uint64_t exit_code = protocol_u64(fields, PROTOCOL_EXIT_CODE, none);
    *out = (struct record){
        .is_there = true,
        .has_ended = exit_code != none,
        .exit_code = (int)(exit_code & 0xff),
        .timed_out = protocol_u64(fields, PROTOCOL_TIMED_OUT, 0) != 0,
        .pid = protocol_u64(fields, PROTOCOL_PID, 0),
    };
    return 0;
}

static int poll_again(int64_t *pause_ms, deadline_ms until, const struct cancel *cancel,
                      struct err *err) {
    int r = cancel_sleep(cancel, deadline_min(until, deadline_in_ms(*pause_ms)), err);
    *pause_ms = *pause_ms * 3 / 2 < HF_POLL_MAX_MS ? *pause_ms * 3 / 2 : HF_POLL_MAX_MS;
    return r;
}

/* --- start --- */

/* Whether the guest has the command: 1 when its record is there, 0 when it is not by then. */
static int await_record(const struct hf_command *c, deadline_ms until, const struct cancel *cancel,
                        struct err *err) {
    struct record record = {0};
    int64_t pause_ms = HF_POLL_FIRST_MS;
    for (;;) {
        int r = read_record(c, deadline_in_s(CALL_S), cancel, &record, err);
        if (record.is_there || (r < 0 && !hf_server_may_pass(r))) {
            return r < 0 ? r : 1;
        }
        if (deadline_passed(until)) {
            return 0;
        }
        r = poll_again(&pause_ms, until, cancel, err);
        if (r < 0) {
            return r;
        }
    }
}

/* A call that was cut may have started it, at once or in a moment: asking again changes nothing
 * then, and at last its record tells. */
static int run_spec(const struct hf_command *c, deadline_ms until, const struct cancel *cancel,
                    struct err *err) {
    struct hf *s = c->sandbox;
    AUTO_BUF struct buf said = {0};
    AUTO_FREE char *spec = file_of(c, "spec");
    const char *const argv[] = {atomic_load(&s->program), "run", "--spec", spec, NULL};
    struct err failed = {0};
    int code = 0;
    int r = spec ? hf_server_exec(&s->server, argv, HF_SERVER_ATTEMPTS, until, cancel, &code, &said,
                                  &failed)
                 : err_set(&failed, ERR_NOMEM, "out of memory");
    if (r == 0 && code == 0) {
        return 0;
    }
    if (r < 0 && !hf_server_may_pass(r)) {
        return err_set(err, r, "%s", failed.msg);
    }
    double patience_s = r < 0 ? STARTED_S : 0;
    int seen = await_record(c, deadline_min(until, deadline_in_s(patience_s)), cancel, err);
    if (seen != 0) {
        return seen < 0 ? seen : 0;
    }
    return r < 0 ? err_set(err, r, "%s", failed.msg)
                 : err_set(err, ERR_PROTOCOL, "the guest gave %d: %s", code, buf_cstr(&said));
}

static int start(struct hf *s, uint32_t user, const struct sandbox_exec *what, bool is_job,
                 deadline_ms until, struct hf_command *out, struct err *err) {
    if (what->input.n > SANDBOX_INPUT_MAX) {
        return err_set(err, ERR_LIMIT, "more than %u bytes of input", SANDBOX_INPUT_MAX);
    }
    struct hf_command c = {
        .sandbox = s,
        .user = user,
        .clears = atomic_load(&s->clears),
        .folder = mem_printf("%s/%u", s->dir, atomic_fetch_add(&s->next, 1)),
    };
    int r = c.folder ? write_spec(&c, what, is_job, until, err)
                     : err_set(err, ERR_NOMEM, "out of memory");
    r = r < 0 ? r : write_input(&c, what, until, err);
    r = r < 0 ? r : run_spec(&c, until, what->cancel, err);
    if (r < 0) {
        hf_command_deinit(&c, /* with_files= */ false);
        return hf_explain(s, r, err);
    }
    *out = c;
    return 0;
}

/* --- wait --- */

/* Whether the guest's process, which keeps the record, runs; a zombie does not. What can't be told
 * counts as yes. */
static bool is_alive(const struct hf_command *c, uint64_t pid, deadline_ms until) {
    static const char look[] = "read -r x 2>/dev/null <\"$0\" || exit 9\n"
                               "case $x in *') Z '*) exit 9;; esac";
    char path[48];
    AUTO_BUF struct buf said = {0};
    struct err ignored = {0};
    int code = 0;
    if (atomic_load(&c->sandbox->clears) != c->clears) {
        return false; /* By kill_all of ours. */
    }
    (void)snprintf(path, sizeof path, "/proc/%llu/stat", (unsigned long long)pid);
    const char *const argv[] = {"/bin/sh", "-c", look, path, NULL};
    int r = hf_server_exec(&c->sandbox->server, argv, 1, until, NULL, &code, &said, &ignored);
    return r < 0 || code != 9;
}

/* The guest was killed: it will never write the end. */
static int end_of_lost(const struct hf_command *c, deadline_ms until, struct record *record,
                       struct err *err) {
    int r = read_record(c, until, NULL, record, err); /* It may have written it as its last. */
    if (r == 0 && !record->has_ended) {
        *record = (struct record){.is_there = true, .has_ended = true, .exit_code = 137};
    }
    return r;
}

int hf_command_wait(const struct hf_command *c, deadline_ms until, const struct cancel *cancel,
                    int *exit_code, bool *timed_out, struct err *err) {
    struct record record = {0};
    int64_t pause_ms = HF_POLL_FIRST_MS;
    int failures = 0;
    for (unsigned n = 1;; n++) {
        if (cancel_thrown(c->sandbox->torn_down)) {
            return err_set(err, ERR_LOST, "the sandbox was torn down");
        }
        int r = read_record(c, deadline_in_s(CALL_S), cancel, &record, err);
        failures = r < 0 ? failures + 1 : 0;
        if (r < 0 && (!hf_server_may_pass(r) || failures == HF_POLL_FAILURES)) {
            return hf_explain(c->sandbox, failures == HF_POLL_FAILURES ? ERR_LOST : r, err);
        }
        bool cleared = atomic_load(&c->sandbox->clears) != c->clears;
        if (r == 0 && !record.has_ended && record.pid > 0 && (cleared || n % LOOK_EVERY == 0) &&
            !is_alive(c, record.pid, deadline_in_s(CALL_S))) {
            r = end_of_lost(c, deadline_in_s(CALL_S), &record, err);
        }
        if (r == 0 && record.has_ended) {
            *exit_code = record.exit_code;
            *timed_out = record.timed_out;
            return 0;
        }
        if (deadline_passed(until)) {
            return err_set(err, ERR_TIMEOUT, "the command goes on");
        }
        r = poll_again(&pause_ms, until, cancel, err);
        if (r < 0) {
            return r;
        }
    }
}

int hf_command_kill(const struct hf_command *c, struct err *err) {
    struct record record;
    deadline_ms until = deadline_in_s(KILL_S);
    int r = read_record(c, until, NULL, &record, err);
    if (r < 0 || record.has_ended || !record.is_there) {
        return r < 0 ? hf_explain(c->sandbox, r, err) : 0;
    }
    char pid[24];
    (void)snprintf(pid, sizeof pid, "%llu", (unsigned long long)record.pid);
    const char *const argv[] = {"/bin/sh", "-c", "kill -TERM \"$0\"", pid, NULL};
    AUTO_BUF struct buf said = {0};
    int code = 0;
    bool timed_out;
    r = hf_server_exec(&c->sandbox->server, argv, HF_SERVER_ATTEMPTS, until, NULL, &code, &said,
                       err);
    return r < 0 ? hf_explain(c->sandbox, r, err)
                 : hf_command_wait(c, until, NULL, &code, &timed_out, err);
}

/* --- exec --- */

/* The tail of a stream's file, and how many bytes it has. */
static int read_output(const struct hf_command *c, const char *name, size_t max, struct buf *out,
                       uint64_t *total, struct err *err) {
    struct hf_server *server = &c->sandbox->server;
    AUTO_FREE char *path = file_of(c, name);
    deadline_ms until = deadline_in_s(CALL_S);
    struct hf_server_part part = {.path = path, .length = max + 1};
    int r = path ? hf_server_read(server, &part, until, NULL, out, err) : ERR_NOMEM;
    *total = out->len;
    if (r < 0 || out->len <= max) {
        return r;
    }
    buf_reset(out);
    r = hf_server_size(server, path, until, NULL, total, err);
    part.offset = *total - max;
    part.length = max;
    return r < 0 ? r : hf_server_read(server, &part, until, NULL, out, err);
}

/* What may pass is tried again: the command has ended, its output stays. */
static int read_output_surely(const struct hf_command *c, const char *name, size_t max,
                              struct buf *out, uint64_t *total, struct err *err) {
    const struct cancel *torn_down = c->sandbox->torn_down;
    int64_t pause_ms = HF_POLL_FIRST_MS;
    int r = -1;
    for (int i = 0; i < HF_POLL_FAILURES; i++) {
        buf_reset(out);
        r = read_output(c, name, max, out, total, err);
        if (r >= 0 || !hf_server_may_pass(r) ||
            poll_again(&pause_ms, DEADLINE_NEVER, torn_down, err) < 0) {
            break;
        }
    }
    return r;
}

static int collect(const struct hf_command *c, const struct sandbox_exec *what,
                   struct sandbox_output *out, struct err *err) {
    size_t max = what->output_max ? what->output_max : OUTPUT_MAX;
    int r = read_output_surely(c, "out", max, &out->out, &out->out_total, err);
    r = r < 0 ? r : read_output_surely(c, "err", max, &out->err, &out->err_total, err);
    out->truncated = out->out_total > out->out.len || out->err_total > out->err.len;
    if (r == 0 && what->tell) {
        what->tell(what->tell_arg, 1, buf_sv(&out->out));
        what->tell(what->tell_arg, 2, buf_sv(&out->err));
    }
    return r < 0 ? hf_explain(c->sandbox, r, err) : 0;
}

int hf_exec(struct sandbox *b, const struct sandbox_exec *what, struct sandbox_output *out,
            struct err *err) {
    struct hf *s = (struct hf *)b;
    return hf_exec_as(s, s->user, what, out, err);
}

int hf_exec_as(struct hf *s, uint32_t user, const struct sandbox_exec *what,
               struct sandbox_output *out, struct err *err) {
    struct hf_command c = {0};
    struct sandbox_output o = {0};
    double timeout_s = what->timeout_s > 0 ? what->timeout_s : EXEC_TIMEOUT_S;
    deadline_ms until = deadline_in_s(timeout_s + EXEC_GRACE_S);
    int r = start(s, user, what, /* is_job= */ false, until, &c, err);
    if (r < 0) {
        return r;
    }
    BUG_IF(!c.sandbox);
    r = hf_command_wait(&c, until, what->cancel, &o.exit_code, &o.timed_out, err);
    if (r == ERR_CANCELLED || r == ERR_TIMEOUT) {
        struct err ignored = {0};
        if (hf_command_kill(&c, &ignored) < 0) {
            ignored.code = 0; /* The first error stands; kill_all and the teardown follow. */
        }
    }
    r = r < 0 ? r : collect(&c, what, &o, err);
    hf_command_deinit(&c, /* with_files= */ r == 0);
    if (r < 0) {
        sandbox_output_deinit(&o);
        return r;
    }
    *out = o;
    return 0;
}

/* --- jobs --- */

struct hf_job {
    struct sandbox_job base;
    struct hf_command command;
    unsigned life;
};

int hf_start(struct sandbox *b, const struct sandbox_exec *what, struct sandbox_job **out,
             struct err *err) {
    struct hf *s = (struct hf *)b;
    struct hf_job *job = calloc(1, sizeof *job);
    if (!job) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    job->base.sandbox = b;
    job->life = atomic_load(&s->lives);
    int r = start(s, s->user, what, /* is_job= */ true, deadline_in_s(CALL_S), &job->command, err);
    if (r < 0) {
        free(job);
        return r;
    }
    *out = &job->base;
    return 0;
}

static int check_life(const struct hf_job *job, struct err *err) {
    const struct hf *s = job->command.sandbox;
    return job->life == atomic_load(&s->lives)
               ? 0
               : err_set(err, ERR_LOST, "the sandbox was restarted under the command");
}

int hf_job_wait(struct sandbox_job *b, deadline_ms until, const struct cancel *cancel,
                int *exit_code, struct err *err) {
    const struct hf_job *job = (const struct hf_job *)b;
    int code = 0;
    bool timed_out = false;
    int r = check_life(job, err);
    r = r < 0 ? r : hf_command_wait(&job->command, until, cancel, &code, &timed_out, err);
    if (r == 0) {
        *exit_code = code;
    }
    return r;
}

int hf_job_kill(struct sandbox_job *b, struct err *err) {
    const struct hf_job *job = (const struct hf_job *)b;
    int r = check_life(job, err);
    return r < 0 ? r : hf_command_kill(&job->command, err);
}

void hf_job_free(struct sandbox_job *b) {
    struct hf_job *job = (struct hf_job *)b;
    hf_command_deinit(&job->command, /* with_files= */ false);
    free(job);
}
