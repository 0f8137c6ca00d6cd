/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "sandbox/local.h"

static int check_mount(const struct sandbox_mount *m, const char *home, uid_t uid,
                       struct err *err) {
    int r = inside_check("mount", m->path, err);
    if (r < 0) {
        return r;
    }
    /* A link in the home could lead the mount elsewhere: the home is the agent's. */
    if (inside_is_within(m->path, home) || inside_is_within(home, m->path)) {
        return err_set(err, ERR_INPUT, "mount '%s' and the home '%s' can't stand in each other",
                       m->path, home);
    }
    struct stat st;
    if (m->host_path[0] != '/' || stat(m->host_path, &st) < 0) {
        return err_sys(err, ERR_NOT_FOUND, m->host_path[0] == '/' ? errno : EINVAL,
                       "cannot mount '%s'", m->host_path);
    }
    return state_check_passable(m->host_path, uid, err);
}

uid_t local_likely_uid(void) {
    return geteuid() == 0 ? STATE_UID_FIRST : geteuid();
}

int local_check_spec(const struct sandbox_spec *spec, const char *home, uid_t uid,
                     struct err *err) {
    int r = sandbox_machine_check_none(&spec->machine, "local", err);
    r = r < 0 ? r : inside_check("home", home, err);
    for (size_t i = 0; r == 0 && i < spec->n_mounts; i++) {
        r = check_mount(&spec->mounts[i], home, uid, err);
    }
    return r;
}
