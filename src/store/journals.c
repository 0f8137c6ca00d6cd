/* SPDX-License-Identifier: BSD-3-Clause */
#include <dirent.h>
#include <errno.h>

#include "base/file.h"
#include "base/mem.h"
#include "store/store_internal.h"

#define RUNS_DEFAULT "./runs"

static int sweep_run(const char *dir, const char *run, bool dry, struct journal_swept *out,
                     struct err *err) {
    AUTO_FREE char *journal = mem_printf("%s/%s/" STORE_RUN_JOURNAL, dir, run);
    return journal ? journal_sweep(journal, dry, out, err)
                   : err_set(err, ERR_NOMEM, "out of memory");
}

int store_sweep_journals(const char *dir, const char *run, bool dry, struct journal_swept *out,
                         struct err *err) {
    dir = dir ? dir : RUNS_DEFAULT;
    if (run) {
        int r = store_check_name("run", run, err);
        return r < 0 ? r : sweep_run(dir, run, dry, out, err);
    }
    DIR *d = opendir(dir);
    const struct dirent *e;
    int r = 0;
    if (!d) {
        return errno == ENOENT ? 0 : err_sys(err, ERR_SYS, errno, "cannot read '%s'", dir);
    }
    while (r == 0 && (e = readdir(d))) {
        r = name_is_good(e->d_name) ? sweep_run(dir, e->d_name, dry, out, err) : 0;
    }
    closedir(d);
    return r;
}
