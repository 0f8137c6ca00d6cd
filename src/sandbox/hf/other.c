/* SPDX-License-Identifier: BSD-3-Clause */
/* Sandboxes that another process made: what is needed of them stands in their labels. */
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "sandbox/hf/hf.h"

#define CALL_S 60.0

/* "NAMESPACE/JOB", or a job of the token's owner. ERR_LOST: no such sandbox is alive. */
static int find(const char *id, struct hf_hub **hub, json_t **out, struct err *err) {
    AUTO_JSON json_t *job = NULL;
    deadline_ms until = deadline_in_s(CALL_S);
    const char *slash = strchr(id, '/');
    AUTO_FREE char *namespace = slash ? mem_strndup(id, (size_t)(slash - id)) : NULL;
    const char *name = slash ? slash + 1 : id;
    if (!*name || name[strspn(name, "0123456789abcdef")]) {
        return err_set(err, ERR_NOT_FOUND, "'%.80s' is no sandbox's id", id);
    }
    int r = hf_hub_of(NULL, namespace, until, NULL, hub, err);
    r = r < 0 ? r : hf_hub_job(*hub, name, until, NULL, &job, err);
    bool is_ours = json_object_get(json_object_get(job, "labels"), HF_LABEL);
    if (r == ERR_NOT_FOUND || (r == 0 && (!is_ours || hf_hub_job_is_over(job)))) {
        return err_set(err, ERR_LOST, "no sandbox '%s' is alive on the Hub", id);
    }
    if (r == 0) {
        *out = TAKE(job);
    }
    return r;
}

int hf_kill_in(const char *id, bool *was_alive, struct err *err) {
    AUTO_JSON json_t *job = NULL;
    struct hf_hub *hub;
    int r = find(id, &hub, &job, err);
    *was_alive = r == 0;
    if (r == ERR_LOST) {
        return 0;
    }
    return r < 0 ? r : hf_hub_cancel(hub, json_string_value(json_object_get(job, "id")), err);
}

/* As its owner made it. */
static int reopen(struct hf_hub *hub, const json_t *job, struct hf **out, struct err *err) {
    const json_t *labels = json_object_get(job, "labels");
    const char *nonce = json_string_value(json_object_get(labels, HF_LABEL_NONCE));
    const char *user = json_string_value(json_object_get(labels, HF_LABEL_USER));
    const char *home =
        json_string_value(json_object_get(json_object_get(job, "environment"), HF_HOME_VARIABLE));
    struct hf *s = NULL;
    if (!nonce) {
        return err_set(err, ERR_INPUT, "a sandbox without the label '%s' is none of ours",
                       HF_LABEL_NONCE);
    }
    bool is_root = !user || strcmp(user, "root") == 0;
    int r = hf_new(home ? home : HF_HOME_DEFAULT, is_root, &s, err);
    if (r < 0) {
        return r;
    }
    s->hub = hub;
    *out = s;
    return hf_take_job(s, job, nonce, err);
}

/* By a guest of its own, in a folder of its own, which goes with the sandbox. */
static int exec_beside(struct hf *s, const struct sandbox_exec *what, struct sandbox_output *out,
                       struct err *err) {
    int r = hf_server_health(&s->server, deadline_in_s(CALL_S), what->cancel, err);
    r = r < 0 ? r : hf_put_guest(s, s->guest, deadline_in_s(CALL_S), what->cancel, err);
    return r < 0 ? r : hf_exec(&s->base, what, out, err);
}

int hf_exec_in(const char *id, const struct sandbox_exec *what, struct sandbox_output *out,
               struct err *err) {
    AUTO_JSON json_t *job = NULL;
    struct hf_hub *hub;
    struct hf *s = NULL;
    int r = find(id, &hub, &job, err);
    r = r < 0 ? r : reopen(hub, job, &s, err);
    r = r < 0 || !s ? r : exec_beside(s, what, out, err);
    if (s) {
        hf_forget(s);
    }
    return r;
}
