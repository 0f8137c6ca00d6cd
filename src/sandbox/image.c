/* SPDX-License-Identifier: BSD-3-Clause */
#include "sandbox/image.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "sandbox/image_impl.h"
#include "sandbox/state.h"

#define LOCK_LOOK_MS                                                                               \
    50 /* Another process unpacks for seconds: to look this often costs nothing.                   \
        */

static int no_memory(struct err *err) {
    return err_set(err, ERR_NOMEM, "out of memory");
}

/* Whether every user may pass: told in the words of the rootfs. */
static int check_passable(const char *dir, uid_t uid, struct err *err) {
    AUTO_FREE char *inside = file_join(dir, "bin");
    struct err why = {0};
    int r = inside ? state_check_passable(inside, uid, &why) : ERR_NOMEM;
    if (r == ERR_NOMEM) {
        return no_memory(err);
    }
    return r < 0
               ? err_set(err, r,
                         "the sandbox's user can't come to the rootfs '%s': run `chmod o+x` on it "
                         "and on the folders above it, or put it elsewhere",
                         dir)
               : 0;
}

static int look_at_folder(const char *real, uid_t uid, struct image *out, struct err *err) {
    out->dir = mem_strdup(real);
    out->name = mem_strdup(real);
    if (!out->dir || !out->name) {
        return no_memory(err);
    }
    if (strcmp(real, "/") == 0) {
        return err_set(err, ERR_INPUT, "rootfs: '/' is the host's own system (leave rootfs out)");
    }
    return check_passable(real, uid, err);
}

static int look_at_layout(const char *state, const char *real, struct image *out, struct err *err) {
    int r = image_read_layout(real, out, err);
    if (r < 0) {
        return r;
    }
    out->layout = mem_strdup(real);
    out->dir = mem_printf("%s/images/%s", state, strchr(out->name, ':') + 1);
    return out->layout && out->dir ? 0 : no_memory(err);
}

static int check_bash(const char *dir, const char *name, struct err *err) {
    struct stat st;
    AUTO_CLOSE int root = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0) {
        return err_sys(err, ERR_INPUT, errno, "rootfs: cannot open '%s'", dir);
    }
    AUTO_CLOSE int bash = -1;
    int r = image_root_open(root, "bin/bash", &bash, err);
    if (r == ERR_NOT_FOUND || (r == 0 && (fstat(bash, &st) < 0 || !S_ISREG(st.st_mode)))) {
        return err_set(err, ERR_INPUT, "the rootfs '%s' has no /bin/bash (commands run by it)",
                       name);
    }
    return r;
}

int image_look(const char *state, const char *path, uid_t uid, struct image *out, struct err *err) {
    struct image image = {0};
    struct stat st;
    AUTO_FREE char *real = realpath(path, NULL);
    if (!real || stat(real, &st) < 0) {
        return err_sys(err, ERR_INPUT, errno, "rootfs: cannot use '%s'", path);
    }
    if (!S_ISDIR(st.st_mode)) {
        return err_set(err, ERR_INPUT,
                       "rootfs: '%s' is no folder (want a root folder or an OCI image layout)",
                       path);
    }
    bool layout = image_is_layout(real);
    int r =
        layout ? look_at_layout(state, real, &image, err) : look_at_folder(real, uid, &image, err);
    r = r < 0 || layout ? r : check_bash(image.dir, image.name, err);
    if (r < 0) {
        image_deinit(&image);
        return r;
    }
    *out = image;
    return 0;
}

/* Waits its turn; the lock goes when the descriptor is closed. */
int image_take_lock(const char *images, deadline_ms until, const struct cancel *cancel, int *out_fd,
                    struct err *err) {
    AUTO_FREE char *path = file_join(images, "lock");
    AUTO_CLOSE int fd = path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (fd < 0) {
        return err_sys(err, ERR_SYS, errno, "cannot open '%s/lock'", images);
    }
    while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        if (errno != EWOULDBLOCK && errno != EINTR) {
            return err_sys(err, ERR_SYS, errno, "cannot lock '%s'", path);
        }
        if (deadline_passed(until)) {
            return err_set(err, ERR_TIMEOUT, "another process is still unpacking an image");
        }
        int r = cancel_sleep(cancel, deadline_min(until, deadline_in_ms(LOCK_LOOK_MS)), err);
        if (r < 0) {
            return r;
        }
    }
    *out_fd = TAKE_FD(fd);
    return 0;
}

static int apply_layers(const struct image *image, int root, deadline_ms until,
                        const struct cancel *cancel, struct err *err) {
    struct image_count count = {0};
    size_t i;
    json_t *digest;
    json_array_foreach(image->layers, i, digest) {
        AUTO_FREE char *blob = NULL;
        struct image_layer layer = {
            .digest = json_string_value(digest), .until = until, .cancel = cancel};
        int r = image_blob_path(image->layout, layer.digest, &blob, err);
        layer.path = blob;
        r = r < 0 ? r : image_layer_apply(root, &layer, &count, err);
        if (r < 0) {
            return r;
        }
    }
    return 0;
}

/* Into a folder beside it, which then takes the name. */
static int unpack(const char *images, const struct image *image, deadline_ms until,
                  const struct cancel *cancel, struct err *err) {
    AUTO_FREE char *fresh = file_join(images, IMAGE_UNPACKING);
    if (!fresh) {
        return no_memory(err);
    }
    int r = file_remove_tree(fresh, err); /* What a killed process left. */
    if (r < 0) {
        return r;
    }
    if (mkdir(fresh, 0755) < 0 || chmod(fresh, 0755) < 0) {
        return err_sys(err, ERR_SYS, errno, "cannot make '%s'", fresh);
    }
    AUTO_CLOSE int root = open(fresh, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (root < 0) {
        return err_sys(err, ERR_SYS, errno, "cannot open '%s'", fresh);
    }
    r = apply_layers(image, root, until, cancel, err);
    r = r < 0 ? r : check_bash(fresh, image->name, err);
    if (r == 0 && rename(fresh, image->dir) < 0) {
        r = err_sys(err, ERR_SYS, errno, "cannot put '%s' in its place", image->dir);
    }
    if (r < 0) {
        (void)(file_remove_tree(fresh, NULL) < 0); /* The first error is the one to tell. */
    }
    return r;
}

/* Whether it was there; if so, a sweep leaves it. The folder's time is that of its last use. */
static int hold(struct image *image, bool *there, struct err *err) {
    struct stat own;
    struct stat now;
    AUTO_CLOSE int fd = open(image->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    *there = false;
    if (fd < 0) {
        return errno == ENOENT
                   ? 0
                   : err_sys(err, ERR_SYS, errno, "cannot open the image '%s'", image->dir);
    }
    while (flock(fd, LOCK_SH) < 0) {
        if (errno != EINTR) {
            return err_sys(err, ERR_SYS, errno, "cannot lock the image '%s'", image->dir);
        }
    }
    if (fstat(fd, &own) < 0 || stat(image->dir, &now) < 0 || own.st_ino != now.st_ino ||
        own.st_dev != now.st_dev) {
        return 0; /* Swept in between. */
    }
    (void)futimens(fd, NULL);
    image->hold = TAKE_FD(fd);
    image->is_held = *there = true;
    return 0;
}

static void let_go(struct image *image) {
    if (image->is_held) {
        (void)futimens(image->hold, NULL);
        close(image->hold);
        image->is_held = false;
    }
}

int image_make_ready(const char *state, struct image *image, deadline_ms until,
                     const struct cancel *cancel, struct err *err) {
    bool there = false;
    int r = image->layers ? hold(image, &there, err) : 0;
    if (r < 0 || there || !image->layers) {
        return r;
    }
    AUTO_FREE char *images = file_join(state, "images");
    AUTO_CLOSE int lock = -1;
    if (!images) {
        return no_memory(err);
    }
    if ((mkdir(images, 0711) == 0 ? chmod(images, 0711) : -(errno != EEXIST)) < 0) {
        return err_sys(err, ERR_SYS, errno, "cannot make '%s'", images);
    }
    r = image_take_lock(images, until, cancel, &lock, err);
    if (r == 0 && !file_exists(image->dir)) {
        r = unpack(images, image, until, cancel, err);
    }
    r = r < 0 ? r : hold(image, &there, err); /* No sweep is on, with the lock here. */
    return r < 0 || there ? r : err_set(err, ERR_STATE, "the image '%s' was removed", image->dir);
}

void image_deinit(struct image *image) {
    let_go(image);
    free(image->dir);
    free(image->name);
    free(image->layout);
    json_decref(image->env);
    json_decref(image->layers);
    *image = (struct image){0};
}
