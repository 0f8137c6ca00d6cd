/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/mem.h"
#include "sandbox/guest_client_call.h"

#define TIMEOUT_DEFAULT_S 60.0
#define TIMEOUT_MAX_S 2592000.0     /* A month: far above any sandbox's life. */
#define OUTPUT_MAX_DEFAULT 1048576u /* A long build's last pages. */

/* After the time-out the guest has 8 s to kill what will not die and 1 s to empty its pipes; past
 * this it is the guest itself that hangs. */
#define LATE_S 15.0

static double timeout_of(const struct sandbox_exec *what) {
    double s = what->timeout_s > 0 ? what->timeout_s : TIMEOUT_DEFAULT_S;
    return s < TIMEOUT_MAX_S ? s : TIMEOUT_MAX_S;
}

static void add_words(struct protocol_out *o, uint8_t tag, const char *const *words) {
    for (; words && *words; words++) {
        protocol_add(o, tag, sv_from(*words));
    }
}

static void add_text(struct protocol_out *o, uint8_t tag, const char *text) {
    if (text) {
        protocol_add(o, tag, sv_from(text));
    }
}

static int add_start(struct guest_call *c, const struct sandbox_exec *what, bool detached,
                     struct err *err) {
    struct protocol_out o = protocol_begin(&c->out, PROTOCOL_START, GUEST_CALL_ID);
    add_text(&o, PROTOCOL_SHELL, what->shell);
    add_words(&o, PROTOCOL_ARGV, what->argv);
    add_words(&o, PROTOCOL_ENV, what->env);
    add_text(&o, PROTOCOL_CWD, what->cwd);
    protocol_add_u64(&o, PROTOCOL_CLEAN, what->clean);
    protocol_add_u64(&o, PROTOCOL_DETACHED, detached);
    protocol_add_u64(&o, PROTOCOL_HAS_INPUT, what->input.n > 0);
    c->input = what->input;
    c->has_input = what->input.n > 0;
    if (detached) {
        add_text(&o, PROTOCOL_STDOUT_PATH, what->stdout_path);
        add_text(&o, PROTOCOL_STDERR_PATH, what->stderr_path);
        if (what->timeout_s > 0) { /* A started command has no time-out of its own accord. */
            protocol_add_u64(&o, PROTOCOL_TIMEOUT_MS, (uint64_t)(timeout_of(what) * 1000));
        }
        return guest_call_add(&o, err);
    }
    protocol_add_u64(&o, PROTOCOL_TIMEOUT_MS, (uint64_t)(timeout_of(what) * 1000));
    return guest_call_add(&o, err);
}

/* Keeps the last `max` bytes; twice as many are held, so that few are moved. */
static int add_tail(struct buf *tail, struct sv bytes, size_t max) {
    if (bytes.n > max) {
        bytes = sv_cut(bytes, bytes.n - max);
    }
    int r = buf_add_sv(tail, bytes);
    if (r == 0 && tail->len > 2 * max) {
        buf_consume(tail, tail->len - max);
    }
    return r;
}

static int take_output(struct sandbox_output *o, const struct protocol_frame *f, size_t max,
                       const struct sandbox_exec *what, struct err *err) {
    uint64_t stream = protocol_u64(f->fields, PROTOCOL_STREAM, 0);
    struct sv bytes;
    if ((stream != 1 && stream != 2) || !protocol_find(f->fields, PROTOCOL_BYTES, &bytes)) {
        return err_set(err, ERR_PROTOCOL, "the guest sent output of no stream");
    }
    *(stream == 1 ? &o->out_total : &o->err_total) += bytes.n;
    if (what->tell) {
        what->tell(what->tell_arg, (int)stream, bytes);
    }
    int r = add_tail(stream == 1 ? &o->out : &o->err, bytes, max);
    return r < 0 ? err_set(err, r, "out of memory") : 0;
}

static int take_exit(struct sandbox_output *o, const struct protocol_frame *f, size_t max,
                     struct err *err) {
    int r = guest_call_exit_code(f, &o->exit_code, err);
    if (r < 0) {
        return r;
    }
    o->timed_out = protocol_u64(f->fields, PROTOCOL_TIMED_OUT, 0) != 0;
    o->truncated = o->out_total > max || o->err_total > max;
    buf_consume(&o->out, o->out.len > max ? o->out.len - max : 0);
    buf_consume(&o->err, o->err.len > max ? o->err.len - max : 0);
    return 0;
}

/* Takes frames to the command's end. */
static int collect(struct guest_call *c, size_t max, const struct sandbox_exec *what,
                   struct sandbox_output *o, struct err *err) {
    for (;;) {
        struct protocol_frame f;
        int r = guest_call_next(c, &f, err);
        if (r < 0) {
            return r;
        }
        if (f.type == PROTOCOL_EXIT) {
            return take_exit(o, &f, max, err);
        }
        r = f.type == PROTOCOL_OUTPUT ? take_output(o, &f, max, what, err)
                                      : guest_call_unexpected(&f, err);
        if (r < 0) {
            return r;
        }
    }
}

int guest_exec(const struct guest_client *g, const struct sandbox_exec *what,
               struct sandbox_output *out, struct err *err) {
    AUTO(guest_call_deinit) struct guest_call c = {.fd = -1};
    struct sandbox_output o = {0};
    size_t max = what->output_max ? what->output_max : OUTPUT_MAX_DEFAULT;
    int r = guest_call_begin(&c, g, deadline_in_s(timeout_of(what) + LATE_S), what->cancel, err);
    if (r == 0) {
        r = add_start(&c, what, /*detached=*/false, err);
    }
    if (r == 0) {
        r = collect(&c, max, what, &o, err);
    }
    if (r < 0) {
        buf_deinit(&o.out);
        buf_deinit(&o.err);
        return r;
    }
    *out = o;
    return 0;
}

int guest_start(const struct guest_client *g, const struct sandbox_exec *what, uint32_t *out_job,
                struct err *err) {
    AUTO(guest_call_deinit) struct guest_call c = {.fd = -1};
    struct protocol_frame f = {0};
    if (what->input.n > SANDBOX_INPUT_MAX) {
        return err_set(err, ERR_LIMIT, "the input of a started command is longer than %u bytes",
                       SANDBOX_INPUT_MAX);
    }
    int r = guest_call_begin(&c, g, DEADLINE_NEVER, what->cancel, err);
    if (r == 0) {
        r = add_start(&c, what, /*detached=*/true, err);
    }
    if (r == 0) {
        r = guest_call_expect(&c, PROTOCOL_DONE, &f, err);
    }
    if (r < 0) {
        return r;
    }
    uint64_t job = protocol_u64(f.fields, PROTOCOL_JOB, 0);
    if (job == 0 || job > UINT32_MAX) {
        return err_set(err, ERR_PROTOCOL, "the guest started a command without a number");
    }
    *out_job = (uint32_t)job;
    return 0;
}
