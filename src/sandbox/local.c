/* SPDX-License-Identifier: BSD-3-Clause */
#include "sandbox/local.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"

/*
 * The local backend: bubblewrap over a box on disk, the guest as the first process inside, and all
 * that happens inside asked of the guest. This file is the contract's operations; how a life starts
 * and ends is local_start.c.
 */

struct local_job {
    struct sandbox_job base;
    uint32_t number;
    unsigned life;
};

static struct local *self(const struct sandbox *s) {
    return (struct local *)(uintptr_t)s;
}

/* After sandbox_kill nothing answers any more, whatever else may be wrong. */
static int check_up(const struct local *l, struct err *err) {
    if (cancel_thrown(l->torn_down)) {
        return err_set(err, ERR_LOST, "sandbox '%s' was torn down", l->base.id);
    }
    return 0;
}

static int connect_guest(void *arg, int *out_fd, struct err *err) {
    struct local *l = arg;
    int r = check_up(l, err);
    if (r == 0 && fd_connect_unix(l->box.guest_socket, out_fd, err) < 0) {
        r = err_set(err, ERR_LOST, "sandbox '%s' has ended", l->base.id);
    }
    return r;
}

static int local_restart(struct sandbox *s, const struct sandbox_spec *spec, deadline_ms until,
                         const struct cancel *cancel, struct err *err) {
    struct local *l = self(s);
    pthread_mutex_lock(&l->lifecycle);
    int r = check_up(l, err);
    if (r == 0) {
        local_limits_ask(l);
        r = local_end(l, err);
    }
    if (r == 0) {
        r = local_start(l, spec, until, cancel, err);
    }
    pthread_mutex_unlock(&l->lifecycle);
    return r;
}

static int local_exec(struct sandbox *s, const struct sandbox_exec *what,
                      struct sandbox_output *out, struct err *err) {
    return guest_exec(&self(s)->guest, what, out, err);
}

static int local_begin(struct sandbox *s, const struct sandbox_exec *what, struct sandbox_job **out,
                       struct err *err) {
    struct local *l = self(s);
    struct local_job *job = calloc(1, sizeof *job);
    if (!job) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    job->base.sandbox = s;
    job->life = atomic_load(&l->lives);
    int r = guest_start(&l->guest, what, &job->number, err);
    if (r < 0) {
        free(job);
        return r;
    }
    *out = &job->base;
    return 0;
}

/* A job's number means another job, or none, to the guest of a later life. */
static int check_job(const struct local_job *job, struct err *err) {
    struct local *l = self(job->base.sandbox);
    int r = check_up(l, err);
    if (r == 0 && job->life != atomic_load(&l->lives)) {
        r = err_set(err, ERR_LOST, "the job ended when sandbox '%s' was restarted", l->base.id);
    }
    return r;
}

static int local_job_wait(struct sandbox_job *base, deadline_ms until, const struct cancel *cancel,
                          int *exit_code, struct err *err) {
    struct local_job *job = (struct local_job *)base;
    int r = check_job(job, err);
    if (r == 0) {
        r = guest_wait(&self(base->sandbox)->guest, job->number, until, cancel, exit_code, err);
    }
    return r < 0 ? r : check_job(job, err);
}

static int local_job_kill(struct sandbox_job *base, struct err *err) {
    struct local_job *job = (struct local_job *)base;
    int r = check_job(job, err);
    return r < 0 ? r : guest_kill(&self(base->sandbox)->guest, job->number, err);
}

static void local_job_free(struct sandbox_job *base) {
    free(base);
}

static int local_kill_all(struct sandbox *s, deadline_ms until, struct err *err) {
    return guest_kill_all(&self(s)->guest, until, err);
}

static int local_write_file(struct sandbox *s, const char *path, struct sv content, unsigned mode,
                            struct err *err) {
    return guest_write_file(&self(s)->guest, path, content, mode, err);
}

static int local_read_file(struct sandbox *s, const char *path, uint64_t offset, size_t length,
                           struct buf *out, struct err *err) {
    return guest_read_file(&self(s)->guest, path, offset, length, out, err);
}

static int local_exists(struct sandbox *s, const char *path, struct err *err) {
    return guest_exists(&self(s)->guest, path, err);
}

static const char *local_model_socket(const struct sandbox *s) {
    return self(s)->model_socket;
}

static int local_hits(struct sandbox *s, json_t **out, struct err *err) {
    struct local *l = self(s);
    pthread_mutex_lock(&l->lifecycle);
    int r = check_up(l, err);
    if (r == 0) {
        local_limits_ask(l);
    }
    pthread_mutex_unlock(&l->lifecycle);
    if (r == 0) {
        *out = local_limits_hit(l);
        r = *out ? 0 : err_set(err, ERR_NOMEM, "out of memory");
    }
    return r;
}

static const json_t *local_image_env(const struct sandbox *s) {
    return self(s)->image.env;
}

/* The switch first, without a lock: a call or a start that is under way lets go. */
static int local_kill(struct sandbox *s, struct err *err) {
    struct local *l = self(s);
    cancel_throw(l->torn_down);
    local_beat_leave(l);
    pthread_mutex_lock(&l->lifecycle);
    int r = local_end(l, err);
    if (r == 0 && !l->removed) {
        r = box_remove(&l->box, err);
        l->removed = r == 0;
    }
    pthread_mutex_unlock(&l->lifecycle);
    return r;
}

static void local_dispose(struct local *l) {
    box_deinit(&l->box);
    cancel_free(l->torn_down);
    pthread_mutex_destroy(&l->lifecycle);
    free(l->state);
    free(l->guest_program);
    free(l->home);
    free(l->model_socket);
    image_deinit(&l->image);
    free(l);
}

static void local_free(struct sandbox *s) {
    (void)local_kill(s, NULL); /* What could not be removed, a sweep removes. */
    local_dispose(self(s));
}

static const struct sandbox_ops ops = {
    .restart = local_restart,
    .exec = local_exec,
    .start = local_begin,
    .job_wait = local_job_wait,
    .job_kill = local_job_kill,
    .job_free = local_job_free,
    .kill_all = local_kill_all,
    .write_file = local_write_file,
    .read_file = local_read_file,
    .exists = local_exists,
    .model_socket = local_model_socket,
    .isolation = local_isolation,
    .limits_hit = local_hits,
    .image_env = local_image_env,
    .kill = local_kill,
    .free = local_free,
};

static struct local *local_new(const struct sandbox_spec *spec) {
    struct local *l = calloc(1, sizeof *l);
    if (!l) {
        return NULL;
    }
    pthread_mutex_init(&l->lifecycle, NULL);
    l->life.pidfd = -1;
    l->box = BOX_NONE;
    l->base.ops = &ops;
    l->home = mem_strdup(spec->home ? spec->home : LOCAL_HOME_DEFAULT);
    if (!l->home || cancel_new(&l->torn_down, NULL) < 0) {
        local_dispose(l);
        return NULL;
    }
    l->base.home = l->home;
    l->guest = (struct guest_client){connect_guest, l, l->torn_down};
    return l;
}

static int ready_image(struct local *l, const struct sandbox_spec *spec, deadline_ms until,
                       const struct cancel *cancel, struct err *err) {
    if (!spec->rootfs) {
        return 0;
    }
    int r = image_look(l->state, spec->rootfs, local_likely_uid(), &l->image, err);
    return r < 0 ? r : image_make_ready(l->state, &l->image, until, cancel, err);
}

static int furnish(struct local *l, const struct sandbox_spec *spec, deadline_ms until,
                   const struct cancel *cancel, struct err *err) {
    int r = state_dir(&l->state, err);
    if (r == 0) {
        r = ready_image(l, spec, until, cancel, err);
    }
    if (r == 0) {
        r = state_guest(l->state, &l->guest_program, err);
    }
    if (r == 0) {
        struct sandbox_spec whole = *spec;
        whole.limits = local_limits(&spec->limits);
        r = box_make(l->state, &whole, &l->box, err);
    }
    if (r < 0) {
        return r;
    }
    l->base.id = l->box.id;
    l->model_socket = mem_printf("%s/" LOCAL_MODEL_SOCKET, l->box.model);
    return l->model_socket ? 0 : err_set(err, ERR_NOMEM, "out of memory");
}

/* A disk that can't be mounted here (ERR_UNSUPPORTED, and it was not) is done without. */
static int start_first(struct local *l, const struct sandbox_spec *spec, deadline_ms until,
                       const struct cancel *cancel, struct err *err) {
    struct err first = {0};
    int r = local_start(l, spec, until, cancel, &first);
    if (r == ERR_UNSUPPORTED && l->box.disk.loop_fd >= 0 && !l->box.disk.is_used) {
        box_drop_disk(&l->box, "the disk image can't be mounted");
        return local_start(l, spec, until, cancel, err);
    }
    return r < 0 ? err_set(err, r, "%s", first.msg) : r;
}

static int local_create(const struct sandbox_spec *spec, deadline_ms until,
                        const struct cancel *cancel, struct sandbox **out, struct err *err) {
    struct local *l = local_new(spec);
    if (!l) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    int r = furnish(l, spec, until, cancel, err);
    if (r == 0) {
        pthread_mutex_lock(&l->lifecycle);
        r = start_first(l, spec, until, cancel, err);
        pthread_mutex_unlock(&l->lifecycle);
    }
    if (r == 0) {
        r = local_beat_join(l, err);
    }
    if (r < 0) {
        local_free(&l->base);
        return r;
    }
    *out = &l->base;
    return 0;
}

/* Before anything is made: what the specification names must be there. */
static int local_check_create(const struct sandbox_spec *spec, struct err *err) {
    AUTO_FREE char *state = NULL;
    struct image image = {0};
    int r = local_check_spec(spec, spec->home ? spec->home : LOCAL_HOME_DEFAULT, local_likely_uid(),
                             err);
    if (r < 0 || !spec->rootfs) {
        return r;
    }
    r = state_dir(&state, err);
    r = r < 0 ? r : image_look(state, spec->rootfs, local_likely_uid(), &image, err);
    image_deinit(&image);
    return r;
}

static int take_scope(const struct sandbox_scope *scope, const char **run, struct err *err) {
    struct sandbox_machine machine = {.namespace = scope ? scope->namespace : NULL};
    *run = scope ? scope->run : NULL;
    return sandbox_machine_check_none(&machine, "local", err);
}

static int local_list(const struct sandbox_scope *scope, json_t **out, struct err *err) {
    AUTO_FREE char *state = NULL;
    const char *run = NULL;
    int r = take_scope(scope, &run, err);
    r = r < 0 ? r : state_dir(&state, err);
    return r < 0 ? r : box_list(state, run, out, err);
}

static int local_sweep(const struct sandbox_scope *scope, bool dry_run, unsigned *removed,
                       struct err *err) {
    AUTO_FREE char *state = NULL;
    const char *run = NULL;
    int r = take_scope(scope, &run, err);
    r = r < 0 ? r : state_dir(&state, err);
    return r < 0 ? r : box_sweep(state, run, dry_run, removed, err);
}

static int local_sweep_images(double unused_s, bool dry_run, unsigned *removed, struct err *err) {
    AUTO_FREE char *state = NULL;
    struct image_sweep o = {.unused_s = unused_s, .dry_run = dry_run};
    int r = state_dir(&state, err);
    return r < 0 ? r : image_sweep(state, &o, removed, err);
}

const struct sandbox_backend sandbox_local = {
    .name = "local",
    .home = LOCAL_HOME_DEFAULT,
    .has_model_socket = true,
    .check = local_check,
    .check_create = local_check_create,
    .create = local_create,
    .list = local_list,
    .sweep = local_sweep,
    .sweep_images = local_sweep_images,
    .exec_in = local_exec_in,
    .kill_in = local_kill_in,
};
