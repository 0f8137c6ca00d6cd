/* SPDX-License-Identifier: BSD-3-Clause */
#include "gateway/target.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

static void wipe(char *secret) {
    if (secret) {
        explicit_bzero(secret, strlen(secret));
        free(secret);
    }
}

int target_set(char **text, const char *to) {
    char *copy = mem_strdup(to);
    if (to && !copy) {
        return ERR_NOMEM;
    }
    wipe(*text);
    *text = copy;
    return 0;
}

struct target *target_new(const struct target *old) {
    struct target *t = calloc(1, sizeof *t);
    if (!t) {
        return NULL;
    }
    t->users = 1;
    t->level_max = LEVEL_TOKENS;
    if (!old) {
        return t;
    }
    t->level_max = old->level_max;
    t->endpoints = endpoint_set_ref(old->endpoints);
    int rc = target_set(&t->api_key, old->api_key);
    rc = rc < 0 ? rc : target_set(&t->key_name, old->key_name);
    rc = rc < 0 ? rc : target_set(&t->model_override, old->model_override);
    rc = rc < 0 ? rc : buf_add_sv(&t->policy_version, buf_sv(&old->policy_version));
    if (rc < 0) {
        target_unref(t);
        return NULL;
    }
    return t;
}

struct target *target_ref(struct target *t) {
    t->users++;
    return t;
}

void target_unref(struct target *t) {
    if (!t || --t->users > 0) {
        return;
    }
    endpoint_set_unref(t->endpoints);
    wipe(t->api_key);
    free(t->key_name);
    free(t->model_override);
    buf_deinit(&t->policy_version);
    free(t);
}
