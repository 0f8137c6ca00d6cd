/* SPDX-License-Identifier: BSD-3-Clause */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "sandbox/box.h"
#include "sandbox/box_scan.h"

#define RECORD_BYTES_MAX 65536 /* Three labels and a few numbers. */
#define BETWEEN_MS 10000       /* A sandbox begins anew, or goes, in that time. */
#define LOOK_MS 20

int box_gate(const char *state, int how, int *out_fd, struct err *err) {
    AUTO_FREE char *path = mem_printf("%s/sandboxes/.gate", state);
    if (!path) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    AUTO_CLOSE int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        return err_sys(err, ERR_SYS, errno, "cannot open '%s'", path);
    }
    while (flock(fd, how) < 0) {
        if (errno != EINTR) {
            return err_sys(err, ERR_SYS, errno, "cannot lock '%s'", path);
        }
    }
    *out_fd = TAKE_FD(fd);
    return 0;
}

int box_lock(const char *dir, int *out_fd, struct err *err) {
    struct stat st;
    AUTO_CLOSE int fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        return err_sys(err, errno == ENOENT ? ERR_NOT_FOUND : ERR_SYS, errno, "cannot open '%s'",
                       dir);
    }
    if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        return err_sys(err, errno == EWOULDBLOCK ? ERR_EXISTS : ERR_SYS, errno, "cannot lock '%s'",
                       dir);
    }
    if (fstat(fd, &st) < 0 || st.st_nlink == 0) { /* Removed while we looked. */
        return err_set(err, ERR_NOT_FOUND, "no sandbox '%s'", dir);
    }
    *out_fd = TAKE_FD(fd);
    return 0;
}

/* The box's record; an empty object when its owner died before it was written. */
static json_t *read_record(const char *dir) {
    json_t *record = NULL;
    AUTO_FREE char *path = file_join(dir, BOX_RECORD);
    if (!path || json_load(path, RECORD_BYTES_MAX, &record, NULL) < 0 || !json_is_object(record)) {
        json_decref(record);
        return json_object();
    }
    return record;
}

static bool is_of_run(const json_t *record, const char *run) {
    const char *its = json_string_value(json_object_get(record, "run"));
    return !run || (its && strcmp(its, run) == 0);
}

/* One box as a visitor sees it. `lock_fd` is -1 while a living owner has the lock. */
struct seen {
    const char *dir;
    const char *id;
    json_t *record;
    int lock_fd;
};

typedef int (*visit_fn)(void *arg, struct seen *box, struct err *err);

static int visit_one(const char *state, const char *id, const char *run, visit_fn visit, void *arg,
                     struct err *err) {
    AUTO_FREE char *dir = mem_printf("%s/sandboxes/%s", state, id);
    if (!dir) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    AUTO_JSON json_t *record = read_record(dir);
    if (!is_of_run(record, run)) {
        return 0;
    }
    struct seen box = {.dir = dir, .id = id, .record = record, .lock_fd = -1};
    int r = box_lock(dir, &box.lock_fd, err);
    if (r == ERR_NOT_FOUND) {
        return 0;
    }
    if (r < 0 && r != ERR_EXISTS) {
        return r;
    }
    r = visit(arg, &box, err);
    mem_auto_close(&box.lock_fd);
    return r;
}

/* Visits all boxes, in no order; the first error is told, after all were visited. */
static int visit_all(const char *state, const char *run, visit_fn visit, void *arg,
                     struct err *err) {
    AUTO_FREE char *path = file_join(state, "sandboxes");
    DIR *d = path ? opendir(path) : NULL;
    if (!d) {
        return err_sys(err, ERR_SYS, errno, "cannot list the sandboxes of '%s'", state);
    }
    int first = 0;
    for (struct dirent *e; (e = readdir(d));) {
        struct err one = {0};
        int r = e->d_name[0] == '.' ? 0 : visit_one(state, e->d_name, run, visit, arg, &one);
        if (r < 0 && first == 0) {
            first = err_set(err, r, "%s", one.msg);
        }
    }
    closedir(d);
    return first;
}

static int add_to_list(void *arg, struct seen *box, struct err *err) {
    json_t *entry = json_object();
    static const char *const fields[] = {"owner", "run", "rollout", "created"};
    int r = json_object_set_new(entry, "id", json_text(sv_from(box->id)));
    for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
        json_t *value = json_object_get(box->record, fields[i]);
        r |= json_object_set(entry, fields[i], value ? value : json_null());
    }
    r |= json_object_set_new(entry, "alive", json_boolean(box->lock_fd < 0));
    r |= json_array_append_new(arg, entry);
    return r < 0 ? err_set(err, ERR_NOMEM, "out of memory") : 0;
}

int box_list(const char *state, const char *run, json_t **out, struct err *err) {
    AUTO_CLOSE int gate = -1;
    AUTO_JSON json_t *list = json_array();
    int r = box_gate(state, LOCK_EX, &gate, err);
    if (r == 0) {
        r = visit_all(state, run, add_to_list, list, err);
    }
    if (r == 0) {
        *out = TAKE(list);
    }
    return r;
}

struct dead {
    struct dead *next;
    char *dir;
    json_t *record;
    int lock_fd;
};

static void dead_free(struct dead *d) {
    mem_auto_close(&d->lock_fd);
    json_decref(d->record);
    free(d->dir);
    free(d);
}

/* Takes the lock of a dead box over, so that it can be removed after the gate is open again. */
static int keep_if_dead(void *arg, struct seen *box, struct err *err) {
    struct dead **first = arg;
    if (box->lock_fd < 0) {
        return 0;
    }
    struct dead *d = calloc(1, sizeof *d);
    char *dir = mem_strdup(box->dir);
    if (!d || !dir) {
        free(d);
        free(dir);
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    *d = (struct dead){*first, dir, json_incref(box->record), TAKE_FD(box->lock_fd)};
    *first = d;
    return 0;
}

/* Borrows from both. */
static struct box_traces traces_of(const char *id, const json_t *record) {
    const char *boot = json_string_value(json_object_get(record, "boot"));
    json_int_t start = json_integer_value(json_object_get(record, "pid_start"));
    return (struct box_traces){
        .id = id,
        .uid = (uid_t)json_integer_value(json_object_get(record, "uid")),
        .pid = boot ? (pid_t)json_integer_value(json_object_get(record, "pid")) : 0,
        .pid_start = (unsigned long long)start,
        .boot = boot ? boot : "",
    };
}

static int remove_dead(const struct dead *d, struct err *err) {
    const char *slash = strrchr(d->dir, '/');
    struct box_traces t = traces_of(slash ? slash + 1 : d->dir, d->record);
    int r = box_end_processes(&t, err);
    const json_t *cgroups = json_object_get(d->record, "cgroups");
    for (size_t i = 0; r == 0 && i < json_array_size(cgroups); i++) {
        const char *path = json_string_value(json_array_get(cgroups, i));
        r = path ? cgroup_remove_path(path, err) : 0;
    }
    return r < 0 ? r : file_remove_tree(d->dir, err);
}

int box_sweep(const char *state, const char *run, bool dry_run, unsigned *removed,
              struct err *err) {
    struct dead *first = NULL;
    int gate = -1;
    int result = box_gate(state, LOCK_EX, &gate, err);
    if (result == 0) {
        result = visit_all(state, run, keep_if_dead, &first, err);
    }
    mem_auto_close(&gate);
    while (first) {
        struct dead *d = first;
        struct err one = {0};
        int r = dry_run ? 0 : remove_dead(d, &one);
        *removed += r == 0;
        if (r < 0 && result == 0) {
            result = err_set(err, r, "%s", one.msg);
        }
        first = d->next;
        dead_free(d);
    }
    if (!dry_run) {
        cgroup_sweep();
    }
    return result;
}

int box_guest_socket(const char *state, const char *id, char **out, struct err *err) {
    AUTO_FREE char *dir = mem_printf("%s/sandboxes/%s", state, id);
    AUTO_FREE char *path = mem_printf("%s/sandboxes/%s/guest.sock", state, id);
    if (!dir || !path) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    if (!file_exists(dir)) {
        return err_set(err, ERR_NOT_FOUND, "no sandbox '%s'", id);
    }
    *out = TAKE(path);
    return 0;
}

struct one {
    struct dead *dead; /* Its lock, if its owner is dead. */
    json_t *record;    /* NULL: there is no such box. */
};

static int look_at_one(void *arg, struct seen *box, struct err *err) {
    struct one *one = arg;
    one->record = json_incref(box->record);
    return keep_if_dead(&one->dead, box, err);
}

/* 1: its processes were ended; 0: it has none now. */
static int end_one(const char *state, const char *id, bool *was_alive, struct err *err) {
    struct one one = {0};
    int gate = -1;
    int r = box_gate(state, LOCK_EX, &gate, err);
    r = r < 0 ? r : visit_one(state, id, NULL, look_at_one, &one, err);
    mem_auto_close(&gate);
    if (r == 0 && !one.record) {
        r = err_set(err, ERR_NOT_FOUND, "no sandbox '%s'", id);
    }
    *was_alive = !one.dead;
    if (r == 0 && one.dead) {
        r = remove_dead(one.dead, err);
        r = r < 0 ? r : 1;
    } else if (r == 0) {
        struct box_traces t = traces_of(id, one.record);
        r = box_end_noted(&t, err);
    }
    if (one.dead) {
        dead_free(one.dead);
    }
    json_decref(one.record);
    return r;
}

int box_end(const char *state, const char *id, bool *was_alive, struct err *err) {
    deadline_ms until = deadline_in_ms(BETWEEN_MS);
    for (;;) {
        int r = end_one(state, id, was_alive, err);
        if (r != 0) {
            return r < 0 ? r : 0;
        }
        if (deadline_passed(until)) {
            return err_set(err, ERR_STATE,
                           "the sandbox '%s' has no process to be ended (is its owner just making "
                           "or removing it?)",
                           id);
        }
        clock_sleep_ms(LOOK_MS);
    }
}
