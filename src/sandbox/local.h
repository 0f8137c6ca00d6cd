/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_SANDBOX_LOCAL_H
#define SNAFFLE_SANDBOX_LOCAL_H

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#include "sandbox/box.h"
#include "sandbox/guest_client.h"
#include "sandbox/image.h"
#include "sandbox/inside.h"
#include "sandbox/sandbox.h"

/* What the files of the local backend share. */

#define LOCAL_HOME_DEFAULT "/home/user"
#define LOCAL_UID_INSIDE 1000 /* The first person's on most systems: tools take it for one. */

#define LOCAL_MEMORY_MB_DEFAULT 2048
#define LOCAL_PROCESSES_DEFAULT 512
#define LOCAL_DISK_MB_DEFAULT 2048

/* Paths inside. */
#define LOCAL_GUEST INSIDE_GUEST
#define LOCAL_MODEL_DIR INSIDE_MODEL_DIR
#define LOCAL_MODEL_SOCKET "model.sock"

/* One life of a sandbox: from a start to the restart or the kill that ends it. */
struct life {
    pid_t bwrap;  /* The monitor, our child; 0: none. */
    int pidfd;    /* The guest, pid 1 inside: its death is the death of all. -1: none. */
    pid_t helper; /* Of a full network; 0: none. */
};

struct local {
    struct sandbox base;
    char *state;
    char *guest_program;
    char *home;
    char *model_socket;
    struct image image; /* Of create: its `dir` is the system inside; NULL: the host's is. */
    struct box box;
    struct guest_client guest;
    struct cancel *torn_down;

    pthread_mutex_t lifecycle; /* Held by create, restart and kill over their whole length. */
    struct life life;          /* Under lifecycle. */
    bool removed;              /* Under lifecycle: the box is gone. */
    atomic_uint lives;         /* Counts starts: a job of an earlier life is lost. */
    _Atomic(enum sandbox_network) network; /* Of the present life. */
    atomic_uint holds; /* Likewise, LOCAL_HOLDS_*: limits that the kernel enforces. */
    atomic_uint hits;  /* Limits that were hit, in any life (local_limits.c). */

    /* The beat's list, under its own lock (local_beat.c). */
    struct local *next;
    bool beating;
};

/* Starts a life in the box; on failure none is left. The lifecycle lock is held. */
int local_start(struct local *l, const struct sandbox_spec *spec, deadline_ms until,
                const struct cancel *cancel, struct err *err) CHECK_RESULT;

/* Waits for a turn to start a sandbox, of which there are some at once. */
int local_turn_take(deadline_ms until, const struct cancel *cancel, struct err *err) CHECK_RESULT;
void local_turn_give(void);

/* Ends the life and sees every process of it dead. No life is success. */
int local_end(struct local *l, struct err *err);

/* Kills and reaps a child of ours; *pid is 0 after. */
void local_end_child(pid_t *pid);
/* The same for one that a guard runs, which is asked, so that it takes the program along. */
void local_end_helper(pid_t *pid);

/* Waits for one of `fds` (at most 4), the deadline, the caller's cancel or the sandbox's own end.
 */
int local_poll(const struct local *l, struct pollfd *fds, nfds_t n, deadline_ms until,
               const struct cancel *cancel, struct err *err) CHECK_RESULT;

/* A sealed-by-nobody memory file that holds `bytes`, to be read from its start. */
int local_memfd(const char *name, struct sv bytes, int *out_fd, struct err *err) CHECK_RESULT;

/* The system call filter as bwrap reads it; made once, each caller gets a descriptor of its own. */
int local_seccomp(int *out_fd, struct err *err) CHECK_RESULT;

/* Beats every registered sandbox from one thread, so that its guest knows that we live. Leaving
 * waits for a beat that is under way. */
int local_beat_join(struct local *l, struct err *err) CHECK_RESULT;
void local_beat_leave(struct local *l);

/* Says in the user's words why a sandbox did not start, from bwrap's own last words and the
 * kernel's switches (`sysctls`: /proc/sys). */
int local_diagnose(struct sv words, const char *sysctls, struct err *err);

int local_check(struct err *err) CHECK_RESULT;

/* Sandboxes of any process, by id (sandbox_backend). */
int local_exec_in(const char *id, const struct sandbox_exec *what, struct sandbox_output *out,
                  struct err *err) CHECK_RESULT;
int local_kill_in(const char *id, bool *was_alive, struct err *err) CHECK_RESULT;

/* With the backend's defaults where the spec wants none. */
struct sandbox_limits local_limits(const struct sandbox_limits *wanted);

#define LOCAL_HOLDS_MEMORY 1u
#define LOCAL_HOLDS_PROCESSES 2u
#define LOCAL_HOLDS_DISK 4u

/* Makes a life's control groups, and sets `holds`. */
void local_limits_set(struct local *l, const struct sandbox_spec *spec);

/* Keeps what is known of limits that were hit: local_limits_keep what the control groups tell,
 * before they go; local_limits_ask also what the guest knows. The lifecycle lock is held. */
void local_limits_keep(struct local *l);
void local_limits_ask(struct local *l);
json_t *local_limits_hit(const struct local *l);

json_t *local_isolation(const struct sandbox *s);
/* Once local_limits_set has run. */
int local_refuse_unenforced(const struct local *l, const struct sandbox_spec *spec,
                            struct err *err) CHECK_RESULT;

/* The user of this process's sandboxes, as far as it is known before one is made. */
uid_t local_likely_uid(void);

/* ERR_INPUT for a home or mount that can't stand where it is wanted, or a source that the
 * sandbox's user can't reach. */
int local_check_spec(const struct sandbox_spec *spec, const char *home, uid_t uid,
                     struct err *err) CHECK_RESULT;

/* A full network: which program makes it, and attaching one to the namespace of a held payload. */
struct local_net {
    char *program;
    bool is_pasta;
};
#define LOCAL_NET_RESOLVER "10.0.2.3" /* Both programs answer there for the host's resolver. */
int local_net_find(struct local_net *out, struct err *err) CHECK_RESULT;
int local_net_attach(const struct local *l, const struct local_net *net, pid_t payload,
                     deadline_ms until, const struct cancel *cancel, pid_t *out_helper,
                     struct err *err) CHECK_RESULT;
void local_net_deinit(struct local_net *net);

/* bwrap's command line, and the descriptors that it and the guest inherit. */
#define LOCAL_LINE_FDS 16
struct local_line {
    struct buf args;    /* bwrap's options, NUL after each. */
    struct buf command; /* The guest's words, likewise: bwrap takes these from argv alone. */
    char name[64];
    const char *argv[32]; /* NAME --args N -- the guest's words; set by local_line_argv. */
    int fds[LOCAL_LINE_FDS];
    size_t n_fds;
    size_t n_borrowed; /* The first ones are the caller's to close. */
};

struct local_ends {
    int listen; /* Where the guest answers. */
    int ready;  /* Written to by the guest once it listens. */
    int info;   /* bwrap tells the payload's pid here ... */
    int heard;  /* (its other end: kept open, bwrap's telling never fails when we are gone) */
    int block;  /* ... and holds it until a byte comes. */
};

int local_line_build(const struct local *l, const struct sandbox_spec *spec,
                     const struct local_ends *ends, struct local_line *out,
                     struct err *err) CHECK_RESULT;
/* Adds the NULL-ended words to bwrap's options. */
int local_line_add(struct local_line *line, const char *const *words) CHECK_RESULT;
/* Binds what the sandbox's own rootfs holds. */
int local_root_add(const struct local *l, const struct sandbox_spec *spec, struct local_line *line,
                   struct err *err) CHECK_RESULT;
/* Fills argv for options that are read from the child's descriptor that comes after `fds`. */
void local_line_argv(struct local_line *line, char number[16]);
void local_line_deinit(struct local_line *line);

#endif
