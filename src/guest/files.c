/* SPDX-License-Identifier: BSD-3-Clause */
#include "guest/files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/rand.h"

#define PROC_FS 0x9fa0     /* Its files may block for ever, and show the guest itself. */
#define SYS_FS 0x62656572  /* The same for the kernel's own. */
#define NEW_FILE_MODE 0644 /* Of the agent's logs; the home folder itself is private. */
#define NEW_FOLDER_MODE 0755

static int fail(struct err *err, int reason, const char *doing, const char *path) {
    int code = ERR_SYS;
    switch (reason) {
    case ENOENT:
    case ENOTDIR:
        code = ERR_NOT_FOUND;
        break;
    case EACCES:
    case EPERM:
    case EROFS:
        code = ERR_DENIED;
        break;
    case ENOSPC:
    case EDQUOT:
        code = ERR_FULL;
        break;
    case ELOOP:
        return err_set(err, ERR_INPUT, "cannot %s '%s': it is a link", doing, path);
    case EISDIR:
    case ENXIO:
    case ENAMETOOLONG:
    case EINVAL:
        code = ERR_INPUT;
        break;
    default:
        break;
    }
    return err_sys(err, code, reason, "cannot %s '%s'", doing, path);
}

int files_path(struct sv path, char **out, struct err *err) {
    if (path.n == 0 || path.n >= PATH_MAX || memchr(path.p, '\0', path.n)) {
        return err_set(err, ERR_INPUT, "a path must have 1 to %d bytes and no NUL", PATH_MAX - 1);
    }
    *out = mem_strndup(path.p, path.n);
    return *out ? 0 : err_set(err, ERR_NOMEM, "out of memory");
}

static int check_regular(int fd, const char *path, uint64_t *size, struct err *err) {
    struct stat st;
    struct statfs fs;
    if (fstat(fd, &st) < 0 || fstatfs(fd, &fs) < 0) {
        return fail(err, errno, "open", path);
    }
    if (!S_ISREG(st.st_mode) || fs.f_type == PROC_FS || fs.f_type == SYS_FS) {
        return err_set(err, ERR_INPUT, "cannot open '%s': it is not a regular file", path);
    }
    *size = (uint64_t)st.st_size;
    return 0;
}

static int open_regular(int dir_fd, const char *path, int flags, int *out_fd, uint64_t *size,
                        struct err *err) {
    AUTO_CLOSE int fd =
        openat(dir_fd, path, flags | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, NEW_FILE_MODE);
    if (fd < 0) {
        return fail(err, errno, "open", path);
    }
    int r = check_regular(fd, path, size, err);
    if (r == 0) {
        *out_fd = TAKE_FD(fd);
    }
    return r;
}

int files_open_read(int dir_fd, const char *path, int *out_fd, uint64_t *out_size,
                    struct err *err) {
    return open_regular(dir_fd, path, O_RDONLY, out_fd, out_size, err);
}

int files_open_append(int dir_fd, const char *path, int *out_fd, struct err *err) {
    uint64_t size;
    int r = open_regular(dir_fd, path, O_RDWR | O_APPEND | O_CREAT, out_fd, &size, err);
    if (r == 0) {
        fcntl(*out_fd, F_SETFL,
              O_APPEND); /* Commands inherit the flags: blocking, as they expect. */
    }
    return r;
}

int files_open_dir(int dir_fd, const char *path, int *out_fd, struct err *err) {
    int fd = openat(dir_fd, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return fail(err, errno, "enter", path);
    }
    *out_fd = fd;
    return 0;
}

int files_exists(int dir_fd, const char *path, struct err *err) {
    struct stat st;
    if (fstatat(dir_fd, path, &st, 0) == 0) {
        return 1;
    }
    if (errno == ENOENT || errno == ENOTDIR || errno == ELOOP) {
        return 0;
    }
    return fail(err, errno, "look at", path);
}

/* Makes the folders named before the last '/' of `path`; none when there is no '/'. */
static int make_parents(int dir_fd, char *path, struct err *err) {
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        int r = mkdirat(dir_fd, path, NEW_FOLDER_MODE);
        int reason = errno;
        if (r < 0 && reason != EEXIST && reason != EISDIR && faccessat(dir_fd, path, F_OK, 0) < 0) {
            return fail(err, reason, "make the folder", path);
        }
        *slash = '/';
    }
    return 0;
}

static int open_parent(int dir_fd, const char *path, const char *slash, int *out_fd,
                       struct err *err) {
    if (!slash) {
        return files_open_dir(dir_fd, ".", out_fd, err);
    }
    AUTO_FREE char *parent = mem_strndup(path, (size_t)(slash - path) + 1);
    return parent ? files_open_dir(dir_fd, parent, out_fd, err)
                  : err_set(err, ERR_NOMEM, "out of memory");
}

static int begin_in(struct files_write *w, const char *path, struct err *err) {
    w->fd = openat(w->dir_fd, w->temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    return w->fd < 0 ? fail(err, errno, "write", path) : 0;
}

/* Links what is open beside the name. */
static int adopt_in(struct files_write *w, int fd, const char *path, struct err *err) {
    char self[40];
    (void)snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
    if (linkat(AT_FDCWD, self, w->dir_fd, w->temp, AT_SYMLINK_FOLLOW) < 0) {
        return err_sys(err, ERR_UNSUPPORTED, errno, "cannot make '%s' of an open file", path);
    }
    w->fd = openat(w->dir_fd, w->temp, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
    if (w->fd < 0) {
        int reason = errno;
        unlinkat(w->dir_fd, w->temp, 0);
        return fail(err, reason, "write", path);
    }
    return 0;
}

/* `fd`: the file with the content; -1: an empty one is made. */
static int begin(int dir_fd, const char *path, unsigned mode, int fd, struct files_write *out,
                 struct err *err) {
    AUTO_FREE char *copy = mem_strdup(path);
    if (!copy) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    if (!*name || strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
        return err_set(err, ERR_INPUT, "cannot write '%s': it names a folder", path);
    }
    int r = make_parents(dir_fd, copy, err);
    if (r < 0) {
        return r;
    }
    char random[17];
    rand_hex(random, 8); /* A guest before us may have left its own behind. */
    struct files_write w = FILES_WRITE_NONE;
    w.mode = mode & 0777;
    w.name = mem_strdup(name);
    w.temp = mem_printf(".snaffle-%s.part", random);
    if (!w.name || !w.temp) {
        files_write_deinit(&w);
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    r = open_parent(dir_fd, path, slash, &w.dir_fd, err);
    if (r == 0) {
        r = fd < 0 ? begin_in(&w, path, err) : adopt_in(&w, fd, path, err);
    }
    if (r < 0) {
        files_write_deinit(&w);
        return r;
    }
    *out = w;
    return 0;
}

int files_write_begin(int dir_fd, const char *path, unsigned mode, struct files_write *out,
                      struct err *err) {
    return begin(dir_fd, path, mode, -1, out, err);
}

int files_write_adopt(int dir_fd, const char *path, unsigned mode, int fd, struct files_write *out,
                      struct err *err) {
    return begin(dir_fd, path, mode, fd, out, err);
}

int files_write_add(struct files_write *w, struct sv bytes, struct err *err) {
    while (bytes.n > 0) {
        ssize_t n = write(w->fd, bytes.p, bytes.n);
        if (n < 0 && errno != EINTR) {
            return fail(err, errno, "write", w->name);
        }
        bytes = sv_cut(bytes, n > 0 ? (size_t)n : 0);
    }
    return 0;
}

int files_write_commit(struct files_write *w, struct err *err) {
    if (fchmod(w->fd, w->mode) < 0 || renameat(w->dir_fd, w->temp, w->dir_fd, w->name) < 0) {
        return fail(err, errno, "write", w->name);
    }
    mem_auto_free(&w->temp);
    w->temp = NULL;
    return 0;
}

void files_write_deinit(struct files_write *w) {
    if (w->temp && w->fd >= 0) {
        unlinkat(w->dir_fd, w->temp, 0);
    }
    mem_auto_free(&w->name);
    mem_auto_free(&w->temp);
    mem_auto_close(&w->fd);
    mem_auto_close(&w->dir_fd);
    *w = FILES_WRITE_NONE;
}
