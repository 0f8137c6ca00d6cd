/* SPDX-License-Identifier: BSD-3-Clause */
#include "rollout/config_machine.h"

#include "base/mem.h"

int config_machine_read(struct json_at at, struct sandbox_machine *m, struct err *err) {
    int r = json_get_string(at, "image", &m->image, err);
    r = r < 0 ? r : json_get_string(at, "flavor", &m->flavor, err);
    r = r < 0 ? r : json_get_string(at, "namespace", &m->namespace, err);
    r = r < 0 ? r : json_get_string(at, "agent_user", &m->user, err);
    r = r < 0 ? r : json_get_object(at, "env", &m->env, err);
    r = r < 0 ? r : json_get_object(at, "secrets", &m->secrets, err);
    r = r < 0 ? r : json_get_array(at, "volumes", &m->volumes, err);
    r = r < 0 ? r : json_get_number(at, "start_timeout_s", &m->start_s, err);
    return r < 0 ? r : json_get_bool(at, "forward_hf_token", &m->forward_token, err);
}

json_t *config_names_of(const json_t *object) {
    AUTO_JSON json_t *names = json_array();
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)object, name, value) {
        if (json_array_append_new(names, json_string(name)) < 0) {
            return NULL;
        }
    }
    return TAKE(names);
}

int config_machine_put(const struct sandbox_machine *m, json_t *out) {
    AUTO_JSON json_t *own =
        json_pack("{s:s?, s:s?, s:s?, s:s?, s:o, s:o, s:O?, s:f, s:b}", "image", m->image, "flavor",
                  m->flavor, "namespace", m->namespace, "agent_user", m->user, "env_names",
                  config_names_of(m->env), "secret_names", config_names_of(m->secrets), "volumes",
                  m->volumes, "start_timeout_s", m->start_s, "forward_hf_token", m->forward_token);
    return own ? json_object_update(out, own) : -1;
}
