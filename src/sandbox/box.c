/* SPDX-License-Identifier: BSD-3-Clause */
#include "sandbox/box.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/rand.h"
#include "sandbox/box_scan.h"

#define IMAGE "home.ext4"
#define ID_BYTES 8 /* 64 random bits: unguessable, and short enough for a socket's path. */

static int fill_paths(const char *state, struct box *b, struct err *err) {
    char id[2 * ID_BYTES + 1];
    rand_hex(id, ID_BYTES);
    b->id = mem_strdup(id);
    b->dir = mem_printf("%s/sandboxes/%s", state, id);
    b->home = mem_printf("%s/sandboxes/%s/home", state, id);
    b->model = mem_printf("%s/sandboxes/%s/model", state, id);
    b->guest_socket = mem_printf("%s/sandboxes/%s/guest.sock", state, id);
    if (!b->id || !b->dir || !b->home || !b->model || !b->guest_socket) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    return 0;
}

static int make_folder(const char *path, mode_t mode, struct err *err) {
    if (mkdir(path, mode) < 0 || chmod(path, mode) < 0) {
        return err_sys(err, errno == ENOSPC ? ERR_FULL : ERR_SYS, errno,
                       "cannot make the folder '%s'", path);
    }
    return 0;
}

/* A sweep holds the gate alone while it looks round: it never sees a folder that has no lock yet.
 */
static int make_locked_dir(const char *state, struct box *b, struct err *err) {
    AUTO_CLOSE int gate = -1;
    int r = box_gate(state, LOCK_SH, &gate, err);
    if (r == 0) {
        r = make_folder(b->dir, 0711, err);
    }
    return r < 0 ? r : box_lock(b->dir, &b->lock_fd, err);
}

static int make_home(struct box *b, struct err *err) {
    int r = make_folder(b->home, 0700, err);
    if (r < 0 || b->user.lock_fd < 0) {
        return r;
    }
    if (chown(b->home, b->user.uid, b->user.uid) == 0) {
        return 0;
    }
    if (errno == EINVAL) {
        return err_set(
            err, ERR_ENVIRONMENT,
            "this container maps no host uid %u (start snaffle there as an ordinary user)",
            (unsigned)b->user.uid);
    }
    return err_sys(err, ERR_SYS, errno, "cannot give '%s' to its user", b->home);
}

static int write_record(struct box *b, struct err *err) {
    AUTO_BUF struct buf text = {0};
    AUTO_FREE char *path = file_join(b->dir, BOX_RECORD);
    if (!path || json_pretty(b->record, &text) < 0) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    return file_write(path, buf_sv(&text), 0600, err);
}

static int make_record(struct box *b, const struct sandbox_spec *spec, struct err *err) {
    int r = cgroup_name(b->id, &b->cgroup, err);
    if (r < 0) {
        return r;
    }
    b->record = json_pack("{s:s, s:s, s:s, s:s, s:f, s:I, s:o}", "id", b->id, "owner", spec->owner,
                          "run", spec->run, "rollout", spec->rollout, "created", clock_unix(),
                          "uid", (json_int_t)b->user.uid, "cgroups", cgroup_paths(&b->cgroup));
    return b->record ? write_record(b, err) : err_set(err, ERR_NOMEM, "out of memory");
}

static int make_disk(const char *state, const struct sandbox_spec *spec, struct box *b,
                     struct err *err) {
    AUTO_FREE char *image = file_join(b->dir, IMAGE);
    if (!image) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    disk_make(state, image, spec->limits.disk_mb, &b->disk);
    return 0;
}

int box_make(const char *state, const struct sandbox_spec *spec, struct box *out, struct err *err) {
    struct box b = BOX_NONE;
    int r = fill_paths(state, &b, err);
    if (r == 0) {
        r = make_locked_dir(state, &b, err);
    }
    if (r == 0) {
        r = state_uid_take(state, b.id, &b.user, err);
    }
    if (r == 0) {
        r = make_home(&b, err);
    }
    if (r == 0) {
        r = make_folder(b.model, 0711, err);
    }
    if (r == 0) {
        r = make_record(&b, spec, err);
    }
    if (r == 0) {
        r = make_disk(state, spec, &b, err);
    }
    if (r < 0) {
        (void)box_remove(&b, NULL); /* The first error is the one to tell. */
        box_deinit(&b);
        return r;
    }
    *out = b;
    return 0;
}

void box_drop_disk(struct box *b, const char *why) {
    AUTO_FREE char *image = file_join(b->dir, IMAGE);
    disk_deinit(&b->disk);
    snprintf(b->disk.why_not, sizeof b->disk.why_not, "%s", why);
    if (image) {
        unlink(image);
    }
}

int box_note_process(struct box *b, pid_t pid, struct err *err) {
    char boot[BOX_BOOT_MAX];
    unsigned long long start;
    if (box_boot_id(boot) < 0 || box_process_start(pid, &start) < 0) {
        return 0; /* Without /proc a sweep has the uid to go by. */
    }
    if (json_object_set_new(b->record, "pid", json_integer(pid)) < 0 ||
        json_object_set_new(b->record, "pid_start", json_integer((json_int_t)start)) < 0 ||
        json_object_set_new(b->record, "boot", json_string(boot)) < 0) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    return write_record(b, err);
}

int box_remove(struct box *b, struct err *err) {
    disk_deinit(&b->disk);
    int r = b->dir && b->lock_fd >= 0 ? file_remove_tree(b->dir, err) : 0;
    state_uid_release(&b->user, r == 0);
    return r;
}

void box_deinit(struct box *b) {
    state_uid_release(&b->user, false);
    mem_auto_close(&b->lock_fd);
    json_decref(b->record);
    cgroup_deinit(&b->cgroup);
    disk_deinit(&b->disk);
    free(b->id);
    free(b->dir);
    free(b->home);
    free(b->model);
    free(b->guest_socket);
    *b = BOX_NONE;
}
