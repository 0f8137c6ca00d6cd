/* SPDX-License-Identifier: BSD-3-Clause */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "sandbox/local.h"

/*
 * A rootfs in place of the host's system: all that stands in it is bound read-only at its own path,
 * but for what the sandbox has of its own. A folder that must hold something of the sandbox's is
 * made anew, and what else it holds bound one by one: nothing can be made in what is bound.
 */

/* Of the sandbox, whatever the rootfs has there. A profile would put back the PATH that the image's
 * configuration or the user chose; the host's is not seen inside either. */
static const char *const own[] = {"/proc",          "/dev",
                                  "/sys",           "/tmp",
                                  "/run",           "/var/tmp",
                                  "/var/run",       "/var/lock",
                                  "/etc/group",     "/etc/gshadow",
                                  "/etc/hostname",  "/etc/hosts",
                                  "/etc/mtab",      "/etc/passwd",
                                  "/etc/profile.d", "/etc/nsswitch.conf",
                                  "/etc/profile",   "/etc/resolv.conf",
                                  "/etc/shadow"};

struct places {
    const char **paths;
    size_t n;
};

/* Folders that are made anew whatever they are in the rootfs. */
static bool is_opened(const char *path) {
    return strcmp(path, "/etc") == 0 || strcmp(path, "/var") == 0;
}

static bool is_place(const struct places *places, const char *path) {
    for (size_t i = 0; i < places->n; i++) {
        if (strcmp(places->paths[i], path) == 0) {
            return true;
        }
    }
    return false;
}

static bool leads_to_place(const struct places *places, const char *path) {
    size_t n = strlen(path);
    for (size_t i = 0; i < places->n; i++) {
        if (strncmp(places->paths[i], path, n) == 0 && places->paths[i][n] == '/') {
            return true;
        }
    }
    return false;
}

struct walk {
    struct local_line *line;
    const struct places *places;
    const char *root; /* The host's path of the rootfs. */
};

static int add_folder(const struct walk *w, int above, const char *name, const char *path,
                      struct err *err);

/* What can be bound as it is: a file or folder; links are made again. */
static int add_whole(const struct walk *w, int above, const char *name, const char *path,
                     mode_t mode, struct err *err) {
    if (S_ISLNK(mode)) {
        char target[4096];
        ssize_t n = readlinkat(above, name, target, sizeof target - 1);
        if (n <= 0) {
            return err_sys(err, ERR_INPUT, errno, "rootfs: cannot read the link '%s'", path);
        }
        target[n] = '\0';
        return local_line_add(w->line, (const char *const[]){"--symlink", target, path, NULL});
    }
    if (!S_ISREG(mode) && !S_ISDIR(mode)) {
        return 0;
    }
    AUTO_FREE char *source = mem_printf("%s%s", w->root, path);
    return source ? local_line_add(w->line, (const char *const[]){"--ro-bind", source, path, NULL})
                  : err_set(err, ERR_NOMEM, "out of memory");
}

static int add_child(const struct walk *w, int above, const char *name, const char *folder,
                     struct err *err) {
    struct stat st;
    AUTO_FREE char *path = mem_printf("%s/%s", folder, name);
    if (!path) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    if (is_place(w->places, path)) {
        return 0;
    }
    if (fstatat(above, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        return err_sys(err, ERR_INPUT, errno, "rootfs: cannot look at '%s'", path);
    }
    if (!leads_to_place(w->places, path)) {
        return add_whole(w, above, name, path, st.st_mode, err);
    }
    /* Anything but a folder gives way to the one that the place needs. */
    return S_ISDIR(st.st_mode) ? add_folder(w, above, name, path, err) : 0;
}

static int add_folder(const struct walk *w, int above, const char *name, const char *path,
                      struct err *err) {
    int fd = openat(above, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d) {
        int e = errno;
        mem_auto_close(&fd);
        return err_sys(err, ERR_INPUT, e, "rootfs: cannot read '%s%s'", w->root, path);
    }
    int r = *path && !is_opened(path)
                ? local_line_add(w->line, (const char *const[]){"--dir", path, NULL})
                : 0;
    for (struct dirent *e; r == 0 && (e = readdir(d));) {
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0) {
            r = add_child(w, fd, e->d_name, path, err);
        }
    }
    closedir(d);
    return r;
}

int local_root_add(const struct local *l, const struct sandbox_spec *spec, struct local_line *line,
                   struct err *err) {
    size_t n = 0;
    AUTO_FREE const char **paths = calloc(ARRAY_LEN(own) + 1 + spec->n_mounts, sizeof *paths);
    if (!paths) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    for (size_t i = 0; i < ARRAY_LEN(own); i++) {
        paths[n++] = own[i];
    }
    paths[n++] = l->home;
    for (size_t i = 0; i < spec->n_mounts; i++) {
        paths[n++] = spec->mounts[i].path;
    }
    struct places places = {paths, n};
    struct walk w = {line, &places, l->image.dir};
    int r = local_line_add(line, (const char *const[]){"--dir", "/etc", "--dir", "/var", NULL});
    return r < 0 ? r : add_folder(&w, AT_FDCWD, l->image.dir, "", err);
}
