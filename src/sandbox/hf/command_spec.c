/* SPDX-License-Identifier: BSD-3-Clause */
/* What a command is to be, as the guest reads it. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "guest/parcel.h"
#include "guest/protocol.h"
#include "sandbox/hf/command.h"

/* As text it fits into a pipe, so that no server waits for the guest to read it. */
#define SMALL_MAX (46u << 10)

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
    double otherwise_s = is_job ? 0 : HF_EXEC_TIMEOUT_S;
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
                 is_job ? hf_path(s, what->stdout_path) : hf_command_file(c, "out"));
    }
    if (!is_job || what->stderr_path) {
        add_path(o, PROTOCOL_STDERR_PATH,
                 is_job ? hf_path(s, what->stderr_path) : hf_command_file(c, "err"));
    }
}

/* What is small goes with the call that starts the command; the rest is sent before. */
static void add_input(struct protocol_out *o, const struct hf_command *c,
                      const struct sandbox_exec *what, bool is_small) {
    if (is_small && what->input.n > 0) {
        protocol_add(o, PROTOCOL_BYTES, what->input);
    } else if (what->input.n > 0) {
        add_path(o, PROTOCOL_PATH, hf_command_file(c, "in"));
    }
}

static int send(const struct hf_command *c, const char *name, struct sv bytes, deadline_ms until,
                const struct cancel *cancel, struct err *err) {
    AUTO_FREE char *path = hf_command_file(c, name);
    return path ? hf_server_write(&c->sandbox->server, path, bytes, 0600, until, cancel, err)
                : err_set(err, ERR_NOMEM, "out of memory");
}

int hf_command_spec(struct hf_command *c, const struct sandbox_exec *what, bool is_job,
                    deadline_ms until, struct err *err) {
    AUTO_BUF struct buf b = {0};
    struct protocol_out o = protocol_fields_begin(&b);
    add_command(&o, c, what, is_job);
    add_outputs(&o, c, what, is_job);
    bool is_small = b.len + what->input.n <= SMALL_MAX;
    add_input(&o, c, what, is_small);
    if (protocol_fields_end(&o) < 0) {
        return err_set(err, ERR_LIMIT,
                       "a command with its arguments is too long, or out of memory");
    }
    if (is_small) {
        return parcel_put(buf_sv(&b), &c->parcel) < 0 ? err_set(err, ERR_NOMEM, "out of memory")
                                                      : 0;
    }
    int r = what->input.n > 0 ? send(c, "in", what->input, until, what->cancel, err) : 0;
    return r < 0 ? r : send(c, "spec", buf_sv(&b), until, what->cancel, err);
}
