/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_ROLLOUT_TASK_H
#define SNAFFLE_ROLLOUT_TASK_H

#include <jansson.h>
#include <stdbool.h>

#include "base/err.h"
#include "base/sv.h"
#include "sandbox/sandbox.h"

/*
 * A task: what the agent is to do, and how it is judged. Read from JSON; the struct owns all it
 * points to. Bad input is ERR_INPUT with one line that names source, field and remedy.
 *
 *     struct task t = {0};
 *     r = task_load("examples/binary_search", &t, err);
 *     task_deinit(&t);
 */

#define TASK_BYTES_MAX (64u << 20)        /* The file itself: as large as a request may be. */
#define TASK_INSTRUCTION_MAX (1u << 20)   /* Agents take it as one argument or message. */
#define TASK_FILE_BYTES_MAX (16u << 20)   /* Text of one file; larger data belongs in setup. */
#define TASK_FILES_MAX 1000               /* Each is placed by a call of its own. */
#define TASK_COMMANDS_MAX 1000            /* Of setup, and of verify; each has a result. */
#define TASK_COMMAND_BYTES_MAX (1u << 17) /* Linux takes no longer single argument. */
#define TASK_SECONDS_MAX 604800.0         /* A week: no provider keeps a sandbox longer. */
#define TASK_ID_MAX 255                   /* A file's base name is the default. */

struct task_file {
    char *path;  /* "a/b.py", relative to <home>/workdir and clean, or absolute and normal. */
    char *bytes; /* May hold NULs; one NUL follows that does not count. */
    size_t n;
};

enum task_phase { TASK_SETUP, TASK_AGENT, TASK_VERIFY, TASK_PHASES };

struct task_network {
    bool given; /* Else `word` holds the phase's default: full, model, none. */
    enum sandbox_network word;
};

struct task_limits { /* 0: not given. */
    double setup_s;  /* All of setup. */
    double agent_s;
    double verify_s; /* All of verify. */
    long memory_mb;
    long processes;
    long disk_mb;
};

struct task {
    char *id;
    char *instruction;
    char **setup; /* Shell text each; NULL-ended. The reference's setup_shell comes first. */
    size_t n_setup;
    char **verify; /* Shell text each; NULL-ended. */
    size_t n_verify;
    struct task_file *files; /* With the reference's upload_files. */
    size_t n_files;
    struct task_file *verify_files;
    size_t n_verify_files;
    struct task_network network[TASK_PHASES];
    struct task_limits limits;
    json_t *metadata; /* An object, never NULL after a parse. */
};

/* `path`: a task file, a folder that holds task.json, or "-" for stdin. The id is, if not given,
 * the file's base name without ".json" (the folder's for task.json, "stdin" for "-"). */
int task_load(const char *path, struct task *out, struct err *err) CHECK_RESULT;

/* `name` stands for the source in messages. `id`: the default; NULL: "task". */
int task_parse(struct sv text, const char *name, const char *id, struct task *out,
               struct err *err) CHECK_RESULT;

/* The same from a value: an object, or a string that is the instruction. Borrows `value`. */
int task_from_json(const json_t *value, const char *name, const char *id, struct task *out,
                   struct err *err) CHECK_RESULT;

/* Gives the task as task.json has it: what was not given is left out. NULL: no memory. */
json_t *task_to_json(const struct task *t);

/* Where a file stands inside: gives "<home>/workdir/<path>", or the absolute path as it is. NULL:
 * no memory. */
char *task_file_path(const struct task_file *f, const char *home);

void task_deinit(struct task *t); /* Accepts NULL and zero. */

#endif
