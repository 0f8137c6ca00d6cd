/* SPDX-License-Identifier: BSD-3-Clause */
/* The contract's commands: exec, which gives the output, and jobs, which go on by themselves. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "sandbox/hf/command.h"

#define EXEC_GRACE_S 30.0 /* Beyond a command's own time: to be killed, and to be told. */
#define OUTPUT_MAX (1u << 20)
#define CALL_S 60.0

/* The tail of a stream's file, and how many bytes it has. */
static int read_output(const struct hf_command *c, const char *name, size_t max, struct buf *out,
                       uint64_t *total, struct err *err) {
    struct hf_server *server = &c->sandbox->server;
    AUTO_FREE char *path = hf_command_file(c, name);
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
            cancel_sleep(torn_down, deadline_in_ms(pause_ms), err) < 0) {
            break;
        }
        pause_ms *= 2;
    }
    return r;
}

/* What came with the end, if that is all that is wanted of it; else the file. */
static int take_output(const struct hf_command *c, const char *name, size_t max, struct buf *told,
                       struct buf *out, uint64_t *total, struct err *err) {
    uint64_t wanted = *total < max ? *total : max;
    if (told->len < wanted) {
        return read_output_surely(c, name, max, out, total, err);
    }
    buf_consume(told, told->len - (size_t)wanted);
    *out = *told;
    *told = (struct buf){0};
    return 0;
}

static int collect(const struct hf_command *c, const struct sandbox_exec *what,
                   struct hf_report *end, struct sandbox_output *out, struct err *err) {
    size_t max = what->output_max ? what->output_max : OUTPUT_MAX;
    out->exit_code = end->exit_code;
    out->timed_out = end->timed_out;
    out->out_total = end->has_output ? end->out_total : UINT64_MAX;
    out->err_total = end->has_output ? end->err_total : UINT64_MAX;
    int r = take_output(c, "out", max, &end->out, &out->out, &out->out_total, err);
    r = r < 0 ? r : take_output(c, "err", max, &end->err, &out->err, &out->err_total, err);
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
    struct hf_report end = {0};
    struct sandbox_output o = {0};
    double timeout_s = what->timeout_s > 0 ? what->timeout_s : HF_EXEC_TIMEOUT_S;
    deadline_ms until = deadline_in_s(timeout_s + EXEC_GRACE_S);
    int r = hf_command_init(s, user, what, /* is_job= */ false, until, &c, err);
    if (r < 0) {
        return hf_explain(s, r, err);
    }
    r = hf_command_wait(&c, until, what->cancel, &end, err);
    if (r == ERR_CANCELLED || r == ERR_TIMEOUT) {
        struct err ignored = {0};
        if (hf_command_kill(&c, &ignored) < 0) {
            ignored.code = 0; /* The first error stands; kill_all and the teardown follow. */
        }
    }
    r = r < 0 ? r : collect(&c, what, &end, &o, err);
    hf_command_deinit(&c, /* is_over= */ r == 0);
    hf_report_deinit(&end);
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
    deadline_ms until = deadline_in_s(CALL_S);
    int r = hf_command_init(s, s->user, what, /* is_job= */ true, until, &job->command, err);
    if (r < 0) {
        free(job);
        return hf_explain(s, r, err);
    }
    r = hf_command_start(&job->command, until, what->cancel, err);
    if (r < 0) {
        hf_job_free(&job->base);
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
    struct hf_job *job = (struct hf_job *)b;
    struct hf_report end = {0};
    int r = check_life(job, err);
    r = r < 0 ? r : hf_command_wait(&job->command, until, cancel, &end, err);
    if (r == 0) {
        *exit_code = end.exit_code;
    }
    hf_report_deinit(&end);
    return r;
}

int hf_job_kill(struct sandbox_job *b, struct err *err) {
    struct hf_job *job = (struct hf_job *)b;
    int r = check_life(job, err);
    return r < 0 ? r : hf_command_kill(&job->command, err);
}

void hf_job_free(struct sandbox_job *b) {
    struct hf_job *job = (struct hf_job *)b;
    hf_command_deinit(&job->command, /* is_over= */ false);
    free(job);
}
