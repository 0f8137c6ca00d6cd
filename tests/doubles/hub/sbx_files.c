/* SPDX-License-Identifier: BSD-3-Clause */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "tests/doubles/hub/sbx.h"

#define LIST_MAX 10000 /* Generation 2's page. */

/* What could not be done to `path`, in the words of the generation. `missing` names what a 404 has
 * not found; NULL: the first generation has no 404 here. */
static void fail_errno(const struct sbx *s, struct exchange *x, const char *action,
                       const char *missing, const char *path) {
    int code = errno;
    const char *what = s->protocol == 1 ? missing : "path";
    if (code == ENOENT && what) {
        sbx_fail(x, 404, "no such %s: %s", what, path);
    } else {
        sbx_fail(x, 400, "cannot %s %s: %s (os error %d)", action, path, strerror(code), code);
    }
}

/* False, and *out as it is, when the field is not there or no number. */
static bool number(const struct exchange *x, const char *name, unsigned long long *out) {
    AUTO_FREE char *text = sbx_query(x, name);
    return text && sv_parse_u64(sv_from(text), INT64_MAX, out);
}

static bool flag(const struct exchange *x, const char *name, bool otherwise) {
    AUTO_FREE char *text = sbx_query(x, name);
    bool yes = text && (strcmp(text, "1") == 0 || strcmp(text, "true") == 0);
    bool no = text && (strcmp(text, "0") == 0 || strcmp(text, "false") == 0);
    return yes || (otherwise && !no);
}

/* As it came; what is no octal number counts as not there. */
static bool octal(const struct exchange *x, const char *name, mode_t *out) {
    AUTO_FREE char *text = sbx_query(x, name);
    char *end = NULL;
    unsigned long mode = text ? strtoul(text, &end, 8) : 0;
    if (!text || end == text || *end) {
        return false;
    }
    *out = (mode_t)mode;
    return true;
}

/* --- read --- */

static void send_range(struct exchange *x, int fd, uint64_t offset, uint64_t length) {
    AUTO_BUF struct buf bytes = {0};
    if (buf_reserve(&bytes, length + 1) < 0) {
        sbx_fail(x, 500, "out of memory");
        return;
    }
    ssize_t n = 1;
    while (bytes.len < length && n > 0) {
        n = pread(fd, bytes.data + bytes.len, length - bytes.len, (off_t)(offset + bytes.len));
        bytes.len += n > 0 ? (size_t)n : 0;
    }
    exchange_reply(x, 200, SV("application/octet-stream"), buf_sv(&bytes));
}

static void read_file(const struct sbx *s, struct exchange *x, const char *path) {
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0) {
        fail_errno(s, x, "open", "file", path);
    } else if (S_ISDIR(st.st_mode)) {
        sbx_fail(x, 409, "is a directory: %s", path);
    } else if (s->protocol > 1 && !S_ISREG(st.st_mode)) {
        sbx_fail(x, 400, "cannot open %s: not a regular file", path);
    } else {
        unsigned long long size = (unsigned long long)st.st_size;
        unsigned long long offset = 0;
        (void)number(x, "offset", &offset);
        unsigned long long left = offset < size ? size - offset : 0;
        unsigned long long length = left;
        (void)number(x, "length", &length);
        send_range(x, fd, offset, length < left ? length : left);
    }
}

/* --- write --- */

static int make_dirs(const char *path) {
    struct err err = {0};
    struct stat st;
    if (stat(path, &st) == 0 && !S_ISDIR(st.st_mode)) {
        errno = EEXIST;
        return -1;
    }
    int r = file_mkdirs(path, 0755, &err);
    errno = r < 0 && err.sys ? err.sys : errno;
    return r < 0 ? -1 : 0;
}

static int make_parents(const char *path) {
    AUTO_FREE char *parent = mem_strdup(path);
    char *slash = parent ? strrchr(parent, '/') : NULL;
    if (!slash || slash == parent) {
        return 0;
    }
    *slash = '\0';
    return make_dirs(parent);
}

static bool put(int fd, struct sv bytes, uint64_t offset) {
    while (bytes.n > 0) {
        ssize_t n = pwrite(fd, bytes.p, bytes.n, (off_t)offset);
        if (n <= 0) {
            return false;
        }
        offset += (uint64_t)n;
        bytes = sv_cut(bytes, (size_t)n);
    }
    return true;
}

static void write_file(const struct sbx *s, struct exchange *x, const char *path) {
    bool first = s->protocol == 1;
    struct sv body = exchange_body(x);
    unsigned long long offset = 0;
    unsigned long long end = 0;
    mode_t mode = 0;
    bool ranged = number(x, "offset", &offset);
    if (flag(x, "mkdir", true) && make_parents(path) < 0) {
        fail_errno(s, x, first ? "create parent dirs for" : "write", NULL, path);
        return;
    }
    AUTO_CLOSE int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | (ranged ? 0 : O_TRUNC), 0644);
    if (fd < 0) {
        fail_errno(s, x, !first ? "write" : ranged ? "open" : "create", NULL, path);
        return;
    }
    if (!put(fd, body, offset)) {
        exchange_cut(x, EXCHANGE_CUT_FIN); /* A full disk is not told. */
        return;
    }
    if (!first && number(x, "truncate_to", &end) && ftruncate(fd, (off_t)end) < 0) {
        sbx_fail(x, 400, "cannot truncate %s to %llu: %s", path, end, strerror(errno));
        return;
    }
    if (octal(x, "mode", &mode)) {
        (void)fchmod(fd, mode);
    }
    sbx_reply(x, 200, json_pack("{s:s, s:I}", "path", path, "size", (json_int_t)body.n));
}

/* --- stat and list --- */

/* The last part of a path, without slashes and dots behind it; nothing after "..". */
static struct sv name_of(const char *path) {
    struct sv v = sv_from(path);
    while (v.n > 1 && (sv_ends_with(v, SV("/")) || sv_ends_with(v, SV("/.")))) {
        v.n--;
    }
    const char *slash = memrchr(v.p, '/', v.n);
    v = slash ? sv_cut(v, (size_t)(slash - v.p) + 1) : v;
    return sv_eq(v, SV(".")) || sv_eq(v, SV("..")) ? (struct sv){0} : v;
}

static json_t *entry(const char *path) {
    struct stat st;
    char mode[8];
    if (lstat(path, &st) < 0) {
        return NULL;
    }
    (void)snprintf(mode, sizeof mode, "%o", (unsigned)(st.st_mode & 07777));
    return json_pack(
        "{s:o, s:s, s:s, s:I, s:I, s:s}", "name", json_text(name_of(path)), "path", path, "type",
        S_ISDIR(st.st_mode)   ? "dir"
        : S_ISLNK(st.st_mode) ? "symlink"
                              : "file",
        "size", (json_int_t)st.st_size, "mtime_ms",
        (json_int_t)st.st_mtim.tv_sec * 1000 + st.st_mtim.tv_nsec / 1000000, "mode", mode);
}

static void stat_file(const struct sbx *s, struct exchange *x, const char *path) {
    json_t *found = entry(path);
    if (found) {
        sbx_reply(x, 200, found);
    } else {
        fail_errno(s, x, "stat", "path", path);
    }
}

static int is_name(const struct dirent *d) {
    return strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0;
}

static int by_bytes(const struct dirent **a, const struct dirent **b) {
    return strcmp((*a)->d_name, (*b)->d_name);
}

/* Generations 2 and 3 give a page, and where the next begins. */
static void list(const struct sbx *s, struct exchange *x, const char *path) {
    struct dirent **names = NULL;
    bool pages = s->protocol > 1;
    AUTO_FREE char *after = pages ? sbx_query(x, "after") : NULL;
    unsigned long long limit = LIST_MAX;
    (void)number(x, "limit", &limit);
    int n = scandir(path, &names, is_name, by_bytes);
    if (n < 0) {
        fail_errno(s, x, "list", "directory", path);
        return;
    }
    json_t *entries = json_array();
    bool truncated = false;
    for (int i = 0; i < n; i++) {
        AUTO_FREE char *full = file_join(path, names[i]->d_name);
        bool wanted = !after || strcmp(names[i]->d_name, after) > 0;
        truncated = truncated || (wanted && pages && json_array_size(entries) >= limit);
        if (wanted && !truncated) {
            json_array_append_new(entries, entry(full));
        }
        free(names[i]);
    }
    free(names);
    json_t *answer = json_pack("{s:o}", "entries", entries);
    if (pages) {
        const json_t *last = json_array_get(entries, json_array_size(entries) - 1);
        json_t *next = truncated ? json_incref(json_object_get(last, "name")) : json_null();
        json_object_set_new(answer, "truncated", json_boolean(truncated));
        json_object_set_new(answer, "next", next ? next : json_null());
    }
    sbx_reply(x, 200, answer);
}

/* --- delete and mkdir --- */

static void delete (const struct sbx *s, struct exchange *x, const char *path) {
    struct stat st;
    struct err err = {0};
    int r = lstat(path, &st);
    if (r == 0 && S_ISDIR(st.st_mode) && flag(x, "recursive", false)) {
        r = file_remove_tree(path, &err) < 0 ? -1 : 0;
        errno = r < 0 ? err.sys : 0;
    } else if (r == 0) {
        r = S_ISDIR(st.st_mode) ? rmdir(path) : unlink(path);
    }
    if (r < 0) {
        fail_errno(s, x, "delete", "path", path);
    } else {
        sbx_reply(x, 200, json_pack("{s:s}", "deleted", path));
    }
}

static void make_dir(const struct sbx *s, struct exchange *x, const char *path) {
    if (make_dirs(path) < 0) {
        fail_errno(s, x, "mkdir", NULL, path);
    } else {
        sbx_reply(x, 200, json_pack("{s:s}", "created", path));
    }
}

void sbx_files(struct sbx *s, struct exchange *x, struct sv call) {
    static const struct {
        const char *method;
        const char *call;
        void (*handle)(const struct sbx *s, struct exchange *x, const char *path);
    } routes[] = {
        {"GET", "read", read_file}, {"PUT", "write", write_file}, {"GET", "stat", stat_file},
        {"GET", "list", list},      {"DELETE", "delete", delete}, {"POST", "mkdir", make_dir},
    };
    for (size_t i = 0; i < ARRAY_LEN(routes); i++) {
        if (sv_eq(call, sv_from(routes[i].call)) &&
            sv_eq(exchange_head(x)->method, sv_from(routes[i].method))) {
            AUTO_FREE char *path = sbx_query(x, "path");
            if (path && path[0]) {
                routes[i].handle(s, x, path);
            } else {
                sbx_fail(x, 400, "missing 'path' query parameter");
            }
            return;
        }
    }
    sbx_no_route(s, x);
}
