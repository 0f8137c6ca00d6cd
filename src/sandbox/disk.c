/* SPDX-License-Identifier: BSD-3-Clause */
#include "sandbox/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/loop.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/rand.h"
#include "sandbox/cgroup.h"

#define MKFS_S 60        /* It takes a tenth of a second. */
#define IMAGE_MB_MIN 4   /* Below this a file system is nothing but its own tables. */
#define LOOP_TRIES 1000  /* Others take devices too, between our asking and taking. */
#define COPY_BYTES 65536 /* A piece of the template where the kernel can't copy. */

static void give_up(struct disk *d, const char *why) {
    snprintf(d->why_not, sizeof d->why_not, "%s", why);
}

static char *find_mkfs(void) {
    static const char *const places[] = {"/sbin/mkfs.ext4", "/usr/sbin/mkfs.ext4"};
    char *found = proc_find("mkfs.ext4"); /* A user's PATH, or sudo's, may lack /sbin. */
    for (size_t i = 0; !found && i < ARRAY_LEN(places); i++) {
        found = access(places[i], X_OK) == 0 ? mem_strdup(places[i]) : NULL;
    }
    return found;
}

static int run_mkfs(const char *path, struct disk *d) {
    AUTO_FREE char *mkfs = find_mkfs();
    if (!mkfs) {
        give_up(d, "there is no mkfs.ext4 (package e2fsprogs)");
        return -1;
    }
    /* No journal, since nobody uses it after a crash; tables that are empty take no room. */
    const char *argv[] = {mkfs,
                          "-q",
                          "-F",
                          "-b",
                          "4096",
                          "-m",
                          "0",
                          "-O",
                          "^has_journal,^resize_inode",
                          "-E",
                          "lazy_itable_init=1,nodiscard",
                          path,
                          NULL};
    struct proc_options options = {
        .argv = argv, .output_max = 4096, .deadline = deadline_in_s(MKFS_S)};
    struct proc_result result = {0};
    int r = proc_run(&options, &result, NULL);
    if (r < 0 || result.exit_code != 0) {
        give_up(d, "mkfs.ext4 makes no image of this size");
        r = -1;
    }
    proc_result_deinit(&result);
    return r;
}

/* An empty file system of that size, made once and kept, so it must be whole whatever happens. Two
 * that make it at once make the same. */
static char *template_of(const char *state, long mb, struct disk *d) {
    char suffix[2 * 8 + 1];
    rand_hex(suffix, 8);
    AUTO_FREE char *path = mem_printf("%s/images/home-%ld.ext4", state, mb);
    AUTO_FREE char *temp = mem_printf("%s/images/.%ld-%s", state, mb, suffix);
    if (!path || !temp) {
        give_up(d, "there was no memory");
        return NULL;
    }
    if (file_exists(path)) {
        return TAKE(path);
    }
    AUTO_CLOSE int fd = open(temp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, (off_t)mb << 20) < 0) {
        give_up(d, "no image can be written to the state folder");
    } else if (run_mkfs(temp, d) == 0 && fsync(fd) == 0 && rename(temp, path) == 0) {
        return TAKE(path);
    }
    unlink(temp);
    return NULL;
}

static int copy_piece(int from, int to, off_t at, size_t n) {
    static _Thread_local char bytes[COPY_BYTES];
    ssize_t got = pread(from, bytes, n < sizeof bytes ? n : sizeof bytes, at);
    return got > 0 && pwrite(to, bytes, (size_t)got, at) == got ? (int)got : -1;
}

/* Data alone, so that the copy has holes where the template has: a megabyte of two thousand. */
static int copy_sparse(int from, int to, off_t size) {
    if (ioctl(to, FICLONE, from) == 0) {
        return 0;
    }
    for (off_t at = 0; at < size;) {
        off_t data = lseek(from, at, SEEK_DATA);
        if (data < 0) {
            break; /* ENXIO: holes up to the end. */
        }
        off_t hole = lseek(from, data, SEEK_HOLE);
        if (hole < 0) {
            return -1;
        }
        for (at = data; at < hole;) {
            int n = copy_piece(from, to, at, (size_t)(hole - at));
            if (n < 0) {
                return -1;
            }
            at += n;
        }
    }
    return ftruncate(to, size);
}

static int copy_template(const char *state, const char *image, long mb, struct disk *d) {
    AUTO_FREE char *template = template_of(state, mb, d);
    if (!template) {
        return -1;
    }
    AUTO_CLOSE int from = open(template, O_RDONLY | O_CLOEXEC);
    AUTO_CLOSE int to = open(image, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (from < 0 || to < 0 || copy_sparse(from, to, (off_t)mb << 20) < 0) {
        give_up(d, "no image can be written to the state folder");
        return -1;
    }
    return TAKE_FD(to);
}

/* Takes the first free device. The kernel makes new ones as they are asked for. */
static int attach(int image_fd, struct disk *d) {
    AUTO_CLOSE int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
    for (int i = 0; control >= 0 && i < LOOP_TRIES; i++) {
        int number = ioctl(control, LOOP_CTL_GET_FREE);
        if (number < 0) {
            break;
        }
        snprintf(d->device, sizeof d->device, "/dev/loop%d", number);
        AUTO_CLOSE int fd = open(d->device, O_RDWR | O_CLOEXEC);
        struct loop_config config = {.fd = (unsigned)image_fd,
                                     .info = {.lo_flags = LO_FLAGS_AUTOCLEAR}};
        if (fd >= 0 && ioctl(fd, LOOP_CONFIGURE, &config) == 0) {
            return TAKE_FD(fd);
        }
        if (fd < 0 || errno != EBUSY) {
            break;
        }
    }
    give_up(d, control < 0 ? "there are no loop devices" : "no loop device can be set up");
    return -1;
}

void disk_make(const char *state, const char *image, long mb, struct disk *out) {
    *out = (struct disk){.loop_fd = -1};
    if (geteuid() != 0) {
        give_up(out, "only root can mount a disk image");
        return;
    }
    if (local_is_without("loop")) {
        give_up(out, "loop devices are left out here (SNAFFLE_LOCAL_WITHOUT)");
        return;
    }
    AUTO_CLOSE int fd = copy_template(state, image, mb < IMAGE_MB_MIN ? IMAGE_MB_MIN : mb, out);
    if (fd >= 0) {
        out->loop_fd = attach(fd, out);
    }
    if (out->loop_fd < 0) {
        unlink(image);
    }
}

void disk_deinit(struct disk *d) {
    if (d->loop_fd >= 0) {
        close(d->loop_fd);
    }
    d->loop_fd = -1;
}
