/* SPDX-License-Identifier: BSD-3-Clause */
#include "guest/proctree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"

#define STATUS_BYTES 2048 /* "Uid:" is within its first lines. */
#define STAT_BYTES 512    /* Name (64 bytes at most) and the first numbers of /proc/N/stat fit. */

struct process {
    pid_t pid;
    pid_t parent;
    pid_t session;
    bool is_zombie;
    bool is_member;
};

/* The next decimal number of `v`, which moves behind it. */
static pid_t take_number(struct sv *v) {
    *v = sv_trim(*v);
    pid_t value = 0;
    while (v->n > 0 && v->p[0] >= '0' && v->p[0] <= '9') {
        value = value * 10 + (v->p[0] - '0');
        *v = sv_cut(*v, 1);
    }
    return value;
}

static void skip_words(struct sv *v, unsigned n) {
    for (; n > 0; n--) {
        *v = sv_trim(*v);
        size_t end = sv_find(*v, SV(" "));
        *v = end == (size_t)-1 ? (struct sv){0} : sv_cut(*v, end);
    }
}

#define WORDS_TO_THREADS 13 /* Between a process's session and the count of its threads. */

/* "PID (NAME) STATE PARENT GROUP SESSION ...", where the name may hold anything, also ')'. */
static bool parse_stat(const char *text, size_t n, struct process *out) {
    const char *close_paren = memrchr(text, ')', n);
    if (!close_paren) {
        return false;
    }
    struct sv rest = sv_trim(sv_cut((struct sv){text, n}, (size_t)(close_paren - text) + 1));
    if (rest.n == 0) {
        return false;
    }
    bool first_ended = rest.p[0] == 'Z' || rest.p[0] == 'X';
    rest = sv_cut(rest, 1);
    out->parent = take_number(&rest);
    (void)take_number(&rest); /* The process group. */
    out->session = take_number(&rest);
    skip_words(&rest, WORDS_TO_THREADS);
    out->is_zombie = first_ended && take_number(&rest) <= 1;
    return true;
}

/* False when the process is gone. */
static bool read_process(int proc_fd, const char *name, struct process *out) {
    struct sv digits = sv_from(name);
    *out = (struct process){.pid = take_number(&digits)};
    if (out->pid <= 0 || digits.n > 0) {
        return false;
    }
    char path[64];
    char text[STAT_BYTES];
    size_t n = strlen(name);
    if (n + sizeof "/stat" > sizeof path) {
        return false;
    }
    memcpy(path, name, n);
    memcpy(path + n, "/stat", sizeof "/stat");
    AUTO_CLOSE int fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof text);
    return got > 0 && parse_stat(text, (size_t)got, out);
}

/* Fills `out` with an array of struct process. */
static int read_all(struct buf *out, struct err *err) {
    DIR *dir = opendir("/proc");
    if (!dir) {
        return err_sys(err, ERR_SYS, errno, "cannot read '/proc'");
    }
    int r = 0;
    struct dirent *entry;
    while (r == 0 && (entry = readdir(dir))) {
        struct process p;
        if (read_process(dirfd(dir), entry->d_name, &p)) {
            r = buf_add(out, &p, sizeof p);
        }
    }
    closedir(dir);
    return r < 0 ? err_set(err, r, "out of memory for the table of processes") : 0;
}

static struct process *processes_of(const struct buf *table, size_t *n) {
    *n = table->len / sizeof(struct process);
    return (struct process *)(void *)table->data; /* From malloc: aligned. */
}

static int by_pid(const void *a, const void *b) {
    const struct process *x = a;
    const struct process *y = b;
    return (x->pid > y->pid) - (x->pid < y->pid);
}

static bool is_in(const struct proctree_kill *what, const struct process *all, size_t n,
                  const struct process *p) {
    if (p->parent == what->root || (what->session && p->session == what->session)) {
        return true;
    }
    const struct process *parent =
        bsearch(&(struct process){.pid = p->parent}, all, n, sizeof *all, by_pid);
    return parent && parent->is_member;
}

/* Children mostly stand behind their parents, so that few rounds are needed. */
static void mark_members(const struct proctree_kill *what, struct process *all, size_t n) {
    bool found = n > 0;
    while (found) {
        found = false;
        for (size_t i = 0; i < n; i++) {
            if (!all[i].is_member && is_in(what, all, n, &all[i])) {
                all[i].is_member = true;
                found = true;
            }
        }
    }
}

int proctree_kill(const struct proctree_kill *what, struct err *err) {
    AUTO_BUF struct buf table = {0};
    int r = read_all(&table, err);
    if (r < 0) {
        return r;
    }
    size_t n;
    struct process *all = processes_of(&table, &n);
    if (n > 0) {
        qsort(all, n, sizeof *all, by_pid);
    }
    mark_members(what, all, n);
    int killed = 0;
    for (size_t i = 0; i < n; i++) {
        bool is_target = all[i].is_member && !all[i].is_zombie && all[i].pid != what->spared;
        if (is_target && all[i].pid != getpid() && kill(all[i].pid, SIGKILL) == 0) {
            killed++;
        }
    }
    return killed;
}

/* The caller and those above it become members. */
static void mark_ancestors(struct process *all, size_t n) {
    pid_t pid = getpid();
    struct process *p;
    while ((p = bsearch(&(struct process){.pid = pid}, all, n, sizeof *all, by_pid)) &&
           !p->is_member) {
        p->is_member = true;
        pid = p->parent;
    }
}

int proctree_kill_others(struct err *err) {
    AUTO_BUF struct buf table = {0};
    int r = read_all(&table, err);
    if (r < 0) {
        return r;
    }
    size_t n;
    struct process *all = processes_of(&table, &n);
    qsort(all, n, sizeof *all, by_pid);
    mark_ancestors(all, n);
    int killed = 0;
    for (size_t i = 0; i < n; i++) {
        if (!all[i].is_member && !all[i].is_zombie && kill(all[i].pid, SIGKILL) == 0) {
            killed++;
        }
    }
    return killed;
}

/* Whether one of the four numbers in "Uid:\t1\t1\t1\t1" is the user. What is gone has none. */
static bool is_of_user(pid_t pid, uint32_t user) {
    char path[32];
    char text[STATUS_BYTES];
    (void)snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text);
    struct sv all = {text, n > 0 ? (size_t)n : 0};
    size_t at = sv_find(all, SV("\nUid:"));
    struct sv rest = at == (size_t)-1 ? (struct sv){0} : sv_cut(all, at + strlen("\nUid:"));
    for (int i = 0; i < 4 && rest.n > 0; i++) {
        if ((uint32_t)take_number(&rest) == user) {
            return true;
        }
    }
    return false;
}

int proctree_count_user(uint32_t user, struct err *err) {
    AUTO_BUF struct buf table = {0};
    int r = read_all(&table, err);
    if (r < 0) {
        return r;
    }
    size_t n;
    const struct process *all = processes_of(&table, &n);
    int count = 0;
    for (size_t i = 0; i < n; i++) {
        count += !all[i].is_zombie && is_of_user(all[i].pid, user);
    }
    return count;
}

int proctree_count_others(struct err *err) {
    AUTO_BUF struct buf table = {0};
    int r = read_all(&table, err);
    if (r < 0) {
        return r;
    }
    size_t n;
    const struct process *all = processes_of(&table, &n);
    int others = 0;
    for (size_t i = 0; i < n; i++) {
        others += all[i].pid != getpid() && !(all[i].is_zombie && all[i].parent == 0);
    }
    return others;
}
