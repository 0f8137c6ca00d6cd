/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>
#include <time.h>

#include "base/host.h"
#include "base/json.h"
#include "base/mem.h"
#include "sandbox/hf/hf.h"

#define LIST_S 60.0

static const char *label(const json_t *job, const char *name) {
    return json_string_value(json_object_get(json_object_get(job, "labels"), name));
}

/* Whether the process that made it may live: only of this machine can it be said that it doesn't.
 * Others' sandboxes end by their own time. */
static bool may_be_owned(const json_t *job) {
    char host[HOST_LABEL_MAX + 1];
    const char *of = label(job, "snaffle-host");
    const char *process = label(job, "snaffle-process");
    host_label(host);
    return !of || !process || strcmp(of, host) != 0 || host_process_alive(process);
}

static int find(const struct sandbox_scope *scope, struct hf_hub **hub, json_t **jobs,
                struct err *err) {
    const char *run = scope ? scope->run : NULL;
    AUTO_JSON json_t *labels = json_pack("{s:s, s:s*}", HF_LABEL, "1", "snaffle-run", run);
    struct sandbox_machine machine = {.namespace = scope ? scope->namespace : NULL};
    deadline_ms until = deadline_in_s(LIST_S);
    int r = hf_machine_check(&machine, err);
    r = r < 0 ? r : hf_hub_of(NULL, machine.namespace, until, NULL, hub, err);
    return r < 0 ? r : hf_hub_list(*hub, labels, until, NULL, jobs, err);
}

/* Of "2026-11-29T10:00:00.000Z"; 0 of anything else. */
static double unix_time(const json_t *text) {
    struct tm tm = {0};
    const char *end =
        json_is_string(text) ? strptime(json_string_value(text), "%Y-%m-%dT%H:%M:%S", &tm) : NULL;
    return end ? (double)timegm(&tm) : 0;
}

/* With the namespace before it, if that was named: so it is found again. */
static json_t *id_of(const struct sandbox_scope *scope, const json_t *job) {
    const char *id = json_string_value(json_object_get(job, "id"));
    const char *namespace = scope ? scope->namespace : NULL;
    return json_sprintf("%s%s%s", namespace ? namespace : "", namespace ? "/" : "", id ? id : "");
}

static json_t *entry_of(const struct sandbox_scope *scope, const json_t *job) {
    return json_pack("{s:o, s:s?, s:s?, s:s?, s:o, s:b}", "id", id_of(scope, job), "owner",
                     label(job, "snaffle-owner"), "run", label(job, "snaffle-run"), "rollout",
                     label(job, "snaffle-rollout"), "created",
                     json_real(unix_time(json_object_get(job, "createdAt"))), "alive",
                     may_be_owned(job));
}

int hf_list(const struct sandbox_scope *scope, json_t **out, struct err *err) {
    AUTO_JSON json_t *jobs = NULL;
    AUTO_JSON json_t *list = json_array();
    struct hf_hub *hub;
    int r = find(scope, &hub, &jobs, err);
    size_t i;
    json_t *job;
    json_array_foreach(jobs, i, job) {
        if (r == 0 && json_array_append_new(list, entry_of(scope, job)) < 0) {
            r = err_set(err, ERR_NOMEM, "out of memory");
        }
    }
    if (r == 0) {
        *out = TAKE(list);
    }
    return r;
}

int hf_sweep(const struct sandbox_scope *scope, bool dry_run, unsigned *removed, struct err *err) {
    AUTO_JSON json_t *jobs = NULL;
    struct hf_hub *hub;
    int r = find(scope, &hub, &jobs, err);
    if (r < 0) {
        return r;
    }
    size_t i;
    json_t *job;
    int worst = 0;
    json_array_foreach(jobs, i, job) {
        const char *id = json_string_value(json_object_get(job, "id"));
        if (!id || may_be_owned(job)) {
            continue;
        }
        r = dry_run ? 0 : hf_hub_cancel(hub, id, err);
        worst = r < 0 ? r : worst;
        *removed += r == 0;
    }
    return worst;
}
