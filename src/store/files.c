/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/rand.h"
#include "store/store_internal.h"

#define PART_MAX 255   /* Linux's own limit for one name. */
#define NAME_MAX_ 1024 /* A path as tools still show it. */

/* How many files of a rollout were kept. */
struct file_count {
    struct file_count *next;
    unsigned n;
    char dir[];
};

void files_forget(struct store *s, const char *dir) {
    pthread_mutex_lock(&s->lock);
    for (struct file_count **p = &s->counts; *p;) {
        struct file_count *c = *p;
        if (!dir || strcmp(c->dir, dir) == 0) {
            *p = c->next;
            free(c);
        } else {
            p = &c->next;
        }
    }
    pthread_mutex_unlock(&s->lock);
}

/* Counts one more; ERR_LIMIT when there are enough. */
static int count_file(struct store *s, const char *dir, struct err *err) {
    int r = 0;
    pthread_mutex_lock(&s->lock);
    struct file_count *c = s->counts;
    while (c && strcmp(c->dir, dir) != 0) {
        c = c->next;
    }
    if (!c) {
        size_t n = strlen(dir) + 1;
        c = calloc(1, sizeof *c + n);
        if (c) {
            memcpy(c->dir, dir, n);
            c->next = s->counts;
            s->counts = c;
        }
    }
    if (!c) {
        r = err_set(err, ERR_NOMEM, "out of memory");
    } else if (c->n++ >= STORE_FILES_MAX) {
        r = err_set(err, ERR_LIMIT, "'%s' holds %d files already", dir, STORE_FILES_MAX);
    }
    pthread_mutex_unlock(&s->lock);
    return r;
}

static int bad_name(const char *why, struct err *err) {
    return err_set(err, ERR_INPUT, "a file from the sandbox has a name that %s", why);
}

/* The name's parts in `parts`, NUL-ended in `copy`. */
static int split(struct sv name, char copy[NAME_MAX_ + 1], char *parts[STORE_FILE_DEPTH_MAX],
                 unsigned *n, struct err *err) {
    if (name.n == 0 || name.n > NAME_MAX_) {
        return bad_name(name.n == 0 ? "is empty" : "is too long", err);
    }
    for (size_t i = 0; i < name.n; i++) {
        if ((unsigned char)name.p[i] < ' ' || name.p[i] == 0x7f) {
            return bad_name("holds a control character", err);
        }
    }
    memcpy(copy, name.p, name.n);
    copy[name.n] = '\0';
    *n = 0;
    for (char *p = copy; p;) {
        char *slash = strchr(p, '/');
        if (slash) {
            *slash = '\0';
        }
        if (*p == '\0') {
            return bad_name("is absolute or has an empty part", err);
        }
        if (strcmp(p, ".") == 0 || strcmp(p, "..") == 0) {
            return bad_name("holds '.' or '..'", err);
        }
        if (strlen(p) > PART_MAX || *n == STORE_FILE_DEPTH_MAX) {
            return bad_name("is too long or too deep", err);
        }
        parts[(*n)++] = p;
        p = slash ? slash + 1 : NULL;
    }
    return 0;
}

/* Goes into the folder `name` of *fd, made if missing; never through a link. */
static int enter(int *fd, const char *name, struct err *err) {
    if (mkdirat(*fd, name, 0777) < 0 && errno != EEXIST) {
        return err_sys(err, errno == ENOSPC ? ERR_FULL : ERR_SYS, errno,
                       "cannot make a folder for a file from the sandbox");
    }
    int next = openat(*fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (next < 0) {
        return errno == ENOTDIR || errno == ELOOP
                   ? bad_name("needs a folder where a file is", err)
                   : err_sys(err, ERR_SYS, errno, "cannot open a folder of kept files");
    }
    close(*fd);
    *fd = next;
    return 0;
}

/* Whole or not at all: written beside, then renamed. */
static int write_in(int dir, const char *name, struct sv content, struct err *err) {
    char part[40] = ".part-";
    rand_hex(part + 6, 8);
    AUTO_CLOSE int fd = openat(dir, part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0 || file_put(fd, content) < 0 || renameat(dir, part, dir, name) < 0) {
        int e = errno;
        unlinkat(dir, part, 0);
        return e == EISDIR ? bad_name("is a folder already", err)
                           : err_sys(err, e == ENOSPC || e == EDQUOT ? ERR_FULL : ERR_SYS, e,
                                     "cannot keep a file from the sandbox");
    }
    return 0;
}

int store_put_file(struct store *s, const char *run, const char *rollout, struct sv name,
                   struct sv content, struct err *err) {
    char copy[NAME_MAX_ + 1];
    char *parts[STORE_FILE_DEPTH_MAX];
    unsigned n = 0;
    int r = store_check_name("run", run, err);
    r = r < 0 ? r : store_check_name("rollout", rollout, err);
    r = r < 0 ? r : split(name, copy, parts, &n, err);
    if (r < 0) {
        return r;
    }
    if (content.n > STORE_FILE_BYTES_MAX) {
        return err_set(err, ERR_LIMIT, "a file from the sandbox is larger than %u MiB",
                       STORE_FILE_BYTES_MAX >> 20);
    }
    AUTO_FREE char *dir = store_rollout_path(s, run, rollout);
    if (!dir) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    AUTO_CLOSE int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return err_sys(err, errno == ENOENT ? ERR_NOT_FOUND : ERR_SYS, errno,
                       "cannot open the folder '%s'", dir);
    }
    r = count_file(s, dir, err);
    r = r < 0 ? r : enter(&fd, "files", err);
    for (unsigned i = 0; i + 1 < n && r == 0; i++) {
        r = enter(&fd, parts[i], err);
    }
    return r < 0 ? r : write_in(fd, parts[n - 1], content, err);
}
