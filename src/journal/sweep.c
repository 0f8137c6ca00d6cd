/* SPDX-License-Identifier: BSD-3-Clause */
#include "journal/sweep.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "journal/reader.h"
#include "journal/sessions.h"

#define FRESH_S 60 /* A new writer's folder has no lock yet for an instant, and no segment. */

/* Reads one writer's records, and finds which of its segments hold a session without a trace. */
struct work {
    struct journal_sessions sessions;
    const char **needed; /* Paths, of the reader. */
    size_t n;
    size_t cap;
};

static bool is_traced(const struct work *w, struct sv session) {
    const struct journal_session *s = journal_sessions_find(&w->sessions, session);
    return s && s->is_traced;
}

static bool is_needed(const struct work *w, const char *path) {
    for (size_t i = w->n; i > 0; i--) {
        if (strcmp(w->needed[i - 1], path) == 0) {
            return true;
        }
    }
    return false;
}

static int need(struct work *w, const char *path) {
    if (is_needed(w, path)) {
        return 0;
    }
    if (w->n == w->cap) {
        size_t cap = w->cap ? 2 * w->cap : 16;
        const char **grown = realloc(w->needed, cap * sizeof *grown);
        if (!grown) {
            return ERR_NOMEM;
        }
        w->needed = grown;
        w->cap = cap;
    }
    w->needed[w->n++] = path;
    return 0;
}

static int find_needed(struct work *w, struct journal_reader *reader, struct err *err) {
    struct journal_record r;
    int rc;
    reader_outline(reader);
    while ((rc = journal_reader_next(reader, &r, err)) == 1) {
        if (!is_traced(w, r.session) && need(w, reader_segment_path(reader)) < 0) {
            return err_set(err, ERR_NOMEM, "out of memory");
        }
    }
    return rc;
}

static bool is_segment(const char *name) {
    size_t n = strlen(name);
    return n >= 10 && strcmp(name + n - 4, ".log") == 0 && strspn(name, "0123456789") == n - 4;
}

static void remove_one(const struct work *w, const char *path, bool dry,
                       struct journal_swept *out) {
    struct stat st;
    if (is_needed(w, path)) {
        out->kept++;
    } else if (stat(path, &st) == 0 && (dry || unlink(path) == 0)) {
        out->segments++;
        out->bytes += (uint64_t)st.st_size;
    }
}

static int remove_segments(const struct work *w, const char *boot, bool dry,
                           struct journal_swept *out, struct err *err) {
    DIR *d = opendir(boot);
    const struct dirent *e;
    int rc = d ? 0 : err_sys(err, ERR_SYS, errno, "cannot read the folder '%s'", boot);
    while (rc == 0 && (e = readdir(d))) {
        AUTO_FREE char *path = is_segment(e->d_name) ? file_join(boot, e->d_name) : NULL;
        if (path) {
            remove_one(w, path, dry, out);
        }
    }
    if (d) {
        closedir(d);
    }
    return rc;
}

static bool is_fresh(int fd) {
    struct stat st;
    return fstat(fd, &st) < 0 || (double)st.st_mtime + FRESH_S > clock_unix();
}

/* Under the lock of its folder, which `fd` is. */
static int sweep_boot(const char *dir, const char *name, int fd, bool dry,
                      struct journal_swept *out, struct err *err) {
    bool fresh = is_fresh(fd);
    unsigned before = out->segments;
    struct work w = {0};
    struct journal_reader *reader = NULL;
    AUTO_FREE char *boot = file_join(dir, name);
    int rc = boot ? 0 : err_set(err, ERR_NOMEM, "out of memory");
    rc = rc < 0 ? rc : journal_sessions_read_boot(dir, name, &w.sessions, err);
    rc = rc < 0 ? rc : reader_open_boot(dir, name, &reader, err);
    rc = rc < 0 ? rc : find_needed(&w, reader, err);
    rc = rc < 0 ? rc : remove_segments(&w, boot, dry, out, err);
    if (rc == 0 && !dry && w.n == 0 && (out->segments > before || !fresh)) {
        (void)rmdir(boot); /* Whatever else is in it is not ours. */
    }
    journal_reader_close(reader);
    journal_sessions_deinit(&w.sessions);
    free(w.needed);
    return rc;
}

/* Its writer lives, or somebody else sweeps: not this one. */
static int lock_boot(int dir, const char *name) {
    int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0) {
        close(fd);
        return -1;
    }
    return fd;
}

int journal_sweep(const char *dir, bool dry, struct journal_swept *out, struct err *err) {
    DIR *d = opendir(dir);
    const struct dirent *e;
    int rc = 0;
    if (!d) {
        return errno == ENOENT ? 0 : err_sys(err, ERR_SYS, errno, "cannot read '%s'", dir);
    }
    while (rc == 0 && (e = readdir(d))) {
        AUTO_CLOSE int fd = e->d_name[0] == '.' ? -1 : lock_boot(dirfd(d), e->d_name);
        rc = fd < 0 ? 0 : sweep_boot(dir, e->d_name, fd, dry, out, err);
    }
    closedir(d);
    return rc;
}
