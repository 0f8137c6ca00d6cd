/* SPDX-License-Identifier: BSD-3-Clause */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sv.h"
#include "sandbox/image_impl.h"

/*
 * Removing what is unpacked. A sandbox holds its image's folder by a shared flock for as long as it
 * lives, so an exclusive one means that nobody has it; the folder's own time says when one had it
 * last. It is renamed under that lock: who waited for it finds another folder there, or none.
 */

#define DIGEST_CHARS 64
#define GOING ".going-" /* A folder that was being removed. */
#define TEMP_S 3600     /* A disk image's template is made in a second. */

static bool is_image(const char *name) {
    return strlen(name) == DIGEST_CHARS && strspn(name, "0123456789abcdef") == DIGEST_CHARS;
}

struct sweep {
    const char *images;
    const struct image_sweep *o;
    unsigned removed;
};

/* What a killed process left in the middle of something. */
static int sweep_rest(const struct sweep *s, const char *path, const char *name, struct err *err) {
    struct stat st;
    if (s->o->dry_run || strcmp(name, ".") == 0 || strcmp(name, "..") == 0 ||
        lstat(path, &st) < 0) {
        return 0;
    }
    if (strcmp(name, IMAGE_UNPACKING) == 0 || strncmp(name, GOING, strlen(GOING)) == 0) {
        return file_remove_tree(path, err);
    }
    if (name[0] == '.' && S_ISREG(st.st_mode) && st.st_mtime + TEMP_S < time(NULL)) {
        unlink(path);
    }
    return 0;
}

static int sweep_image(struct sweep *s, const char *path, const char *name, struct err *err) {
    struct stat st;
    AUTO_FREE char *going = mem_printf("%s/" GOING "%s", s->images, name);
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (!going) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    if (fd < 0 || fstat(fd, &st) < 0) {
        return err_sys(err, ERR_SYS, errno, "cannot look at '%s'", path);
    }
    if (difftime(time(NULL), st.st_mtime) < s->o->unused_s || flock(fd, LOCK_EX | LOCK_NB) < 0) {
        return 0;
    }
    s->removed++;
    if (s->o->dry_run) {
        return 0;
    }
    if (rename(path, going) < 0) {
        return err_sys(err, ERR_SYS, errno, "cannot rename '%s'", path);
    }
    mem_auto_close(&fd);
    fd = -1;
    return file_remove_tree(going, err);
}

static int sweep_all(struct sweep *s, struct err *err) {
    int first = 0;
    DIR *d = opendir(s->images);
    if (!d) {
        return err_sys(err, ERR_SYS, errno, "cannot list '%s'", s->images);
    }
    for (const struct dirent *e; (e = readdir(d));) {
        struct err one = {0};
        AUTO_FREE char *path = file_join(s->images, e->d_name);
        int r = !path                 ? err_set(&one, ERR_NOMEM, "out of memory")
                : is_image(e->d_name) ? sweep_image(s, path, e->d_name, &one)
                                      : sweep_rest(s, path, e->d_name, &one);
        if (r < 0 && first == 0) {
            first = err_set(err, r, "%s", one.msg);
        }
    }
    closedir(d);
    return first;
}

int image_sweep(const char *state, const struct image_sweep *o, unsigned *removed,
                struct err *err) {
    AUTO_FREE char *images = file_join(state, "images");
    AUTO_CLOSE int lock = -1;
    if (!images) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    if (!file_exists(images)) {
        return 0;
    }
    struct err busy = {0};
    int r = image_take_lock(images, deadline_in_ms(0), NULL, &lock, &busy);
    if (r == ERR_TIMEOUT) {
        log_warning("images are left alone: %s", busy.msg);
        return 0;
    }
    if (r < 0) {
        return err_set(err, r, "%s", busy.msg);
    }
    struct sweep s = {.images = images, .o = o};
    r = sweep_all(&s, err);
    *removed += s.removed;
    return r;
}
