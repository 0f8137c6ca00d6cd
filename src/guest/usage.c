/* SPDX-License-Identifier: BSD-3-Clause */
#include "guest/usage.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/sv.h"

#define TEXT_BYTES 4096 /* /proc/N/status and smaps_rollup are below 2 KB. */
#define BLOCK_BYTES 512 /* Of st_blocks, always. */

/* ext4 refuses a write that does not fit as a whole: this may be left when programs see it full. */
#define LAST_WRITE_BYTES (1u << 20)

/* The number behind "\nNAME:", in the line's own unit. */
static uint64_t field(const char *text, const char *name) {
    const char *at = strstr(text, name);
    if (!at) {
        return 0;
    }
    at += strlen(name);
    at += strspn(at, " \t");
    unsigned long long value = 0;
    return sv_parse_u64((struct sv){at, strspn(at, "0123456789")}, ~0ull, &value) ? value : 0;
}

static bool read_of(int proc_fd, const char *pid, const char *file, char text[TEXT_BYTES]) {
    char path[64];
    snprintf(path, sizeof path, "%.20s/%s", pid, file);
    AUTO_CLOSE int fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, TEXT_BYTES - 1);
    text[n > 0 ? n : 0] = '\0';
    return n > 0;
}

struct sums {
    uint64_t anonymous_kb;
    uint64_t shared_kb;
    uint64_t threads;
};

static void add_process(int proc_fd, const char *pid, bool exact, struct sums *s) {
    char text[TEXT_BYTES];
    if (!read_of(proc_fd, pid, "status", text)) {
        return;
    }
    s->threads += field(text, "\nThreads:");
    uint64_t anonymous = field(text, "\nRssAnon:");
    uint64_t shared = field(text, "\nRssShmem:");
    /* A process that hides its maps counts with all that it sees. */
    if (exact && anonymous + shared > 0 && read_of(proc_fd, pid, "smaps_rollup", text) &&
        strstr(text, "\nPss_Anon:")) {
        anonymous = field(text, "\nPss_Anon:");
        shared = field(text, "\nPss_Shmem:");
    }
    s->anonymous_kb += anonymous;
    s->shared_kb += shared;
}

static uint64_t used_of(const char *path) {
    struct statvfs st;
    return statvfs(path, &st) == 0 ? (st.f_blocks - st.f_bfree) * st.f_frsize : 0;
}

bool usage_processes(bool exact, struct usage_processes *out) {
    struct sums s = {0};
    DIR *dir = opendir("/proc");
    if (!dir) {
        return false;
    }
    for (struct dirent *e; (e = readdir(dir));) {
        if (e->d_name[0] >= '0' && e->d_name[0] <= '9') {
            add_process(dirfd(dir), e->d_name, exact, &s);
        }
    }
    closedir(dir);
    /* A file of /tmp that is mapped stands in both: it counts once. */
    uint64_t scratch = used_of("/tmp") + used_of("/dev/shm");
    uint64_t shared = s.shared_kb << 10;
    *out = (struct usage_processes){
        .bytes = (s.anonymous_kb << 10) + (shared > scratch ? shared : scratch),
        .threads = s.threads,
    };
    return true;
}

static bool is_full(const struct statvfs *st, uint64_t rest) {
    uint64_t available = (uint64_t)st->f_bavail * st->f_frsize;
    return st->f_blocks > 0 && (available <= rest || (st->f_files > 0 && st->f_ffree == 0));
}

bool usage_is_full(int dir_fd) {
    struct statvfs st;
    return fstatvfs(dir_fd, &st) == 0 && is_full(&st, LAST_WRITE_BYTES);
}

bool usage_path_is_full(const char *path) {
    struct statvfs st;
    return statvfs(path, &st) == 0 && is_full(&st, 0);
}

static bool enter(struct usage_walk *w, int parent_fd, const char *name) {
    if (w->depth == USAGE_DEPTH_MAX) {
        return false;
    }
    int fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) {
        mem_auto_close(&fd);
        return false;
    }
    w->levels[w->depth++] = dir;
    return true;
}

/* A file with two names counts half for each. */
static void add_entry(struct usage_walk *w, int dir_fd, const struct dirent *e) {
    struct stat st;
    if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
        fstatat(dir_fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        return;
    }
    uint64_t bytes = (uint64_t)st.st_blocks * BLOCK_BYTES;
    bool is_dir = S_ISDIR(st.st_mode);
    w->bytes += is_dir || st.st_nlink < 2 ? bytes : bytes / (uint64_t)st.st_nlink;
    if (is_dir) {
        (void)enter(w, dir_fd, e->d_name);
    }
}

bool usage_walk_step(struct usage_walk *w, int dir_fd, unsigned entries) {
    if (w->depth == 0) {
        w->bytes = 0;
        if (!enter(w, dir_fd, ".")) {
            return true;
        }
    }
    for (; entries > 0 && w->depth > 0; entries--) {
        DIR *dir = w->levels[w->depth - 1];
        const struct dirent *e = readdir(dir);
        if (e) {
            add_entry(w, dirfd(dir), e);
        } else {
            closedir(dir);
            w->depth--;
        }
    }
    return w->depth == 0;
}
