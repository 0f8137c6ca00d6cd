/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/mem.h"
#include "cli/backend_option.h"
#include "cli/commands.h"
#include "cli/out.h"
#include "cli/text.h"
#include "sandbox/sandbox.h"

/* To look into a sandbox that another process has, and to end one. */

#define TIMEOUT_DEFAULT_S 60.0
#define LINE_MAX_BYTES 4096u /* A longer line comes in pieces, on a terminal. */

static int find(const struct args *a, const char *name, const struct sandbox_backend **backend,
                json_t **out, struct err *err) {
    struct sandbox_scope scope = {.namespace = args_text(a, "namespace")};
    *backend = backend_of(a);
    return sandbox_find(*backend, &scope, name, out, err);
}

static const char *id_of(const json_t *box) {
    return json_string_value(json_object_get(box, "id"));
}

/* Where a command's output goes: as it is, or in harmless lines where that is a terminal. */
struct outlet {
    FILE *stream;
    bool is_terminal;
    struct buf line; /* What has no end yet. */
};

static void put_line(struct outlet *o, struct sv line, const char *end) {
    AUTO_BUF struct buf text = {0};
    while (line.n > 0) {
        const char *tab = memchr(line.p, '\t', line.n);
        size_t n = tab ? (size_t)(tab - line.p) : line.n;
        if (text_printable((struct sv){line.p, n}, &text) < 0 ||
            (tab && buf_addc(&text, '\t') < 0)) {
            return;
        }
        line = sv_cut(line, n + (tab != NULL));
    }
    (void)fprintf(o->stream, "%s%s", buf_cstr(&text), end);
}

static void put(struct outlet *o, struct sv bytes) {
    if (!o->is_terminal) {
        (void)fwrite(bytes.p, 1, bytes.n, o->stream);
        (void)fflush(o->stream);
        return;
    }
    while (bytes.n > 0) {
        const char *feed = memchr(bytes.p, '\n', bytes.n);
        size_t n = feed ? (size_t)(feed - bytes.p) : bytes.n;
        if (buf_add(&o->line, bytes.p, n) < 0 || feed || o->line.len > LINE_MAX_BYTES) {
            put_line(o, buf_sv(&o->line), feed ? "\n" : "");
            buf_reset(&o->line);
        }
        bytes = sv_cut(bytes, n + (feed != NULL));
    }
    (void)fflush(o->stream);
}

static void outlet_end(struct outlet *o) {
    put_line(o, buf_sv(&o->line), "");
    (void)fflush(o->stream);
    buf_deinit(&o->line);
}

static void tell(void *arg, int stream, struct sv bytes) {
    struct outlet *outlets = arg;
    put(&outlets[stream - 1], bytes);
}

static json_t *output_json(const char *id, const struct sandbox_output *o) {
    return json_pack("{s:s, s:i, s:b, s:b, s:o, s:o}", "id", id, "exit_code", o->exit_code,
                     "timed_out", o->timed_out, "truncated", o->truncated, "stdout",
                     json_text(buf_sv(&o->out)), "stderr", json_text(buf_sv(&o->err)));
}

static int exec(const struct args *a, struct err *err) {
    const struct sandbox_backend *backend = NULL;
    AUTO_JSON json_t *box = NULL;
    struct sandbox_output o = {0};
    struct outlet outlets[] = {{.stream = stdout, .is_terminal = isatty(STDOUT_FILENO)},
                               {.stream = stderr, .is_terminal = isatty(STDERR_FILENO)}};
    int r = find(a, a->operands[0], &backend, &box, err);
    if (r < 0) {
        return r;
    }
    bool json = args_has(a, "json");
    struct sandbox_exec what = {.argv = a->operands + 1,
                                .timeout_s = args_number(a, "timeout-s", TIMEOUT_DEFAULT_S),
                                .tell = json ? NULL : tell,
                                .tell_arg = outlets};
    r = sandbox_exec_in(backend, id_of(box), &what, &o, err);
    outlet_end(&outlets[0]);
    outlet_end(&outlets[1]);
    if (r == 0 && json) {
        r = out_json(output_json(id_of(box), &o), err);
    }
    r = r < 0 ? r : o.exit_code;
    sandbox_output_deinit(&o);
    return r;
}

/* One of them; adds to the list. */
static int kill_one(const struct args *a, const char *name, json_t *list, struct err *err) {
    const struct sandbox_backend *backend = NULL;
    AUTO_JSON json_t *box = NULL;
    bool was_alive = false;
    int r = find(a, name, &backend, &box, err);
    r = r < 0 ? r : sandbox_kill_in(backend, id_of(box), &was_alive, err);
    if (r < 0) {
        return r;
    }
    if (!args_has(a, "json")) {
        (void)printf(was_alive ? "killed %s (its owner '%s' removes it)\n"
                               : "removed %s (its owner '%s' is dead)\n",
                     id_of(box), json_string_value(json_object_get(box, "owner")));
    }
    json_t *entry = json_pack("{s:s, s:b}", "id", id_of(box), "was_alive", was_alive);
    return json_array_append_new(list, entry) < 0 ? err_set(err, ERR_NOMEM, "out of memory") : 0;
}

/* All that were named are tried; the first error is told. */
static int kill_all(const struct args *a, struct err *err) {
    AUTO_JSON json_t *list = json_array();
    int first = 0;
    for (size_t i = 0; i < a->n_operands; i++) {
        struct err one = {0};
        int r = kill_one(a, a->operands[i], list, &one);
        if (r < 0 && first == 0) {
            first = err_set(err, r, "%s", one.msg);
        }
    }
    struct err ignored = {0};
    if (args_has(a, "json") && out_json(TAKE(list), first < 0 ? &ignored : err) < 0 && first == 0) {
        return ERR_NOMEM;
    }
    return first;
}

const struct command cmd_sandbox_exec = {
    .name = "sandbox exec",
    .summary = "run a command in a sandbox of another process",
    .operands = "SANDBOX COMMAND...",
    .operands_min = 2,
    .operands_max = SIZE_MAX,
    .runs_a_command = true,
    .options =
        (const struct option[]){
            {"timeout-s", OPTION_NUMBER, "SECONDS", "kill the command after this (default: 60)",
             NULL},
            BACKEND_OPTION,
            NAMESPACE_OPTION,
            {"json", OPTION_SWITCH, NULL, "print one object, at the end", NULL},
            {0},
        },
    .notes =
        "Options stand before SANDBOX. It is an id, the beginning of one, or a rollout's name.\n"
        "Exit status: the command's; 124 when its time was over.",
    .run = exec,
};

const struct command cmd_sandbox_kill = {
    .name = "sandbox kill",
    .summary = "end sandboxes, whoever's they are",
    .operands = "SANDBOX...",
    .operands_min = 1,
    .operands_max = SIZE_MAX,
    .options =
        (const struct option[]){
            BACKEND_OPTION,
            NAMESPACE_OPTION,
            {"json", OPTION_SWITCH, NULL, "print a JSON array", NULL},
            {0},
        },
    .notes = "SANDBOX is an id, the beginning of one, or a rollout's name.\n"
             "The rollout of one whose owner lives has lost its sandbox, and may be tried again.",
    .run = kill_all,
};
