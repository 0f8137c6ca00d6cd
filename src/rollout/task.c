/* SPDX-License-Identifier: BSD-3-Clause */
#include "rollout/task.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "rollout/task_files.h"

#define MEMORY_MB_MIN 16       /* Below it not even a shell starts. */
#define MEMORY_MB_MAX 16777216 /* 16 TiB: more is a slip of units. */
#define PROCESSES_MAX 4194304  /* The kernel's own limit of process ids. */
#define DISK_MB_MAX 16777216

static const char *const fields[] = {"instruction", "setup",        "verify",       "task_id",
                                     "files",       "verify_files", "network",      "limits",
                                     "metadata",    "setup_shell",  "upload_files", NULL};
static const char *const phases[TASK_PHASES + 1] = {"setup", "agent", "verify", NULL};
static const char *const words[] = {"none", "model", "full", NULL};

static int no_memory(struct err *err) {
    return err_set(err, ERR_NOMEM, "out of memory");
}

static int set_string(char **out, const char *value, struct err *err) {
    char *copy = mem_strdup(value);
    if (!copy) {
        return no_memory(err);
    }
    free(*out);
    *out = copy;
    return 0;
}

static bool is_blank(const char *s) {
    return s[strspn(s, " \t\r\n")] == '\0';
}

static int read_instruction(struct json_at at, struct task *t, struct err *err) {
    const char *text = NULL;
    int r = json_get_string(at, "instruction", &text, err);
    if (r < 0) {
        return r;
    }
    if (!text || is_blank(text)) {
        return err_set(err, ERR_INPUT, "%s: instruction: %s (say what the agent is to do)",
                       at.where, text ? "is empty" : "is missing");
    }
    if (strlen(text) > TASK_INSTRUCTION_MAX) {
        return err_set(err, ERR_INPUT,
                       "%s: instruction: is longer than %u bytes (put the rest "
                       "into files)",
                       at.where, TASK_INSTRUCTION_MAX);
    }
    return set_string(&t->instruction, text, err);
}

static int read_id(struct json_at at, const char *fallback, struct task *t, struct err *err) {
    const char *id = NULL;
    int r = json_get_string(at, "task_id", &id, err);
    if (r < 0) {
        return r;
    }
    if (id && (!id[0] || strlen(id) > TASK_ID_MAX)) {
        return err_set(err, ERR_INPUT, "%s: task_id: want 1 to %d bytes", at.where, TASK_ID_MAX);
    }
    for (const char *p = id; p && *p; p++) {
        if ((unsigned char)*p < ' ' || *p == 0x7f) {
            return err_set(err, ERR_INPUT, "%s: task_id: holds a control character", at.where);
        }
    }
    return set_string(&t->id, id ? id : fallback ? fallback : "task", err);
}

static int add_command(struct json_at at, const char *field, size_t i, const json_t *value,
                       char **out, struct err *err) {
    const char *text = json_string_value(value);
    if (!text) {
        return err_set(err, ERR_INPUT, "%s: %s[%zu]: want a command, got %s", at.where, field, i,
                       json_kind(value));
    }
    if (strlen(text) != json_string_length(value)) {
        return err_set(err, ERR_INPUT, "%s: %s[%zu]: a NUL is not allowed here", at.where, field,
                       i);
    }
    if (is_blank(text)) {
        return err_set(err, ERR_INPUT, "%s: %s[%zu]: is empty (remove it)", at.where, field, i);
    }
    if (strlen(text) >= TASK_COMMAND_BYTES_MAX) {
        return err_set(err, ERR_INPUT,
                       "%s: %s[%zu]: is longer than %u bytes (put it into a file and run that)",
                       at.where, field, i, TASK_COMMAND_BYTES_MAX - 1);
    }
    return set_string(out, text, err);
}

/* `first`: a command before those of the list, or NULL. */
static int read_commands(struct json_at at, const char *field, const json_t *first, char ***out,
                         size_t *n, struct err *err) {
    const json_t *list = NULL;
    int r = json_get_array(at, field, &list, err);
    if (r < 0) {
        return r;
    }
    size_t count = json_array_size(list);
    if (count > TASK_COMMANDS_MAX) {
        return err_set(err, ERR_INPUT, "%s: %s: more than %d commands (join some)", at.where, field,
                       TASK_COMMANDS_MAX);
    }
    *out = calloc(count + 2, sizeof **out);
    if (!*out) {
        return no_memory(err);
    }
    if (first) {
        r = add_command(at, "setup_shell", 0, first, *out, err);
        *n += r == 0;
    }
    for (size_t i = 0; i < count && r == 0; i++) {
        r = add_command(at, field, i, json_array_get(list, i), *out + *n, err);
        *n += r == 0;
    }
    return r;
}

static int read_all_commands(struct json_at at, struct task *t, struct err *err) {
    const char *shell = NULL;
    int r = json_get_string(at, "setup_shell", &shell, err);
    const json_t *first =
        shell && !is_blank(shell) ? json_object_get(at.object, "setup_shell") : NULL;
    r = r < 0 ? r : read_commands(at, "setup", first, &t->setup, &t->n_setup, err);
    return r < 0 ? r : read_commands(at, "verify", NULL, &t->verify, &t->n_verify, err);
}

static int read_word(const char *where, const char *field, const char *word,
                     struct task_network *out, struct err *err) {
    for (int i = 0; words[i]; i++) {
        if (strcmp(words[i], word) == 0) {
            *out = (struct task_network){true, (enum sandbox_network)i};
            return 0;
        }
    }
    return err_set(err, ERR_INPUT, "%s: %s: unknown word '%s' (use none, model or full)", where,
                   field, word);
}

static int read_network(struct json_at at, struct task *t, struct err *err) {
    const json_t *value = json_object_get(at.object, "network");
    int r = 0;
    t->network[TASK_SETUP].word = SANDBOX_NETWORK_FULL;
    t->network[TASK_AGENT].word = SANDBOX_NETWORK_MODEL;
    t->network[TASK_VERIFY].word = SANDBOX_NETWORK_NONE;
    if (!value || json_is_null(value)) {
        return 0;
    }
    if (!json_is_string(value) && !json_is_object(value)) {
        return err_set(err, ERR_INPUT,
                       "%s: network: want none, model or full, or an object with setup, agent and "
                       "verify; got %s",
                       at.where, json_kind(value));
    }
    AUTO_FREE char *where = mem_printf("%s: network", at.where);
    if (!where) {
        return no_memory(err);
    }
    struct json_at inner = {value, where};
    r = json_is_object(value) ? json_check_fields(inner, phases, err) : 0;
    for (int i = 0; i < TASK_PHASES && r == 0; i++) {
        const char *word = NULL;
        r = json_is_string(value) ? json_get_string(at, "network", &word, err)
                                  : json_get_string(inner, phases[i], &word, err);
        if (r == 0 && word) {
            r = json_is_string(value) ? read_word(at.where, "network", word, &t->network[i], err)
                                      : read_word(where, phases[i], word, &t->network[i], err);
        }
    }
    return r;
}

static int read_seconds(struct json_at at, const char *field, double *out, struct err *err) {
    double value = 1;
    int r = json_get_number(at, field, &value, err);
    if (r < 0 || !json_object_get(at.object, field)) {
        return r;
    }
    if (!isfinite(value) || value <= 0 || value > TASK_SECONDS_MAX) {
        return err_set(err, ERR_INPUT, "%s: %s: want seconds above 0, at most %.0f; got %.15g",
                       at.where, field, TASK_SECONDS_MAX, value);
    }
    return json_get_number(at, field, out, err);
}

static int read_count(struct json_at at, const char *field, long min, long max, long *out,
                      struct err *err) {
    long long value = min;
    int r = json_get_int(at, field, &value, err);
    if (r < 0) {
        return r;
    }
    if (value < min || value > max) {
        return err_set(err, ERR_INPUT, "%s: %s: want a whole number from %ld to %ld, got %lld",
                       at.where, field, min, max, value);
    }
    value = 0;
    r = json_get_int(at, field, &value, err);
    *out = (long)value;
    return r;
}

static int read_limits(struct json_at at, struct task *t, struct err *err) {
    static const char *const known[] = {"setup_s",   "agent_s", "verify_s", "memory_mb",
                                        "processes", "disk_mb", NULL};
    const json_t *object = NULL;
    int r = json_get_object(at, "limits", &object, err);
    if (r < 0 || !object) {
        return r;
    }
    AUTO_FREE char *where = mem_printf("%s: limits", at.where);
    if (!where) {
        return no_memory(err);
    }
    struct json_at in = {object, where};
    struct task_limits *l = &t->limits;
    r = json_check_fields(in, known, err);
    r = r < 0 ? r : read_seconds(in, "setup_s", &l->setup_s, err);
    r = r < 0 ? r : read_seconds(in, "agent_s", &l->agent_s, err);
    r = r < 0 ? r : read_seconds(in, "verify_s", &l->verify_s, err);
    r = r < 0 ? r : read_count(in, "memory_mb", MEMORY_MB_MIN, MEMORY_MB_MAX, &l->memory_mb, err);
    r = r < 0 ? r : read_count(in, "processes", 1, PROCESSES_MAX, &l->processes, err);
    return r < 0 ? r : read_count(in, "disk_mb", 1, DISK_MB_MAX, &l->disk_mb, err);
}

static int read_metadata(struct json_at at, struct task *t, struct err *err) {
    const json_t *metadata = NULL;
    int r = json_get_object(at, "metadata", &metadata, err);
    if (r < 0) {
        return r;
    }
    t->metadata = metadata ? json_deep_copy(metadata) : json_object();
    return t->metadata ? 0 : no_memory(err);
}

static int read_object(struct json_at at, const char *id, struct task *t, struct err *err) {
    int r = json_check_fields(at, fields, err);
    r = r < 0 ? r : read_instruction(at, t, err);
    r = r < 0 ? r : read_id(at, id, t, err);
    r = r < 0 ? r : read_all_commands(at, t, err);
    r = r < 0 ? r : task_files_read(at, "files", &t->files, &t->n_files, err);
    r = r < 0 ? r : task_files_read(at, "upload_files", &t->files, &t->n_files, err);
    r = r < 0 ? r : task_files_read(at, "verify_files", &t->verify_files, &t->n_verify_files, err);
    r = r < 0 ? r : read_network(at, t, err);
    r = r < 0 ? r : read_limits(at, t, err);
    return r < 0 ? r : read_metadata(at, t, err);
}

int task_from_json(const json_t *value, const char *name, const char *id, struct task *out,
                   struct err *err) {
    AUTO_JSON json_t *wrapped = NULL;
    if (json_is_string(value)) {
        wrapped = json_pack("{s:O}", "instruction", value);
        value = wrapped;
    } else if (!json_is_object(value)) {
        return err_set(err, ERR_INPUT,
                       "%s: want a task (an object) or its instruction (a string), got %s", name,
                       json_kind(value));
    }
    if (!value) {
        return no_memory(err);
    }
    struct task t = {0};
    int r = read_object((struct json_at){value, name}, id, &t, err);
    if (r < 0) {
        task_deinit(&t);
        return r;
    }
    *out = t;
    return 0;
}

void task_deinit(struct task *t) {
    if (!t) {
        return;
    }
    free(t->id);
    free(t->instruction);
    for (size_t i = 0; i < t->n_setup; i++) {
        free(t->setup[i]);
    }
    for (size_t i = 0; i < t->n_verify; i++) {
        free(t->verify[i]);
    }
    free(t->setup);
    free(t->verify);
    task_files_free(t->files, t->n_files);
    task_files_free(t->verify_files, t->n_verify_files);
    json_decref(t->metadata);
    *t = (struct task){0};
}
