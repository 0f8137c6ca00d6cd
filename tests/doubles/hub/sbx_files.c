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

static void fail_errno(struct exchange *x, const char *path) {
    int code = errno;
    sbx_fail(x, code == ENOENT ? 404 : 400, "%s: %s (os error %d)", path, strerror(code), code);
}

static unsigned long long number(const struct exchange *x, const char *name,
                                 unsigned long long otherwise) {
    AUTO_FREE char *text = sbx_query(x, name);
    unsigned long long n = otherwise;
    return text && sv_parse_u64(sv_from(text), INT64_MAX, &n) ? n : otherwise;
}

static bool has(const struct exchange *x, const char *name) {
    AUTO_FREE char *text = sbx_query(x, name);
    return text != NULL;
}

static char *absolute(const char *path) {
    char cwd[PATH_MAX];
    return path[0] == '/' || !getcwd(cwd, sizeof cwd) ? mem_strdup(path) : file_join(cwd, path);
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
        fail_errno(x, path);
    } else if (S_ISDIR(st.st_mode)) {
        sbx_fail(x, 409, "%s is a directory", path);
    } else if (s->protocol > 1 && !S_ISREG(st.st_mode)) {
        sbx_fail(x, 400, "%s is not a regular file", path);
    } else {
        uint64_t size = (uint64_t)st.st_size;
        uint64_t offset = number(x, "offset", 0);
        uint64_t left = offset < size ? size - offset : 0;
        uint64_t length = number(x, "length", left);
        send_range(x, fd, offset, length < left ? length : left);
    }
}

/* --- write --- */

static int make_parents(const char *path) {
    AUTO_FREE char *parent = mem_strdup(path);
    char *slash = parent ? strrchr(parent, '/') : NULL;
    struct err err = {0};
    if (!slash || slash == parent) {
        return 0;
    }
    *slash = '\0';
    int r = file_mkdirs(parent, 0755, &err);
    errno = r < 0 && err.sys ? err.sys : errno;
    return r;
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
    AUTO_FREE char *mode = sbx_query(x, "mode");
    AUTO_FREE char *mkdirs = sbx_query(x, "mkdir");
    struct sv body = exchange_body(x);
    bool ranged = has(x, "offset");
    if (!(mkdirs && strcmp(mkdirs, "false") == 0) && make_parents(path) < 0) {
        fail_errno(x, path);
        return;
    }
    AUTO_CLOSE int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | (ranged ? 0 : O_TRUNC), 0644);
    bool good = fd >= 0;
    good = good && (!mode || fchmod(fd, (mode_t)strtoul(mode, NULL, 8)) == 0);
    if (good && !put(fd, body, number(x, "offset", 0))) {
        exchange_cut(x, EXCHANGE_CUT_FIN); /* A full disk is not told. */
        return;
    }
    if (good && s->protocol > 1 && has(x, "truncate_to")) {
        good = ftruncate(fd, (off_t)number(x, "truncate_to", 0)) == 0;
    }
    if (!good) {
        fail_errno(x, path);
        return;
    }
    AUTO_FREE char *full = absolute(path);
    sbx_reply(x, 200, json_pack("{s:s, s:I}", "path", full, "size", (json_int_t)body.n));
}

/* --- stat and list --- */

static json_t *entry(const char *path, const char *name) {
    struct stat st;
    char mode[8];
    if (lstat(path, &st) < 0) {
        return NULL;
    }
    (void)snprintf(mode, sizeof mode, "%o", (unsigned)(st.st_mode & 07777));
    AUTO_FREE char *full = absolute(path);
    return json_pack(
        "{s:o, s:s, s:s, s:I, s:I, s:s}", "name", json_text(sv_from(name)), "path", full, "type",
        S_ISDIR(st.st_mode)   ? "dir"
        : S_ISLNK(st.st_mode) ? "symlink"
                              : "file",
        "size", (json_int_t)st.st_size, "mtime_ms",
        (json_int_t)st.st_mtim.tv_sec * 1000 + st.st_mtim.tv_nsec / 1000000, "mode", mode);
}

static void stat_file(struct exchange *x, const char *path) {
    const char *slash = strrchr(path, '/');
    json_t *found = entry(path, slash && slash[1] ? slash + 1 : path);
    if (found) {
        sbx_reply(x, 200, found);
    } else {
        fail_errno(x, path);
    }
}

static int is_name(const struct dirent *d) {
    return strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0;
}

static int by_bytes(const struct dirent **a, const struct dirent **b) {
    return strcmp((*a)->d_name, (*b)->d_name);
}

static void list(const struct sbx *s, struct exchange *x, const char *path) {
    struct dirent **names = NULL;
    AUTO_FREE char *after = sbx_query(x, "after");
    uint64_t limit = s->protocol > 1 ? number(x, "limit", LIST_MAX) : UINT64_MAX;
    int n = scandir(path, &names, is_name, by_bytes);
    if (n < 0) {
        fail_errno(x, path);
        return;
    }
    json_t *entries = json_array();
    bool truncated = false;
    for (int i = 0; i < n; i++) {
        AUTO_FREE char *full = file_join(path, names[i]->d_name);
        bool wanted = !after || strcmp(names[i]->d_name, after) > 0;
        truncated = truncated || (wanted && json_array_size(entries) >= limit);
        if (wanted && !truncated) {
            json_array_append_new(entries, entry(full, names[i]->d_name));
        }
        free(names[i]);
    }
    free(names);
    json_t *answer = json_pack("{s:o}", "entries", entries);
    if (s->protocol > 1) {
        const json_t *last = json_array_get(entries, json_array_size(entries) - 1);
        json_t *next = truncated ? json_incref(json_object_get(last, "name")) : json_null();
        json_object_set_new(answer, "truncated", json_boolean(truncated));
        json_object_set_new(answer, "next", next);
    }
    sbx_reply(x, 200, answer);
}

/* --- delete and mkdir --- */

static void delete (struct exchange *x, const char *path) {
    AUTO_FREE char *recursive = sbx_query(x, "recursive");
    AUTO_FREE char *full = absolute(path);
    struct stat st;
    struct err err = {0};
    int r = lstat(path, &st);
    if (r == 0 && S_ISDIR(st.st_mode) && recursive &&
        (strcmp(recursive, "1") == 0 || strcmp(recursive, "true") == 0)) {
        r = file_remove_tree(path, &err) < 0 ? -1 : 0;
        errno = r < 0 ? err.sys : 0;
    } else if (r == 0) {
        r = S_ISDIR(st.st_mode) ? rmdir(path) : unlink(path);
    }
    if (r < 0) {
        fail_errno(x, path);
    } else {
        sbx_reply(x, 200, json_pack("{s:s}", "deleted", full));
    }
}

static void make_dir(struct exchange *x, const char *path) {
    AUTO_FREE char *full = absolute(path);
    struct err err = {0};
    if (file_mkdirs(path, 0755, &err) < 0) {
        sbx_fail(x, 400, "%s", err.msg);
    } else {
        sbx_reply(x, 200, json_pack("{s:s}", "created", full));
    }
}

void sbx_files(struct sbx *s, struct exchange *x, struct sv call) {
    struct sv method = exchange_head(x)->method;
    AUTO_FREE char *path = sbx_query(x, "path");
    if (!path || !path[0]) {
        sbx_fail(x, 400, "missing 'path'");
    } else if (sv_eq(call, SV("read")) && sv_eq(method, SV("GET"))) {
        read_file(s, x, path);
    } else if (sv_eq(call, SV("write")) && sv_eq(method, SV("PUT"))) {
        write_file(s, x, path);
    } else if (sv_eq(call, SV("stat")) && sv_eq(method, SV("GET"))) {
        stat_file(x, path);
    } else if (sv_eq(call, SV("list")) && sv_eq(method, SV("GET"))) {
        list(s, x, path);
    } else if (sv_eq(call, SV("delete")) && sv_eq(method, SV("DELETE"))) {
        delete (x, path);
    } else if (sv_eq(call, SV("mkdir")) && sv_eq(method, SV("POST"))) {
        make_dir(x, path);
    } else {
        sbx_fail(x, 404, "no route: %.*s files/%.*s", SV_ARG(method), SV_ARG(call));
    }
}
