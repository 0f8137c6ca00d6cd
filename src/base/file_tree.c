/* SPDX-License-Identifier: BSD-3-Clause */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"

/*
 * The tree may have been made by an agent, as deep and as hostile as it likes. So: no link is
 * followed, no path is built, and the depth costs neither stack nor descriptors: a folder found
 * inside a folder is moved up beside it, until the top holds files only.
 */

static bool is_dots(const char *name) {
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* Gives its owner the folder's rights back. A failure shows in the call that needs them. */
static void unlock(int dir, const char *name) {
    if (fchmodat(dir, name, 0700, 0) < 0) {
        return;
    }
}

/* Moves the folder `name` of `dir` to the top under a fresh name. */
static int hoist(int dir, const char *name, int top, unsigned long *serial) {
    unlock(dir, name); /* A folder changes its parent only if it is writable itself. */
    for (;;) {
        AUTO_FREE char *fresh = mem_printf(".removing-%lu", (*serial)++);
        if (!fresh) {
            errno = ENOMEM;
            return -1;
        }
        if (renameat(dir, name, top, fresh) == 0) {
            return 0;
        }
        if (errno != EEXIST && errno != ENOTEMPTY && errno != ENOTDIR) {
            return -1;
        }
    }
}

/* Removes what `dir_fd` (taken) holds: files at once, folders by moving them to `top`. */
static int empty_folder(int dir_fd, int top, unsigned long *serial) {
    (void)fchmod(dir_fd, 0700); /* A folder that its owner locked; a failure shows below. */
    DIR *d = fdopendir(dir_fd);
    if (!d) {
        close(dir_fd);
        return -1;
    }
    int result = 0;
    for (struct dirent *e; result == 0 && (e = readdir(d));) {
        if (is_dots(e->d_name) || unlinkat(dirfd(d), e->d_name, 0) == 0) {
            continue;
        }
        if (errno == EISDIR || errno == EPERM) {
            result = unlinkat(dirfd(d), e->d_name, AT_REMOVEDIR);
            if (result < 0 && (errno == ENOTEMPTY || errno == EEXIST || errno == EACCES)) {
                result = hoist(dirfd(d), e->d_name, top, serial);
            }
        } else if (errno != ENOENT) {
            result = -1;
        }
    }
    closedir(d);
    return result;
}

/* One pass over the folders that stand at the top; *left counts those that were there. */
static int pass(int top, unsigned long *serial, unsigned long *left) {
    int again = openat(top, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = again < 0 ? NULL : fdopendir(again);
    if (!d) {
        return -1;
    }
    int result = 0;
    for (struct dirent *e; result == 0 && (e = readdir(d));) {
        if (is_dots(e->d_name) || unlinkat(top, e->d_name, 0) == 0) {
            continue;
        }
        ++*left;
        unlock(top, e->d_name);
        int fd = openat(top, e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0) {
            result = errno == ENOENT ? 0 : -1;
            continue;
        }
        result = empty_folder(fd, top, serial);
        if (result == 0 && unlinkat(top, e->d_name, AT_REMOVEDIR) < 0 && errno != ENOTEMPTY) {
            result = -1;
        }
    }
    closedir(d);
    return result;
}

int file_remove_tree(const char *path, struct err *err) {
    AUTO_CLOSE int top = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (top < 0) {
        if (errno == ENOENT || ((errno == ENOTDIR || errno == ELOOP) && unlink(path) == 0)) {
            return 0;
        }
        return err_sys(err, ERR_SYS, errno, "cannot remove '%s'", path);
    }
    (void)fchmod(top, 0700);
    unsigned long serial = 0;
    unsigned long left;
    do {
        left = 0;
        if (pass(top, &serial, &left) < 0) {
            return err_sys(err, ERR_SYS, errno, "cannot remove what is in '%s'", path);
        }
    } while (left > 0);
    if (rmdir(path) < 0 && errno != ENOENT) {
        return err_sys(err, ERR_SYS, errno, "cannot remove '%s'", path);
    }
    return 0;
}
