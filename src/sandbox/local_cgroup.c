/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "sandbox/local.h"

/*
 * The memory limit, where this process may set one: a control group a sandbox, of either version.
 * The payload is put in while bwrap holds it, so that bwrap's monitor stays outside: a full /tmp
 * takes whatever is in the group with it. Where there is no such group, the sandbox has no limit,
 * and local_isolation says so.
 */

#define ROOT_V2 "/sys/fs/cgroup"
#define ROOT_V1 "/sys/fs/cgroup/memory"
#define LIST_MAX 65536   /* /proc/self/cgroup and the like: a line a controller. */
#define REMOVE_TRIES 100 /* A group is busy for a moment after its last process. */
#define REMOVE_MS 2

static int put(const char *group, const char *file, const char *value) {
    AUTO_FREE char *path = file_join(group, file);
    AUTO_CLOSE int fd = path ? open(path, O_WRONLY | O_CLOEXEC) : -1;
    size_t n = strlen(value);
    return fd >= 0 && write(fd, value, n) == (ssize_t)n ? 0 : -1;
}

static bool has_word(const char *path, const char *word) {
    AUTO_BUF struct buf text = {0};
    return file_read(path, LIST_MAX, &text, NULL) == 0 && strstr(buf_cstr(&text), word);
}

/* Our own group of the memory controller in version 1: what limits us limits our sandboxes. */
static char *own_group_v1(void) {
    AUTO_BUF struct buf text = {0};
    if (file_read("/proc/self/cgroup", LIST_MAX, &text, NULL) < 0) {
        return NULL;
    }
    const char *line = strstr(buf_cstr(&text), ":memory:");
    if (!line) {
        return NULL;
    }
    line += strlen(":memory:");
    return mem_printf(ROOT_V1 "%.*s", (int)strcspn(line, "\n"), line);
}

/* A folder of ours at the top in version 2, since a group that holds processes can't divide. */
static char *parent_v2(void) {
    if (!has_word(ROOT_V2 "/cgroup.controllers", "memory") ||
        put(ROOT_V2, "cgroup.subtree_control", "+memory") < 0) {
        return NULL;
    }
    if (mkdir(ROOT_V2 "/snaffle", 0755) < 0 && errno != EEXIST) {
        return NULL;
    }
    return put(ROOT_V2 "/snaffle", "cgroup.subtree_control", "+memory") < 0
               ? NULL
               : mem_strdup(ROOT_V2 "/snaffle");
}

static int limit(const char *group, bool is_v2, long memory_mb) {
    char bytes[32];
    snprintf(bytes, sizeof bytes, "%lld", (long long)memory_mb << 20);
    if (put(group, is_v2 ? "memory.max" : "memory.limit_in_bytes", bytes) < 0) {
        return -1;
    }
    /* Where swap is not counted there is no such file, and nothing to limit. */
    (void)put(group, is_v2 ? "memory.swap.max" : "memory.memsw.limit_in_bytes",
              is_v2 ? "0" : bytes);
    return 0;
}

char *local_cgroup_make(const char *id, const struct sandbox_limits *limits) {
    if (geteuid() != 0) {
        return NULL;
    }
    AUTO_FREE char *parent = parent_v2();
    bool is_v2 = parent != NULL;
    if (!is_v2) {
        parent = own_group_v1();
    }
    AUTO_FREE char *group = parent ? mem_printf("%s/snaffle-%s", parent, id) : NULL;
    if (!group || mkdir(group, 0755) < 0) {
        return NULL;
    }
    if (limit(group, is_v2, limits->memory_mb ? limits->memory_mb : LOCAL_MEMORY_MB_DEFAULT) < 0) {
        rmdir(group);
        return NULL;
    }
    return TAKE(group);
}

int local_cgroup_join(const char *group, pid_t pid, struct err *err) {
    char number[16];
    snprintf(number, sizeof number, "%d", (int)pid);
    if (put(group, "cgroup.procs", number) < 0) {
        return err_sys(err, ERR_SYS, errno, "cannot put the sandbox into its control group '%s'",
                       group);
    }
    return 0;
}

void local_cgroup_remove(const char *group) {
    for (int i = 0; group && i < REMOVE_TRIES && rmdir(group) < 0 && errno == EBUSY; i++) {
        clock_sleep_ms(REMOVE_MS);
    }
}
