/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_SANDBOX_SANDBOX_H
#define SNAFFLE_SANDBOX_SANDBOX_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/cancel.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/sv.h"

/*
 * The contract of a sandbox: an isolated machine of some backend. All calls block, with a deadline
 * and a cancel switch. A sandbox may be made in one thread and used in others; calls on one sandbox
 * may run side by side (sandbox_kill ends all others). Paths are paths inside, absolute or relative
 * to its home, and are opened inside only: no host code opens a path under a sandbox's home.
 *
 *     struct sandbox *s = NULL;
 *     r = sandbox_create(backend, &spec, deadline_in_s(120), cancel, &s, err);
 *     r = sandbox_exec(s, &(struct sandbox_exec){.shell = "make test", .timeout_s = 120}, &out,
 * err); sandbox_kill(s, err); sandbox_free(s);
 */

struct sandbox;

enum sandbox_network {
    SANDBOX_NETWORK_NONE,  /* Loopback only, and nothing listens at the model's port. */
    SANDBOX_NETWORK_MODEL, /* Loopback only; 127.0.0.1:SANDBOX_MODEL_PORT is the model. */
    SANDBOX_NETWORK_FULL,  /* The outside, never the host's own loopback; and the model. */
};

#define SANDBOX_MODEL_PORT 7000 /* The reference proxy's port: its users' scripts know it. */

#define SANDBOX_INPUT_MAX (4u << 20) /* A started command's: held inside until it is read. */

/* 0 stands for the backend's default: local 2,048 MB, 512 processes, 2,048 MB. */
struct sandbox_limits {
    long memory_mb;
    long processes;
    long disk_mb;
};

/* A file or folder of the host seen read-only inside, under a path of its own. */
struct sandbox_mount {
    const char *host_path;
    const char *path;
};

/* What is asked of a provider of machines elsewhere; zero: the backend's own. A backend refuses
 * what it does not take. All borrowed. */
struct sandbox_machine {
    const char *image;     /* As for docker pull, or a Space's address. */
    const char *flavor;    /* The provider's word for its size. */
    const char *namespace; /* Whose account it runs under; NULL: the token's owner. */
    const char *user;      /* Of commands: "root" or "agent", who has no way back to root. */
    const json_t *env;     /* {NAME: value} of all that runs inside; the provider shows it. */
    const json_t *secrets; /* The same, not shown. */
    const json_t *volumes; /* [{type, source, mount_path ...}] or their texts. */
    double start_s;        /* For the machine to come up. */
    bool forward_token;    /* The provider's token is a secret inside. */
};

struct sandbox_spec {
    const char *owner; /* Labels; each [a-z0-9][a-z0-9-]{0,62}. */
    const char *run;
    const char *rollout;
    double lifetime_s; /* The provider ends it after this, whatever happens to us. */
    const char *home;  /* NULL: the backend's. */
    enum sandbox_network network;
    struct sandbox_limits limits;
    const struct sandbox_mount *mounts;
    size_t n_mounts;
    const char *rootfs; /* The system inside, in place of the host's: a root folder or an OCI image
                           layout. A restart keeps what create was given. NULL: the host's. */
    struct sandbox_machine machine;
    bool strict; /* Refuse (ERR_UNSUPPORTED) what can't be enforced, in place of reporting it. */
};

struct sandbox_exec {
    const char *shell;       /* Text for `bash -lc` (with `clean`: `bash --noprofile --norc -c`). */
    const char *const *argv; /* Or a command as it is, NULL-ended. */
    const char *const *env;  /* NULL-ended NAME=value, on top of the sandbox's own or, if clean, of
                                nothing but PATH (read-only system folders), LANG and HOME. */
    bool clean;              /* Environment from nothing, no profile, HOME an empty folder. */
    const char *cwd;         /* NULL: the home. */
    struct sv input;         /* stdin; empty: /dev/null. start: at most SANDBOX_INPUT_MAX. */
    double timeout_s;        /* 0: 60. */
    size_t output_max;       /* Bytes kept of each stream's tail; 0: 1 MiB. */
    const char *stdout_path; /* start only: where output is appended; NULL: /dev/null. */
    const char *stderr_path; /* start only: may be the same file. */
    const struct cancel *cancel;
    /* exec only: told of output as it comes, with 1 or 2 for the stream; it is kept all the same.
     */
    void (*tell)(void *arg, int stream, struct sv bytes);
    void *tell_arg;
};

/* Bytes, never NULL through buf_cstr. Release with sandbox_output_deinit. */
struct sandbox_output {
    int exit_code;  /* 128 + signal; 124 when timed out. */
    bool timed_out; /* It was killed with its children; the last line of `err` says so. */
    bool truncated;
    struct buf out;
    struct buf err;
    uint64_t out_total; /* Bytes that the command wrote, kept or not. */
    uint64_t err_total;
};

void sandbox_output_deinit(struct sandbox_output *o);

/* Whose sandboxes are meant; zero: all. */
struct sandbox_scope {
    const char *run;
    const char *namespace; /* As in struct sandbox_machine. */
};

/* What a backend is. `check` says whether it works on this machine: ERR_ENVIRONMENT with remedy. */
struct sandbox_backend {
    const char *name;
    const char *home;      /* Where it is unless a specification says otherwise. */
    bool has_model_socket; /* Its sandboxes' model port is a unix socket of this machine. */
    int (*check)(struct err *err);
    /* Whether nothing of what ran before a restart can act on what runs after it, but by the home.
     * NULL: nothing can. */
    bool (*restart_is_clean)(const struct sandbox_machine *m);
    /* What can be said of a specification before anything is made; NULL: nothing. */
    int (*check_create)(const struct sandbox_spec *spec, struct err *err);
    int (*create)(const struct sandbox_spec *spec, deadline_ms until, const struct cancel *cancel,
                  struct sandbox **out, struct err *err);
    /* Gives an array of {id, owner, run, rollout, created, alive}; a NULL scope is all. */
    int (*list)(const struct sandbox_scope *scope, json_t **out, struct err *err);
    /* Removes what dead owners left, nothing of a live one; adds to *removed. */
    int (*sweep)(const struct sandbox_scope *scope, bool dry_run, unsigned *removed,
                 struct err *err);
    /* Removes what is kept for the next sandboxes and no sandbox has had for so long; NULL: nothing
     * is. Adds to *removed. */
    int (*sweep_images)(double unused_s, bool dry_run, unsigned *removed, struct err *err);
    /* By the id that `list` has, whoever's the sandbox is; behind sandbox_exec_in and _kill_in. */
    int (*exec_in)(const char *id, const struct sandbox_exec *what, struct sandbox_output *out,
                   struct err *err);
    int (*kill_in)(const char *id, bool *was_alive, struct err *err);
};

extern const struct sandbox_backend sandbox_local;
extern const struct sandbox_backend sandbox_hf;

/* By name ("local"); NULL when there is none such. sandbox_backend_names is for messages. */
const struct sandbox_backend *sandbox_backend_find(const char *name);
extern const char *const sandbox_backend_names[]; /* NULL-ended. */

/* Finds a sandbox of any process by its id, by the beginning of one, or as <rollout> or
 * <run>/<rollout> (then one that is alive). Gives an entry of `list`. ERR_NOT_FOUND; ERR_INPUT when
 * more than one fits. The caller owns it. */
int sandbox_find(const struct sandbox_backend *backend, const struct sandbox_scope *scope,
                 const char *name, json_t **out, struct err *err) CHECK_RESULT;

/* Runs a command beside what runs there, as the agent's user and within its limits. It ends with
 * everything else when its owner stops the agent. ERR_LOST: nothing is alive there. */
int sandbox_exec_in(const struct sandbox_backend *backend, const char *id,
                    const struct sandbox_exec *what, struct sandbox_output *out,
                    struct err *err) CHECK_RESULT;

/* Ends every process of a sandbox, seen dead. What a dead owner's has on disk goes too; a living
 * owner finds its sandbox lost, and removes the rest. */
int sandbox_kill_in(const struct sandbox_backend *backend, const char *id, bool *was_alive,
                    struct err *err) CHECK_RESULT;

/* The home folder is there, owned by the agent's user, and commands can run. Nothing is left
 * behind on failure or cancel. */
int sandbox_create(const struct sandbox_backend *backend, const struct sandbox_spec *spec,
                   deadline_ms until, const struct cancel *cancel, struct sandbox **out,
                   struct err *err) CHECK_RESULT;

const char *sandbox_id(const struct sandbox *s);
const char *sandbox_home(const struct sandbox *s);

/* Ends every process inside, seen dead, and begins anew over the same home with another network and
 * other mounts: /tmp is fresh, nothing but the home is carried over. The agent's phase follows the
 * setup's, and the verifier's the agent's, by this call. */
int sandbox_restart(struct sandbox *s, const struct sandbox_spec *spec, deadline_ms until,
                    const struct cancel *cancel, struct err *err) CHECK_RESULT;

/* Replaces the home of `to` by what `from`'s holds: files, folders and links. Neither may run
 * anything. Only backends that tell of restart_is_clean can. ERR_LIMIT: more than 1 GB. */
int sandbox_carry_home(struct sandbox *from, struct sandbox *to, deadline_ms until,
                       const struct cancel *cancel, struct err *err) CHECK_RESULT;

/* Runs a command to its end. A non-zero exit and a time-out are results. */
int sandbox_exec(struct sandbox *s, const struct sandbox_exec *what, struct sandbox_output *out,
                 struct err *err) CHECK_RESULT;

/* Starts a command that goes on by itself. Gives a job; sandbox_job_free forgets it, no more. */
struct sandbox_job;
int sandbox_start(struct sandbox *s, const struct sandbox_exec *what, struct sandbox_job **out,
                  struct err *err) CHECK_RESULT;

/* Waits for the job's own end: *exit_code is 128 + signal when killed. ERR_TIMEOUT at the deadline
 * (the job goes on), ERR_CANCELLED, ERR_LOST when the sandbox was torn down under it. */
int sandbox_job_wait(struct sandbox_job *job, deadline_ms until, const struct cancel *cancel,
                     int *exit_code, struct err *err) CHECK_RESULT;
int sandbox_job_kill(struct sandbox_job *job, struct err *err) CHECK_RESULT;
void sandbox_job_free(struct sandbox_job *job);

/* Ends every process that exec and start began, with all their children, and sees them dead. */
int sandbox_kill_all(struct sandbox *s, deadline_ms until, struct err *err) CHECK_RESULT;

/* Whole or not at all; parents of a path that has any are made. */
int sandbox_write_file(struct sandbox *s, const char *path, struct sv content, unsigned mode,
                       struct err *err) CHECK_RESULT;

/* Appends at most `length` bytes from `offset` of a regular file (no link, FIFO or device:
 * ERR_INPUT); reading at or past its end appends nothing. ERR_NOT_FOUND when missing. */
int sandbox_read_file(struct sandbox *s, const char *path, uint64_t offset, size_t length,
                      struct buf *out, struct err *err) CHECK_RESULT;

/* 1 or 0, or an error. */
int sandbox_exists(struct sandbox *s, const char *path, struct err *err) CHECK_RESULT;

/* Where the host binds a unix socket so that it answers at 127.0.0.1:7000 inside; NULL for backends
 * that must be dialled. May be bound before or after each restart, with mode 0666, since another
 * user connects; one connection in is one out. */
const char *sandbox_model_socket(const struct sandbox *s);

/* Gives an object of the limits that were hit since the sandbox was made, in this life or an
 * earlier one: "memory", "processes", "disk", each with how that showed; only what is known for
 * certain. Asked before sandbox_kill; after it, ERR_LOST. The caller owns the object. */
int sandbox_limits_hit(struct sandbox *s, json_t **out, struct err *err) CHECK_RESULT;

/* What really holds, for result.json: {"network": "enforced", "disk": "counted: ...", ...}. What
 * begins with "enforced" is; what follows a colon is how, or why not. The caller owns the object.
 */
json_t *sandbox_isolation(const struct sandbox *s);

/* The environment that the rootfs's image asks for, an array of "NAME=value"; NULL: none. Commands
 * that are not `clean` have it already. Borrowed. */
const json_t *sandbox_image_env(const struct sandbox *s);

/* Tears it down, with its home. May be called again and from any thread; every other call on it
 * then ends with ERR_LOST. sandbox_free kills too, if that was not done; it accepts NULL. */
int sandbox_kill(struct sandbox *s, struct err *err);
void sandbox_free(struct sandbox *s);

/* For backends: ERR_INPUT naming the first of its fields that is set but for `user`; "root" there
 * is refused too. */
int sandbox_machine_check_none(const struct sandbox_machine *m, const char *backend,
                               struct err *err) CHECK_RESULT;

/* For backends: what stands behind a sandbox. */
struct sandbox_ops {
    int (*restart)(struct sandbox *, const struct sandbox_spec *, deadline_ms,
                   const struct cancel *, struct err *);
    int (*carry_home)(struct sandbox *, struct sandbox *, deadline_ms, const struct cancel *,
                      struct err *); /* NULL: it can't. */
    int (*exec)(struct sandbox *, const struct sandbox_exec *, struct sandbox_output *,
                struct err *);
    int (*start)(struct sandbox *, const struct sandbox_exec *, struct sandbox_job **,
                 struct err *);
    int (*job_wait)(struct sandbox_job *, deadline_ms, const struct cancel *, int *, struct err *);
    int (*job_kill)(struct sandbox_job *, struct err *);
    void (*job_free)(struct sandbox_job *);
    int (*kill_all)(struct sandbox *, deadline_ms, struct err *);
    int (*write_file)(struct sandbox *, const char *, struct sv, unsigned, struct err *);
    int (*read_file)(struct sandbox *, const char *, uint64_t, size_t, struct buf *, struct err *);
    int (*exists)(struct sandbox *, const char *, struct err *);
    const char *(*model_socket)(const struct sandbox *);
    json_t *(*isolation)(const struct sandbox *);
    int (*limits_hit)(struct sandbox *, json_t **, struct err *); /* NULL: it can't tell. */
    const json_t *(*image_env)(const struct sandbox *);           /* NULL: there is no image. */
    int (*kill)(struct sandbox *, struct err *);
    void (*free)(struct sandbox *);
};

/* The first member of every backend's own struct. */
struct sandbox {
    const struct sandbox_ops *ops;
    const char *id;
    const char *home;
};

struct sandbox_job {
    struct sandbox *sandbox;
};

#endif
