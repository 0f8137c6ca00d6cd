/* SPDX-License-Identifier: BSD-3-Clause */
#include "rollout/batch_plan.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "rollout/cause.h"

#define RESULT_BYTES_MAX (256u << 20) /* As the store's. */

static int no_memory(struct err *err) {
    return err_set(err, ERR_NOMEM, "out of memory");
}

static void item_clear(struct batch_item *item) {
    free(item->status);
    free(item->cause);
    free(item->error);
    free(item->dir);
    item->status = item->cause = item->error = item->dir = NULL;
}

void batch_plan_deinit(struct batch_plan *p) {
    for (size_t i = 0; i < p->n; i++) {
        item_clear(&p->items[i]);
    }
    free(p->items);
    *p = (struct batch_plan){0};
}

/* The group's name is what its rollouts' names begin with. */
static void name_group(const char *task_id, char out[STORE_NAME_MAX + 1]) {
    store_name_from(task_id, 0, out);
    out[strlen(out) - strlen("-0")] = '\0';
}

static int by_rollout(const void *a, const void *b) {
    const struct batch_item *const *x = a;
    const struct batch_item *const *y = b;
    return strcmp((*x)->rollout, (*y)->rollout);
}

static int check_names(const struct batch_plan *p, struct err *err) {
    AUTO_FREE const struct batch_item **sorted =
        calloc(p->n + 1, sizeof *sorted); // NOLINT(bugprone-sizeof-expression): pointers
    if (!sorted) {
        return no_memory(err);
    }
    for (size_t i = 0; i < p->n; i++) {
        sorted[i] = &p->items[i];
    }
    qsort(sorted, p->n, sizeof *sorted, by_rollout); // NOLINT(bugprone-sizeof-expression): pointers
    for (size_t i = 1; i < p->n; i++) {
        if (strcmp(sorted[i - 1]->rollout, sorted[i]->rollout) == 0) {
            return err_set(err, ERR_INPUT,
                           "the task_ids '%.100s' and '%.100s' both give the rollout name '%s' "
                           "(change one of them)",
                           sorted[i - 1]->task->id, sorted[i]->task->id, sorted[i]->rollout);
        }
    }
    return 0;
}

int batch_plan_make(const struct task_list *tasks, size_t per_task, struct batch_plan *out,
                    struct err *err) {
    if (per_task == 0 || per_task > BATCH_PER_TASK_MAX) {
        return err_set(err, ERR_INPUT, "want 1 to %d rollouts a task, got %zu", BATCH_PER_TASK_MAX,
                       per_task);
    }
    struct batch_plan p = {.per_task = per_task};
    p.items = calloc(tasks->n * per_task + 1, sizeof *p.items);
    if (!p.items) {
        return no_memory(err);
    }
    for (size_t t = 0; t < tasks->n; t++) {
        for (size_t k = 0; k < per_task; k++) {
            struct batch_item *item = &p.items[p.n++];
            item->task = &tasks->tasks[t];
            item->attempt = 1;
            name_group(item->task->id, item->group);
            store_name_from(item->task->id, (unsigned)k, item->rollout);
        }
    }
    int r = check_names(&p, err);
    if (r < 0) {
        batch_plan_deinit(&p);
        return r;
    }
    *out = p;
    return 0;
}

static char *text_of(const json_t *object, const char *field) {
    return mem_strdup(json_string_value(json_object_get(object, field)));
}

static unsigned long long count_of(const json_t *object, const char *field) {
    json_int_t n = json_integer_value(json_object_get(object, field));
    return n > 0 ? (unsigned long long)n : 0;
}

int batch_item_take(struct batch_item *item, const json_t *result, const char *dir,
                    struct err *err) {
    const json_t *reward = json_object_get(result, "reward");
    unsigned long long attempt = count_of(result, "attempt");
    item_clear(item);
    item->state = BATCH_ENDED;
    item->has_result = true;
    item->status = text_of(result, "status");
    item->cause = text_of(result, "cause");
    item->error = text_of(result, "error");
    item->dir = mem_strdup(dir);
    item->has_reward = json_is_number(reward);
    item->reward = json_number_value(reward);
    item->wall_s = json_number_value(json_object_get(result, "wall_s"));
    item->calls = count_of(result, "calls");
    item->completion_tokens = count_of(result, "completion_tokens");
    item->attempt = attempt > 0 ? (unsigned)attempt : item->attempt;
    return item->status && item->dir ? 0 : no_memory(err);
}

/* The attempt whose files stand in the folder: one more than those that were moved away. */
static unsigned present_attempt(const char *dir) {
    AUTO_FREE char *path = file_join(dir, "attempts");
    DIR *d = path ? opendir(path) : NULL;
    unsigned long long last = 0;
    const struct dirent *e;
    while (d && (e = readdir(d))) {
        unsigned long long n = 0;
        if (sv_parse_u64(sv_from(e->d_name), 1000000, &n) && n > last) {
            last = n;
        }
    }
    if (d) {
        closedir(d);
    }
    return (unsigned)last + 1;
}

static enum rollout_cause cause_named(const char *word) {
    for (int c = 0; c < ROLLOUT_CAUSE_COUNT; c++) {
        const char *own = rollout_cause_row((enum rollout_cause)c)->word;
        if (own && word && strcmp(own, word) == 0) {
            return (enum rollout_cause)c;
        }
    }
    return ROLLOUT_CAUSE_NONE;
}

/* Whether the result is the rollout's last word. What came from outside is tried again however
 * often it was: going on is asked for when that is mended. */
static bool is_final(const json_t *result) {
    const char *status = json_string_value(json_object_get(result, "status"));
    const char *word = json_string_value(json_object_get(result, "cause"));
    if (!status || strcmp(status, "cancelled") == 0) {
        return false;
    }
    if (strcmp(status, "ok") == 0) {
        return true;
    }
    unsigned attempt = (unsigned)count_of(result, "attempt");
    return !rollout_cause_retried(cause_named(word), attempt, /* retries= */ attempt);
}

/* Names the fields that differ, "instruction, verify"; "" for none. */
static int differences(const json_t *was, const json_t *is, struct buf *out) {
    const char *field;
    json_t *value;
    int r = 0;
    json_object_foreach((json_t *)(uintptr_t)is, field, value) {
        if (r == 0 && !json_equal(value, json_object_get(was, field))) {
            r = buf_addf(out, "%s%s", out->len ? ", " : "", field);
        }
    }
    json_object_foreach((json_t *)(uintptr_t)was, field, value) {
        if (r == 0 && !json_object_get(is, field)) {
            r = buf_addf(out, "%s%s", out->len ? ", " : "", field);
        }
    }
    return r;
}

/* A group is rollouts of one task: what was begun with another text is no part of it. A folder
 * whose making was cut short has no task yet. */
static int check_task(const struct batch_item *item, const char *dir, struct err *err) {
    AUTO_FREE char *path = file_join(dir, "task.json");
    AUTO_JSON json_t *was = NULL;
    AUTO_JSON json_t *is = task_to_json(item->task);
    AUTO_BUF struct buf fields = {0};
    if (!path || !is) {
        return no_memory(err);
    }
    if (json_load(path, 2 * TASK_BYTES_MAX, &was, NULL) < 0) {
        return 0;
    }
    if (differences(was, is, &fields) < 0) {
        return no_memory(err);
    }
    return fields.len == 0
               ? 0
               : err_set(err, ERR_INPUT,
                         "the task '%.100s' is another than when the run began: %s changed, in its "
                         "text or by a flag (nothing was touched: make it again as '%s' has it, or "
                         "begin another --run)",
                         item->task->id, buf_cstr(&fields), path);
}

static int look_up(struct batch_item *item, const char *dir, struct err *err) {
    AUTO_FREE char *path = file_join(dir, "result.json");
    AUTO_JSON json_t *result = NULL;
    if (!path) {
        return no_memory(err);
    }
    if (json_load(path, RESULT_BYTES_MAX, &result, NULL) == 0 && is_final(result)) {
        int r = batch_item_take(item, result, dir, err);
        item->kept = r == 0;
        return r;
    }
    item->attempt = present_attempt(dir) + 1;
    return 0;
}

int batch_plan_look_up(struct batch_plan *p, const struct store *s, const char *run, bool resume,
                       size_t *left, struct err *err) {
    *left = 0;
    for (size_t i = 0; i < p->n; i++) {
        struct batch_item *item = &p->items[i];
        AUTO_FREE char *dir = store_rollout_path(s, run, item->rollout);
        if (!dir) {
            return no_memory(err);
        }
        bool there = file_exists(dir);
        if (there && !resume) {
            return err_set(err, ERR_EXISTS,
                           "the run '%s' has the rollout '%s' already (--resume goes on with it)",
                           run, item->rollout);
        }
        int r = there ? check_task(item, dir, err) : 0;
        r = r < 0 || !there ? r : look_up(item, dir, err);
        if (r < 0) {
            return r;
        }
        *left += !item->kept;
    }
    return 0;
}
