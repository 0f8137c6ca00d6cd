/* SPDX-License-Identifier: BSD-3-Clause */
#include "rollout/batch_room.h"

#include <errno.h>
#include <sys/resource.h>
#include <sys/statvfs.h>

int batch_room_disk(const char *dir, uint64_t bytes, const char *what, struct err *err) {
    struct statvfs fs;
    if (statvfs(dir, &fs) < 0) {
        return err_sys(err, ERR_SYS, errno, "cannot ask for the free space of '%s'", dir);
    }
    uint64_t have = (uint64_t)fs.f_bavail * fs.f_frsize;
    if (have >= bytes) {
        return 0;
    }
    return err_set(err, ERR_FULL,
                   "%s need about %llu MB in '%s', which has %llu MB free (make room there, or "
                   "choose fewer or another folder)",
                   what, (unsigned long long)(bytes >> 20), dir, (unsigned long long)(have >> 20));
}

int batch_room_descriptors(unsigned concurrency, struct err *err) {
    struct rlimit limit;
    rlim_t need = BATCH_DESCRIPTORS_BASE + (rlim_t)concurrency * BATCH_DESCRIPTORS;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0) {
        return err_sys(err, ERR_SYS, errno, "cannot ask for the descriptor limit");
    }
    if (limit.rlim_max != RLIM_INFINITY && need > limit.rlim_max) {
        rlim_t most = limit.rlim_max > BATCH_DESCRIPTORS_BASE
                          ? (limit.rlim_max - BATCH_DESCRIPTORS_BASE) / BATCH_DESCRIPTORS
                          : 0;
        return err_set(err, ERR_ENVIRONMENT,
                       "%u rollouts at once need about %llu descriptors, and this process may have "
                       "%llu (--concurrency %llu, or raise 'ulimit -Hn')",
                       concurrency, (unsigned long long)need, (unsigned long long)limit.rlim_max,
                       (unsigned long long)(most > 0 ? most : 1));
    }
    limit.rlim_cur = limit.rlim_max;
    return setrlimit(RLIMIT_NOFILE, &limit) < 0
               ? err_sys(err, ERR_SYS, errno, "cannot raise the descriptor limit")
               : 0;
}
