/* SPDX-License-Identifier: BSD-3-Clause */
/* Sandboxes that another process made: what is needed of them stands in their labels. */
#include <string.h>

#include "base/json.h"
#include "sandbox/hf/hf.h"

#define CALL_S 60.0

/* ERR_LOST: no such sandbox runs. */
static int find(const char *id, struct hf_hub **hub, json_t **out, struct err *err) {
    AUTO_JSON json_t *labels = json_pack("{s:s}", HF_LABEL, "1");
    AUTO_JSON json_t *jobs = NULL;
    deadline_ms until = deadline_in_s(CALL_S);
    int r = hf_hub_of(NULL, NULL, until, NULL, hub, err);
    r = r < 0 ? r : hf_hub_list(*hub, labels, until, NULL, &jobs, err);
    if (r < 0) {
        return r;
    }
    size_t i;
    json_t *job;
    json_array_foreach(jobs, i, job) {
        const char *has = json_string_value(json_object_get(job, "id"));
        if (has && strcmp(has, id) == 0) {
            *out = json_incref(job);
            return 0;
        }
    }
    return err_set(err, ERR_LOST, "no sandbox '%s' is alive on the Hub", id);
}

int hf_kill_in(const char *id, bool *was_alive, struct err *err) {
    AUTO_JSON json_t *job = NULL;
    struct hf_hub *hub;
    int r = find(id, &hub, &job, err);
    *was_alive = r == 0;
    if (r == ERR_LOST) {
        return 0;
    }
    return r < 0 ? r : hf_hub_cancel(hub, id, err);
}

/* By a guest of its own, in a folder of its own, which goes with the sandbox. */
int hf_exec_in(const char *id, const struct sandbox_exec *what, struct sandbox_output *out,
               struct err *err) {
    AUTO_JSON json_t *job = NULL;
    struct hf_hub *hub;
    struct hf *s = NULL;
    int r = find(id, &hub, &job, err);
    if (r < 0) {
        return r;
    }
    const json_t *labels = json_object_get(job, "labels");
    const char *nonce = json_string_value(json_object_get(labels, HF_LABEL_NONCE));
    if (!nonce) {
        return err_set(err, ERR_INPUT, "sandbox '%s' has no label '%s'", id, HF_LABEL_NONCE);
    }
    r = hf_new(HF_HOME_DEFAULT, &s, err);
    if (r < 0) {
        return r;
    }
    s->hub = hub;
    r = hf_take_job(s, job, nonce, err);
    r = r < 0 ? r : hf_server_health(&s->server, deadline_in_s(CALL_S), what->cancel, err);
    r = r < 0 ? r : hf_put_guest(s, s->guest, deadline_in_s(CALL_S), what->cancel, err);
    r = r < 0 ? r : hf_exec(&s->base, what, out, err);
    hf_forget(s);
    return r;
}
