/* SPDX-License-Identifier: BSD-3-Clause */
#include <archive.h>
#include <archive_entry.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/sv.h"
#include "sandbox/digest.h"
#include "sandbox/image_impl.h"

/*
 * One layer, a tar archive: what it takes away first, then what it adds. libarchive reads; what is
 * made is made by descriptor, each parent found inside the root by the kernel.
 */

#define READ_BYTES 65536
#define BYTES_MAX (64ull << 30) /* The largest images for machine learning have a third of it. */
#define ENTRIES_MAX 4000000u    /* Ten times a full desktop system. */
#define PATH_BYTES_MAX 4096
#define WHITEOUT ".wh."
#define OPAQUE ".wh..wh..opq"

struct reading {
    const struct image_layer *layer;
    struct image_count *count;
    struct archive *archive;
    struct archive_entry *entry;
    int root;
};

static int bad(const struct reading *r, struct err *err, const char *what, const char *path) {
    return err_set(err, ERR_INPUT, "rootfs: the layer %s %s '%.200s'", r->layer->digest, what,
                   path);
}

/* The path without leading "/" and "./" and without a slash at its end, in `out`; "" is the root
 * itself. A ".." is refused: no tool writes it. */
static int plain_path(const struct reading *r, const char *raw, char out[PATH_BYTES_MAX],
                      struct err *err) {
    size_t n = 0;
    for (const char *p = raw; *p;) {
        size_t part = strcspn(p, "/");
        if (part == 2 && p[0] == '.' && p[1] == '.') {
            return bad(r, err, "has the path", raw);
        }
        if (part > 0 && !(part == 1 && p[0] == '.')) {
            if (n + part + 2 > PATH_BYTES_MAX) {
                return bad(r, err, "has too long a path", raw);
            }
            if (n > 0) {
                out[n++] = '/';
            }
            memcpy(out + n, p, part);
            n += part;
        }
        p += part + (p[part] == '/' ? 1 : 0);
    }
    out[n] = '\0';
    return 0;
}

static const char *name_of(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static bool is_whiteout(const char *path) {
    return strncmp(name_of(path), WHITEOUT, strlen(WHITEOUT)) == 0;
}

/* Empties the folder. */
static int remove_children(int folder, struct err *err) {
    int r = 0;
    int copy = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = copy < 0 ? NULL : fdopendir(copy);
    if (!d) {
        return err_sys(err, ERR_SYS, errno, "cannot read a folder of the rootfs");
    }
    for (struct dirent *e; r == 0 && (e = readdir(d));) {
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0) {
            r = image_root_remove(folder, e->d_name, err);
        }
    }
    closedir(d);
    return r;
}

static int take_away(struct reading *r, const char *path, struct err *err) {
    if (!is_whiteout(path)) {
        return 0;
    }
    AUTO_CLOSE int parent = -1;
    const char *name = NULL;
    int result = image_root_parent(r->root, path, &parent, &name, err);
    if (result < 0) {
        return result;
    }
    if (strcmp(name, OPAQUE) == 0) {
        return remove_children(parent, err);
    }
    name += strlen(WHITEOUT);
    if (!*name || strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
        return bad(r, err, "takes away", path);
    }
    return image_root_remove(parent, name, err);
}

/* Readable for every user, and what may run may be run by all; no set-id and no sticky bits. */
static mode_t mode_of(const struct reading *r) {
    mode_t mode = (mode_t)archive_entry_perm(r->entry);
    mode_t run = mode & 0111 ? 0111 : 0;
    return archive_entry_filetype(r->entry) == AE_IFDIR ? 0755 : (mode & 0200) | 0444 | run;
}

static int add_folder(int parent, const char *name, struct err *err) {
    struct stat st;
    if (fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode)) {
        return 0;
    }
    int r = image_root_remove(parent, name, err);
    if (r == 0 && (mkdirat(parent, name, 0755) < 0 || fchmodat(parent, name, 0755, 0) < 0)) {
        r = err_sys(err, ERR_SYS, errno, "cannot make the folder '%.200s' of the rootfs", name);
    }
    return r;
}

static int add_file(struct reading *r, int parent, const char *name, struct err *err) {
    AUTO_CLOSE int fd =
        openat(parent, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) {
        return err_sys(err, ERR_SYS, errno, "cannot make the file '%.200s' of the rootfs", name);
    }
    if (archive_read_data_into_fd(r->archive, fd) != ARCHIVE_OK) {
        const char *why = archive_error_string(r->archive);
        return err_set(err, ERR_INPUT, "rootfs: the layer %s: '%.200s': %.200s", r->layer->digest,
                       name, why ? why : "cannot be read");
    }
    /* Interpreters compare a source's time with the one noted in its compiled form. */
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = archive_entry_mtime(r->entry)}};
    if (ftruncate(fd, archive_entry_size(r->entry)) < 0 || fchmod(fd, mode_of(r)) < 0 ||
        futimens(fd, times) < 0) {
        return err_sys(err, ERR_SYS, errno, "cannot finish the file '%.200s' of the rootfs", name);
    }
    return 0;
}

/* A second name for a file that is there already, inside. */
static int add_hard_link(struct reading *r, int parent, const char *name, const char *raw,
                         struct err *err) {
    char path[PATH_BYTES_MAX];
    int result = plain_path(r, raw, path, err);
    if (result < 0) {
        return result;
    }
    if (!*path) {
        return bad(r, err, "links to", raw);
    }
    AUTO_CLOSE int from = -1;
    const char *old = "";
    result = image_root_parent(r->root, path, &from, &old, err);
    if (result == 0 && linkat(from, old, parent, name, 0) < 0) {
        result = bad(r, err, "links to what is not there:", raw);
    }
    return result;
}

static int add_at(struct reading *r, int parent, const char *name, struct err *err) {
    const char *link = archive_entry_hardlink(r->entry);
    unsigned type = archive_entry_filetype(r->entry);
    if (!link && type == AE_IFDIR) {
        return add_folder(parent, name, err);
    }
    if (!link && type != AE_IFREG && type != AE_IFLNK) {
        return 0; /* Devices, FIFOs, sockets: the sandbox has its own. */
    }
    int result = image_root_remove(parent, name, err);
    if (result < 0) {
        return result;
    }
    if (link) {
        return add_hard_link(r, parent, name, link, err);
    }
    if (type == AE_IFREG) {
        return add_file(r, parent, name, err);
    }
    const char *target = archive_entry_symlink(r->entry);
    if (!target || symlinkat(target, parent, name) < 0) {
        return bad(r, err, "has a link that can't be made:", name);
    }
    return 0;
}

static int add(struct reading *r, const char *path, struct err *err) {
    if (!*path || is_whiteout(path)) {
        return 0;
    }
    r->count->entries++;
    r->count->bytes += (uint64_t)archive_entry_size(r->entry);
    if (r->count->entries > ENTRIES_MAX || archive_entry_size(r->entry) < 0 ||
        r->count->bytes > BYTES_MAX) {
        return err_set(err, ERR_INPUT, "rootfs: the image is larger than %llu GB or %u files",
                       BYTES_MAX >> 30, ENTRIES_MAX);
    }
    AUTO_CLOSE int parent = -1;
    const char *name = NULL;
    int result = image_root_parent(r->root, path, &parent, &name, err);
    return result < 0 ? result : add_at(r, parent, name, err);
}

/* Calls `act` for each entry. */
static int each_entry(struct reading *r, int (*act)(struct reading *, const char *, struct err *),
                      struct err *err) {
    for (;;) {
        char path[PATH_BYTES_MAX];
        path[0] = '\0';
        int got = archive_read_next_header(r->archive, &r->entry);
        if (got == ARCHIVE_EOF) {
            return 0;
        }
        if (got != ARCHIVE_OK && got != ARCHIVE_WARN) {
            return err_set(err, ERR_INPUT, "rootfs: the layer %s: %.200s", r->layer->digest,
                           archive_error_string(r->archive));
        }
        if (cancel_thrown(r->layer->cancel)) {
            return err_set(err, ERR_CANCELLED, "cancelled");
        }
        if (deadline_passed(r->layer->until)) {
            return err_set(err, ERR_TIMEOUT, "out of time while unpacking the rootfs");
        }
        const char *raw = archive_entry_pathname(r->entry);
        int result =
            raw ? plain_path(r, raw, path, err)
                : err_set(err, ERR_INPUT, "rootfs: the layer %s has a name that is no text",
                          r->layer->digest);
        result = result < 0 ? result : act(r, path, err);
        if (result < 0) {
            return result;
        }
    }
}

/* Reads the archive from its start. */
static int pass(struct reading *r, int fd, int (*act)(struct reading *, const char *, struct err *),
                struct err *err) {
    if (lseek(fd, 0, SEEK_SET) < 0) {
        return err_sys(err, ERR_SYS, errno, "cannot read '%s'", r->layer->path);
    }
    r->archive = archive_read_new();
    if (!r->archive) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    int result = 0;
    if (archive_read_support_filter_gzip(r->archive) < ARCHIVE_WARN ||
        archive_read_support_filter_zstd(r->archive) < ARCHIVE_WARN ||
        archive_read_support_format_tar(r->archive) != ARCHIVE_OK ||
        archive_read_open_fd(r->archive, fd, READ_BYTES) != ARCHIVE_OK) {
        result = err_set(err, ERR_INPUT, "rootfs: the layer %s is no tar archive (%.200s)",
                         r->layer->digest, archive_error_string(r->archive));
    }
    result = result < 0 ? result : each_entry(r, act, err);
    archive_read_free(r->archive);
    return result;
}

/* Twice: what a layer takes away is of the layers below it, wherever in the layer it stands. */
static int apply(struct reading *r, int fd, struct err *err) {
    /* libarchive converts names by the locale, and a program may have none set. */
    locale_t utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
    locale_t before = utf8 ? uselocale(utf8) : (locale_t)0;
    int result = pass(r, fd, take_away, err);
    result = result < 0 ? result : pass(r, fd, add, err);
    if (utf8) {
        uselocale(before);
        freelocale(utf8);
    }
    return result;
}

int image_layer_apply(int root, const struct image_layer *layer, struct image_count *count,
                      struct err *err) {
    char have[DIGEST_HEX_MAX];
    AUTO_CLOSE int fd = open(layer->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return err_sys(err, ERR_INPUT, errno, "rootfs: cannot open the layer '%s'", layer->path);
    }
    if (digest_fd_hex(fd, have) < 0) {
        return err_set(err, ERR_SYS, "cannot read '%s'", layer->path);
    }
    if (strcmp(have, strchr(layer->digest, ':') + 1) != 0) {
        return err_set(err, ERR_INPUT, "rootfs: the layer '%s' is not what its name says",
                       layer->path);
    }
    struct reading r = {.layer = layer, .count = count, .root = root};
    return apply(&r, fd, err);
}
