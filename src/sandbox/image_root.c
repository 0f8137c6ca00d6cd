/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "sandbox/image_impl.h"

/* The kernel itself resolves links as if the root folder were "/", ".." at its top included. */
static int open_in(int root, const char *path, int flags) {
    struct open_how how = {.flags = (unsigned)flags | O_CLOEXEC,
                           .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
    return (int)syscall(SYS_openat2, root, *path ? path : ".", &how, sizeof how);
}

static int failed(const char *path, struct err *err) {
    if (errno == ENOSYS) {
        return err_set(err, ERR_ENVIRONMENT, "a rootfs needs Linux 5.6 or newer (openat2)");
    }
    int code = errno == ENOENT || errno == ENOTDIR                          ? ERR_NOT_FOUND
               : errno == EEXIST || errno == ELOOP || errno == ENAMETOOLONG ? ERR_INPUT
                                                                            : ERR_SYS;
    return err_sys(err, code, errno, "cannot open '%.200s' in the rootfs", path);
}

int image_root_open(int root, const char *path, int *out_fd, struct err *err) {
    int fd = open_in(root, path, O_PATH);
    if (fd < 0) {
        return failed(path, err);
    }
    *out_fd = fd;
    return 0;
}

/* The folder at the path's first `n` bytes, made where missing with those above it. */
static int open_folder(int root, const char *path, size_t n, int *out_fd, struct err *err) {
    AUTO_FREE char *folder = mem_strndup(path, n);
    if (!folder) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    int fd = open_in(root, folder, O_RDONLY | O_DIRECTORY);
    if (fd < 0 && errno == ENOENT && n > 0) {
        const char *slash = strrchr(folder, '/');
        AUTO_CLOSE int above = -1;
        int r = open_folder(root, path, slash ? (size_t)(slash - folder) : 0, &above, err);
        if (r < 0) {
            return r;
        }
        if (mkdirat(above, slash ? slash + 1 : folder, 0755) < 0) {
            return failed(folder, err);
        }
        fd = open_in(root, folder, O_RDONLY | O_DIRECTORY);
    }
    if (fd < 0) {
        return failed(folder, err);
    }
    *out_fd = fd;
    return 0;
}

int image_root_parent(int root, const char *path, int *out_fd, const char **out_name,
                      struct err *err) {
    const char *slash = strrchr(path, '/');
    *out_name = slash ? slash + 1 : path;
    return open_folder(root, path, slash ? (size_t)(slash - path) : 0, out_fd, err);
}

int image_root_remove(int parent, const char *name, struct err *err) {
    if (unlinkat(parent, name, 0) == 0 || errno == ENOENT) {
        return 0;
    }
    /* The folder's own path, through the descriptor: no link is on the way. */
    AUTO_FREE char *path = mem_printf("/proc/self/fd/%d/%s", parent, name);
    return path ? file_remove_tree(path, err) : err_set(err, ERR_NOMEM, "out of memory");
}
