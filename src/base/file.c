/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"

#define READ_STEP 65536 /* One read of a file; the size most file systems read ahead. */

static int read_into(int fd, const char *path, size_t bytes_max, struct buf *out, struct err *err) {
    size_t start = out->len;
    for (;;) {
        if (buf_reserve(out, READ_STEP) < 0) {
            return err_set(err, ERR_NOMEM, "no memory to read '%s'", path);
        }
        ssize_t n = read(fd, out->data + out->len, READ_STEP);
        if (n == 0) {
            return 0;
        }
        if (n < 0 && errno != EINTR) {
            return err_sys(err, ERR_SYS, errno, "cannot read '%s'", path);
        }
        if (n > 0) {
            out->len += (size_t)n;
            out->data[out->len] = '\0';
        }
        if (out->len - start > bytes_max) {
            return err_set(err, ERR_LIMIT, "'%s' is larger than %zu bytes", path, bytes_max);
        }
    }
}

int file_read(const char *path, size_t bytes_max, struct buf *out, struct err *err) {
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        return err_sys(err, errno == ENOENT ? ERR_NOT_FOUND : ERR_SYS, errno, "cannot open '%s'",
                       path);
    }
    struct stat st;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        return err_set(err, ERR_INPUT, "'%s' is not a regular file", path);
    }
    return read_into(fd, path, bytes_max, out, err);
}

int file_put(int fd, struct sv content) {
    while (content.n > 0) {
        ssize_t n = write(fd, content.p, content.n);
        if (n < 0 && errno != EINTR) {
            return -1;
        }
        content = sv_cut(content, n > 0 ? (size_t)n : 0);
    }
    return 0;
}

int file_write(const char *path, struct sv content, unsigned mode, struct err *err) {
    AUTO_FREE char *part = mem_printf("%s.XXXXXX", path);
    if (!part) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    AUTO_CLOSE int fd = mkostemp(part, O_CLOEXEC);
    if (fd < 0) {
        return err_sys(err, ERR_SYS, errno, "cannot write '%s'", path);
    }
    if (fchmod(fd, mode) < 0 || file_put(fd, content) < 0 || rename(part, path) < 0) {
        int e = errno;
        unlink(part);
        return err_sys(err, e == ENOSPC ? ERR_FULL : ERR_SYS, e, "cannot write '%s'", path);
    }
    return 0;
}

int file_mkdirs(const char *path, unsigned mode, struct err *err) {
    AUTO_FREE char *p = mem_strdup(path);
    if (!p) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    for (char *s = p + 1; *p; s++) {
        char c = *s;
        if (c != '/' && c != '\0') {
            continue;
        }
        *s = '\0';
        if (mkdir(p, mode) < 0 && errno != EEXIST) {
            return err_sys(err, ERR_SYS, errno, "cannot make the folder '%s'", p);
        }
        *s = c;
        if (c == '\0') {
            break;
        }
    }
    struct stat st;
    if (stat(path, &st) < 0 || !S_ISDIR(st.st_mode)) {
        return err_set(err, ERR_SYS, "'%s' is not a folder", path);
    }
    return 0;
}

char *file_join(const char *dir, const char *name) {
    if (name[0] == '/' || dir[0] == '\0') {
        return mem_strdup(name);
    }
    size_t n = strlen(dir);
    return mem_printf("%s%s%s", dir, dir[n - 1] == '/' ? "" : "/", name);
}

int file_exists(const char *path) {
    return access(path, F_OK) == 0;
}
