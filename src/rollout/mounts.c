/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "rollout/factory_impl.h"

/* What of the host is seen inside: what the configuration lists, after the agent's own folder. */

/* "HOST_PATH:PATH" into two paths; the host's is made absolute, and must be there. */
static int read_mount(const char *text, struct sandbox_mount *out, struct err *err) {
    const char *colon = strrchr(text, ':');
    if (!colon || colon == text || colon[1] != '/') {
        return err_set(err, ERR_INPUT,
                       "mounts: want HOST_PATH:PATH with an absolute PATH inside, got '%s'", text);
    }
    AUTO_FREE char *host = mem_strndup(text, (size_t)(colon - text));
    AUTO_FREE char *path = mem_strdup(colon + 1);
    if (!host || !path) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    char *real = realpath(host, NULL);
    if (!real) {
        return err_sys(err, ERR_INPUT, errno, "mounts: cannot use '%s'", host);
    }
    *out = (struct sandbox_mount){.host_path = real, .path = TAKE(path)};
    return 0;
}

int factory_read_mounts(struct rollout_factory *f, struct err *err) {
    const json_t *list = f->o.config->mounts;
    f->mounts = calloc(json_array_size(list) + 1, sizeof *f->mounts);
    if (!f->mounts) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    size_t i;
    json_t *text;
    json_array_foreach(list, i, text) {
        int r = read_mount(json_string_value(text), &f->mounts[1 + f->n_mounts], err);
        if (r < 0) {
            return r;
        }
        f->n_mounts++;
    }
    return 0;
}

void factory_free_mounts(struct rollout_factory *f) {
    for (size_t i = 1; i <= f->n_mounts; i++) { /* The first is borrowed. */
        free((char *)(uintptr_t)f->mounts[i].host_path);
        free((char *)(uintptr_t)f->mounts[i].path);
    }
    free(f->mounts);
}
