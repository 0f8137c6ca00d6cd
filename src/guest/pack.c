/* SPDX-License-Identifier: BSD-3-Clause */
#include "guest/pack.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"

#define BLOCK 512
#define NAME_MAX_USTAR 100
#define DEPTH_MAX 400     /* Each level holds a descriptor. */
#define PATH_BYTES 65536u /* Of a name from the top: more than any tool makes. */
#define OCTAL_MAX 077777777777ll

/* A file with several names, once it was told. */
struct seen {
    dev_t device;
    ino_t number;
    char *path;
};

struct pack {
    int fd;
    uint64_t written;
    uint64_t max;
    struct seen *seen;
    size_t n_seen;
    int depth;
};

struct entry {
    const char *path; /* From the top. */
    const char *link; /* What a link leads to. */
    const struct stat *st;
    char type;
};

static int put(struct pack *p, const void *bytes, size_t n, struct err *err) {
    const char *at = bytes;
    p->written += n;
    if (p->written > p->max) {
        return err_set(err, ERR_LIMIT, "more than %llu bytes", (unsigned long long)p->max);
    }
    while (n > 0) {
        ssize_t done = write(p->fd, at, n);
        if (done < 0 && errno != EINTR) {
            return err_sys(err, errno == ENOSPC ? ERR_FULL : ERR_SYS, errno,
                           "cannot write what is packed");
        }
        at += done > 0 ? done : 0;
        n -= done > 0 ? (size_t)done : 0;
    }
    return 0;
}

static int put_filling(struct pack *p, uint64_t size, struct err *err) {
    static const char zeros[BLOCK];
    size_t over = (size_t)(size % BLOCK);
    return over ? put(p, zeros, BLOCK - over, err) : 0;
}

/* --- heads --- */

/* As a field of the head: digits and a NUL. */
static void put_octal(char *field, int width, unsigned long long value) {
    char text[24];
    (void)snprintf(text, sizeof text, "%0*llo", width - 1, value);
    memcpy(field, text, (size_t)width);
}

static int put_head(struct pack *p, const struct entry *e, const char *name, uint64_t size,
                    struct err *err) {
    char head[BLOCK] = {0};
    long long mtime = e->st->st_mtime;
    unsigned sum = 0;
    memcpy(head, name, strnlen(name, NAME_MAX_USTAR));
    put_octal(head + 100, 8, e->st->st_mode & 07777);
    put_octal(head + 108, 8, 0);
    put_octal(head + 116, 8, 0);
    put_octal(head + 124, 12, size);
    put_octal(head + 136, 12,
              (unsigned long long)(mtime < 0           ? 0
                                   : mtime > OCTAL_MAX ? OCTAL_MAX
                                                       : mtime));
    memset(head + 148, ' ', 8);
    head[156] = e->type;
    if (e->link) {
        memcpy(head + 157, e->link, strnlen(e->link, NAME_MAX_USTAR));
    }
    memcpy(head + 257, "ustar\00000", 8);
    for (size_t i = 0; i < BLOCK; i++) {
        sum += (unsigned char)head[i];
    }
    put_octal(head + 148, 7, sum);
    return put(p, head, BLOCK, err);
}

/* "LENGTH KEY=VALUE\n", where the length counts its own digits. */
static int add_record(struct buf *b, const char *key, const char *value) {
    size_t rest = strlen(key) + strlen(value) + 3;
    size_t length = rest;
    char digits[24];
    for (size_t before = 0; before != length;) {
        before = length;
        length = rest + (size_t)snprintf(digits, sizeof digits, "%zu", length);
    }
    return buf_addf(b, "%zu %s=%s\n", length, key, value);
}

/* What a head has no room for stands before it. */
static int put_extended(struct pack *p, const struct entry *e, struct err *err) {
    AUTO_BUF struct buf b = {0};
    struct entry extended = {.st = e->st, .type = 'x'};
    int r = strlen(e->path) > NAME_MAX_USTAR ? add_record(&b, "path", e->path) : 0;
    if (r == 0 && e->link && strlen(e->link) > NAME_MAX_USTAR) {
        r = add_record(&b, "linkpath", e->link);
    }
    if (r < 0) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    if (b.len == 0) {
        return 0;
    }
    r = put_head(p, &extended, "pax", b.len, err);
    r = r < 0 ? r : put(p, b.data, b.len, err);
    return r < 0 ? r : put_filling(p, b.len, err);
}

static int put_entry(struct pack *p, const struct entry *e, uint64_t size, struct err *err) {
    int r = put_extended(p, e, err);
    return r < 0 ? r : put_head(p, e, e->path, size, err);
}

/* --- what is told --- */

/* The name under which it was told before; NULL: it was not, and is from now on. */
static const char *told_as(struct pack *p, const struct stat *st, const char *path) {
    for (size_t i = 0; i < p->n_seen; i++) {
        if (p->seen[i].device == st->st_dev && p->seen[i].number == st->st_ino) {
            return p->seen[i].path;
        }
    }
    struct seen *grown = realloc(p->seen, (p->n_seen + 1) * sizeof *grown);
    char *copy = mem_strdup(path);
    p->seen = grown ? grown : p->seen;
    if (grown && copy) { /* Else it is told twice. */
        p->seen[p->n_seen++] = (struct seen){st->st_dev, st->st_ino, copy};
    } else {
        free(copy);
    }
    return NULL;
}

/* As many bytes as the head says, whatever became of the file. */
static int put_content(struct pack *p, int fd, uint64_t size, struct err *err) {
    static char bytes[1 << 16];
    int r = 0;
    for (uint64_t left = size; r == 0 && left > 0;) {
        size_t want = left < sizeof bytes ? (size_t)left : sizeof bytes;
        ssize_t n = read(fd, bytes, want);
        if (n < 0) {
            return err_sys(err, ERR_SYS, errno, "cannot read what is to be packed");
        }
        memset(bytes + n, 0, n == 0 ? want : 0);
        n = n == 0 ? (ssize_t)want : n;
        r = put(p, bytes, (size_t)n, err);
        left -= (uint64_t)n;
    }
    return r < 0 ? r : put_filling(p, size, err);
}

static int put_file(struct pack *p, int dir, const char *name, struct entry *e, struct err *err) {
    const char *before = e->st->st_nlink > 1 ? told_as(p, e->st, e->path) : NULL;
    if (before) {
        e->type = '1';
        e->link = before;
        return put_entry(p, e, 0, err);
    }
    AUTO_CLOSE int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) {
        return err_sys(err, ERR_SYS, errno, "cannot read '%s'", e->path);
    }
    uint64_t size = (uint64_t)e->st->st_size;
    if (size > p->max) { /* It may be one great hole. */
        return err_set(err, ERR_LIMIT, "more than %llu bytes", (unsigned long long)p->max);
    }
    e->type = '0';
    int r = put_entry(p, e, size, err);
    return r < 0 ? r : put_content(p, fd, size, err);
}

static int put_link(struct pack *p, int dir, const char *name, const struct entry *e,
                    struct err *err) {
    char target[PATH_MAX + 1];
    ssize_t n = readlinkat(dir, name, target, PATH_MAX);
    if (n < 0) {
        return err_sys(err, ERR_SYS, errno, "cannot read the link '%s'", e->path);
    }
    target[n] = '\0';
    struct entry link = {.path = e->path, .link = target, .st = e->st, .type = '2'};
    return put_entry(p, &link, 0, err);
}

static int put_folder(struct pack *p, int fd, struct buf *path, struct err *err);

static int put_below(struct pack *p, int dir, const char *name, struct buf *path, struct entry *e,
                     struct err *err) {
    int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || p->depth == DEPTH_MAX) {
        int reason = fd < 0 ? errno : ELOOP;
        mem_auto_close(&fd);
        return err_sys(err, ERR_LIMIT, reason, "cannot enter '%.200s'", e->path);
    }
    e->type = '5';
    int r = put_entry(p, e, 0, err);
    if (r < 0) {
        close(fd);
        return r;
    }
    return put_folder(p, fd, path, err);
}

/* `path` is the folder's; it is the same after. */
static int put_one(struct pack *p, int dir, const char *name, struct buf *path, struct err *err) {
    struct stat st;
    size_t before = path->len;
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        return errno == ENOENT ? 0 : err_sys(err, ERR_SYS, errno, "cannot look at '%s'", name);
    }
    if (buf_addf(path, "/%s", name) < 0) {
        return err_set(err, ERR_LIMIT, "a path of more than %u bytes", PATH_BYTES);
    }
    struct entry e = {.path = buf_cstr(path), .st = &st};
    int r = 0;
    if (S_ISREG(st.st_mode)) {
        r = put_file(p, dir, name, &e, err);
    } else if (S_ISLNK(st.st_mode)) {
        r = put_link(p, dir, name, &e, err);
    } else if (S_ISDIR(st.st_mode)) {
        r = put_below(p, dir, name, path, &e, err);
    } else if (S_ISFIFO(st.st_mode)) {
        e.type = '6';
        r = put_entry(p, &e, 0, err);
    }
    path->len = before;
    path->data[before] = '\0';
    return r;
}

/* Takes `fd`. */
static int put_folder(struct pack *p, int fd, struct buf *path, struct err *err) {
    DIR *folder = fdopendir(fd);
    if (!folder) {
        int reason = errno;
        close(fd);
        return err_sys(err, ERR_SYS, reason, "cannot read '%s'", buf_cstr(path));
    }
    int r = 0;
    const struct dirent *d;
    p->depth++;
    while (r == 0 && (d = readdir(folder))) {
        if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0) {
            r = put_one(p, dirfd(folder), d->d_name, path, err);
        }
    }
    p->depth--;
    closedir(folder);
    return r;
}

int pack(const char *from, const char *to, uint64_t max, struct err *err) {
    static const char end[2 * BLOCK];
    AUTO_BUF struct buf path = {.limit = PATH_BYTES};
    AUTO_CLOSE int fd = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    int top = open(from, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct pack p = {.fd = fd, .max = max};
    struct stat st;
    if (fd < 0 || top < 0 || fstat(top, &st) < 0 || buf_adds(&path, ".") < 0) {
        int reason = errno;
        mem_auto_close(&top);
        return err_sys(err, ERR_SYS, reason, "cannot pack '%s' into '%s'", from, to);
    }
    struct entry e = {.path = ".", .st = &st, .type = '5'};
    int r = put_entry(&p, &e, 0, err);
    if (r < 0) {
        close(top);
    }
    r = r < 0 ? r : put_folder(&p, top, &path, err);
    r = r < 0 ? r : put(&p, end, sizeof end, err);
    for (size_t i = 0; i < p.n_seen; i++) {
        free(p.seen[i].path);
    }
    free(p.seen);
    return r;
}
