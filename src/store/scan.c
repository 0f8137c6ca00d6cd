/* SPDX-License-Identifier: BSD-3-Clause */
#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/mem.h"
#include "store/store_internal.h"

static bool is_folder(const char *path) {
    struct stat st;
    return lstat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static int scan_run(const char *dir, const char *run, scan_fn found, void *arg, struct err *err) {
    AUTO_FREE char *path = file_join(dir, run);
    DIR *d = path && is_folder(path) ? opendir(path) : NULL;
    int r = 0;
    const struct dirent *e;
    if (!d) {
        return 0; /* No run, or gone since. */
    }
    while (r == 0 && (e = readdir(d))) {
        if (!name_is_good(e->d_name) || strcmp(e->d_name, STORE_RUN_JOURNAL) == 0) {
            continue;
        }
        AUTO_FREE char *rollout = file_join(path, e->d_name);
        if (rollout && is_folder(rollout)) {
            r = found(arg, run, e->d_name, err);
        }
    }
    closedir(d);
    return r;
}

int scan_rollouts(const struct store *s, scan_fn found, void *arg, struct err *err) {
    DIR *d = opendir(s->dir);
    int r = 0;
    const struct dirent *e;
    if (!d) {
        return err_sys(err, ERR_SYS, errno, "cannot read the folder '%s'", s->dir);
    }
    while (r == 0 && (e = readdir(d))) {
        r = name_is_good(e->d_name) ? scan_run(s->dir, e->d_name, found, arg, err) : 0;
    }
    closedir(d);
    return r;
}
