/* SPDX-License-Identifier: BSD-3-Clause */
#include "sandbox/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/env.h"
#include "base/file.h"
#include "base/mem.h"
#include "sandbox/box_scan.h"

#define PREFIX "snaffle-"
#define ROOT "/sys/fs/cgroup"
#define PARENT_V2                                                                                  \
    ROOT "/snaffle"      /* At the top, since a group that holds processes can't divide.           \
                          */
#define LIST_MAX 65536   /* /proc/self/cgroup and the like: a line a controller. */
#define REMOVE_TRIES 250 /* A group is busy for a moment after its last process. */
#define REMOVE_MS 2

bool local_is_without(const char *mechanism) {
    const char *words = env_get("SNAFFLE_LOCAL_WITHOUT");
    return words && strstr(words, mechanism);
}

static int put(const char *group, const char *file, const char *value) {
    AUTO_FREE char *path = file_join(group, file);
    AUTO_CLOSE int fd = path ? open(path, O_WRONLY | O_CLOEXEC) : -1;
    size_t n = strlen(value);
    return fd >= 0 && write(fd, value, n) == (ssize_t)n ? 0 : -1;
}

static int put_number(const char *group, const char *file, long long value) {
    char text[32];
    snprintf(text, sizeof text, "%lld", value);
    return put(group, file, text);
}

/* "snaffle-PID.START-ID": the owner by its pid and when it began, which no other ever has. */
static char *name_in(const char *parent, const char *id) {
    unsigned long long start = 0;
    (void)box_process_start(getpid(), &start);
    return mem_printf("%s/" PREFIX "%d.%llu-%s", parent, (int)getpid(), start, id);
}

/* Our own group of that controller in version 1: what limits us limits our sandboxes. */
static char *parent_v1(const char *controller) {
    AUTO_BUF struct buf text = {0};
    char word[32];
    snprintf(word, sizeof word, ":%s:", controller);
    if (file_read("/proc/self/cgroup", LIST_MAX, &text, NULL) < 0) {
        return NULL;
    }
    const char *line = strstr(buf_cstr(&text), word);
    if (!line) {
        return NULL;
    }
    line += strlen(word);
    size_t n = strcspn(line, "\n");
    n -= n > 0 && line[n - 1] == '/';
    return mem_printf(ROOT "/%s%.*s", controller, (int)n, line);
}

static char *name_v1(const char *controller, const char *id) {
    AUTO_FREE char *parent = parent_v1(controller);
    return parent ? name_in(parent, id) : NULL;
}

static bool is_v2(void) {
    return file_exists(ROOT "/cgroup.controllers");
}

int cgroup_name(const char *id, struct cgroup *out, struct err *err) {
    *out = (struct cgroup){0};
    if (geteuid() != 0 || local_is_without("cgroup")) {
        return 0;
    }
    out->is_v2 = is_v2();
    if (!out->is_v2) {
        out->memory = name_v1("memory", id);
        out->pids = name_v1("pids", id);
        return 0; /* Which controllers there are is the machine's affair. */
    }
    out->memory = name_in(PARENT_V2, id);
    out->pids = out->memory ? mem_strdup(out->memory) : NULL;
    return out->pids ? 0 : err_set(err, ERR_NOMEM, "out of memory");
}

json_t *cgroup_paths(const struct cgroup *g) {
    json_t *list = json_array();
    int r = g->memory ? json_array_append_new(list, json_string(g->memory)) : 0;
    r |= g->pids && !g->is_v2 ? json_array_append_new(list, json_string(g->pids)) : 0;
    if (r != 0) {
        json_decref(list);
        return NULL;
    }
    return list;
}

/* Hands the controllers down as far as they go; which ones came through is seen in the group. */
static void open_v2(void) {
    if (mkdir(PARENT_V2, 0755) < 0 && errno != EEXIST) {
        return;
    }
    static const char *const controllers[] = {"+memory", "+pids"};
    for (size_t i = 0; i < ARRAY_LEN(controllers); i++) {
        (void)put(ROOT, "cgroup.subtree_control", controllers[i]);
        (void)put(PARENT_V2, "cgroup.subtree_control", controllers[i]);
    }
}

static bool set_memory(const struct cgroup *g, long memory_mb) {
    long long bytes = (long long)memory_mb << 20;
    const char *file = g->is_v2 ? "memory.max" : "memory.limit_in_bytes";
    if (put_number(g->memory, file, bytes) < 0) {
        return false;
    }
    /* Where swap is not counted there is no such file, and nothing to limit. */
    (void)(g->is_v2 ? put(g->memory, "memory.swap.max", "0")
                    : put_number(g->memory, "memory.memsw.limit_in_bytes", bytes));
    return true;
}

void cgroup_make(struct cgroup *g, long memory_mb, long processes) {
    if (g->is_v2 && g->memory) {
        open_v2();
    }
    if (g->memory && mkdir(g->memory, 0755) == 0) {
        g->has_memory = set_memory(g, memory_mb);
    }
    if (g->pids && (g->is_v2 || mkdir(g->pids, 0755) == 0)) {
        g->has_pids = put_number(g->pids, "pids.max", processes) == 0;
    }
}

static int join(const char *group, pid_t pid, struct err *err) {
    if (put_number(group, "cgroup.procs", pid) < 0) {
        return err_sys(err, ERR_SYS, errno, "cannot put the sandbox into its control group '%s'",
                       group);
    }
    return 0;
}

int cgroup_join(const struct cgroup *g, pid_t pid, struct err *err) {
    int r = g->has_memory ? join(g->memory, pid, err) : 0;
    bool has_joined = g->has_memory && g->is_v2;
    return r == 0 && g->has_pids && !has_joined ? join(g->pids, pid, err) : r;
}

unsigned long long cgroup_counter(const char *text, const char *name) {
    size_t n = strlen(name);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, n) == 0 && line[n] == ' ') {
            unsigned long long value = 0;
            const char *number = line + n + 1;
            struct sv digits = {number, strcspn(number, "\n")};
            return sv_parse_u64(digits, ~0ull, &value) ? value : 0;
        }
    }
    return 0;
}

static unsigned long long read_counter(const char *group, const char *file, const char *name) {
    AUTO_BUF struct buf text = {0};
    AUTO_FREE char *path = file_join(group, file);
    if (!path || file_read(path, LIST_MAX, &text, NULL) < 0) {
        return 0;
    }
    return cgroup_counter(buf_cstr(&text), name);
}

/* Of the kernel's counters only the kills tell: the others rise also when a cache is given back. */
bool cgroup_hit_memory(const struct cgroup *g) {
    return g->has_memory &&
           read_counter(g->memory, g->is_v2 ? "memory.events" : "memory.oom_control", "oom_kill");
}

bool cgroup_hit_pids(const struct cgroup *g) {
    return g->has_pids && read_counter(g->pids, "pids.events", "max");
}

int cgroup_remove_path(const char *path, struct err *err) {
    for (int i = 0; rmdir(path) < 0; i++) {
        if (errno == ENOENT) {
            return 0;
        }
        if (errno != EBUSY || i == REMOVE_TRIES) {
            return err_sys(err, ERR_SYS, errno, "cannot remove the control group '%s'", path);
        }
        clock_sleep_ms(REMOVE_MS);
    }
    return 0;
}

void cgroup_remove(struct cgroup *g) {
    if (g->memory) {
        (void)cgroup_remove_path(g->memory, NULL); /* What stays, a sweep removes. */
    }
    if (g->pids) {
        (void)cgroup_remove_path(g->pids, NULL);
    }
    g->has_memory = false;
    g->has_pids = false;
}

/* Whether the name is that of a sandbox whose owner lives no more. */
static bool is_orphan(const char *name) {
    unsigned long long pid = 0;
    unsigned long long start = 0;
    unsigned long long now = 0;
    if (strncmp(name, PREFIX, strlen(PREFIX)) != 0) {
        return false;
    }
    const char *of_pid = name + strlen(PREFIX);
    const char *of_start = of_pid + strcspn(of_pid, ".");
    size_t n = *of_start ? strcspn(of_start + 1, "-") : 0;
    if (!sv_parse_u64((struct sv){of_pid, (size_t)(of_start - of_pid)}, INT32_MAX, &pid) ||
        !sv_parse_u64((struct sv){of_start + 1, n}, ~0ull, &start)) {
        return false;
    }
    return box_process_start((pid_t)pid, &now) < 0 || now != start;
}

static void sweep_in(const char *parent) {
    DIR *d = parent ? opendir(parent) : NULL;
    for (struct dirent *e; d && (e = readdir(d));) {
        if (is_orphan(e->d_name)) {
            (void)unlinkat(dirfd(d), e->d_name, AT_REMOVEDIR);
        }
    }
    if (d) {
        closedir(d);
    }
}

void cgroup_sweep(void) {
    if (geteuid() != 0) {
        return;
    }
    if (is_v2()) {
        sweep_in(PARENT_V2);
        return;
    }
    static const char *const controllers[] = {"memory", "pids"};
    for (size_t i = 0; i < ARRAY_LEN(controllers); i++) {
        AUTO_FREE char *parent = parent_v1(controllers[i]);
        sweep_in(parent);
    }
}

void cgroup_deinit(struct cgroup *g) {
    free(g->memory);
    free(g->pids);
    *g = (struct cgroup){0};
}
