/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_SANDBOX_HF_HF_H
#define SNAFFLE_SANDBOX_HF_HF_H

#include <pthread.h>
#include <stdatomic.h>

#include "sandbox/hf/hub.h"
#include "sandbox/hf/server.h"
#include "sandbox/sandbox.h"

/* What the files of the hf backend share. */

#define HF_HOME_DEFAULT "/root"
#define HF_IMAGE_DEFAULT "python:3.12"
#define HF_FLAVOR_DEFAULT "cpu-basic"
#define HF_START_S_DEFAULT 120.0 /* As the official client: pulling an image takes a minute. */
#define HF_AGENT_UID 1000u       /* The first person's on most systems: tools take it for one. */

#define HF_POLL_FIRST_MS 20
#define HF_POLL_MAX_MS 1000
#define HF_OVER_MAX 32      /* Rarely more than one: the next command takes them along. */
#define HF_POLL_FAILURES 10 /* In a row: then the sandbox is given up. */

struct hf {
    struct sandbox base;
    struct hf_hub *hub;
    char *job; /* NULL before create has an answer. */
    char *id;  /* With the namespace before it, if that was asked for; NULL: the job's. */
    int64_t since_ms;
    struct hf_server server;
    char *dir;                     /* Of ours inside: the guest, and a folder for each command. */
    char *guest;                   /* Where the guest is sent. */
    char *image_guest;             /* Where the image has it; NULL: nowhere. */
    _Atomic(const char *) program; /* The one of both that is used. */
    char *home;
    uint32_t user;     /* Of commands; 0: root. */
    bool limits_asked; /* For which the flavor's hold. */
    atomic_uint next;
    atomic_uint clears;         /* Counts kill_all: it ends also who keeps the records. */
    atomic_uint lives;          /* Counts restarts: a job of an earlier life is lost. */
    pthread_mutex_t over_lock;  /* Over the next two. */
    unsigned over[HF_OVER_MAX]; /* Commands whose folders inside are of no more use. */
    size_t n_over;
    struct cancel *torn_down;
    pthread_mutex_t lifecycle; /* Held by restart and kill over their whole length. */
    bool killed;               /* Under lifecycle. */
    char **placed;             /* Paths of mounts that stand inside. Under lifecycle. */
    size_t n_placed;
};

/* The contract's operations, by file: exec.c, files.c, hf.c. */
int hf_exec(struct sandbox *b, const struct sandbox_exec *what, struct sandbox_output *out,
            struct err *err);
/* As another user than the sandbox's. */
int hf_exec_as(struct hf *s, uint32_t user, const struct sandbox_exec *what,
               struct sandbox_output *out, struct err *err) CHECK_RESULT;
int hf_start(struct sandbox *b, const struct sandbox_exec *what, struct sandbox_job **out,
             struct err *err);
int hf_job_wait(struct sandbox_job *b, deadline_ms until, const struct cancel *cancel,
                int *exit_code, struct err *err);
int hf_job_kill(struct sandbox_job *b, struct err *err);
void hf_job_free(struct sandbox_job *b);
int hf_write_file(struct sandbox *b, const char *path, struct sv content, unsigned mode,
                  struct err *err);
int hf_read_file(struct sandbox *b, const char *path, uint64_t offset, size_t length,
                 struct buf *out, struct err *err);
int hf_exists(struct sandbox *b, const char *path, struct err *err);

int hf_carry_home(struct sandbox *from, struct sandbox *to, deadline_ms until,
                  const struct cancel *cancel, struct err *err);
/* Of the tar: some minutes of transfer, within any flavor's disk. */
#define HF_CARRY_MAX (1ull << 30)
/* ERR_LIMIT: it is more than that. */
int hf_carry(struct sandbox *from, struct sandbox *to, uint64_t max, deadline_ms until,
             const struct cancel *cancel, struct err *err) CHECK_RESULT;

/* Runs a text of ours as the server's user; it must end at once, with 0. */
int hf_run_shell(struct hf *s, const char *text, const char *arg, const char *arg2,
                 deadline_ms until, const struct cancel *cancel, struct err *err) CHECK_RESULT;

/* What is wrong when a call failed: ERR_LOST, with the job's own end, if the job is over; else the
 * code that it had. */
int hf_explain(struct hf *s, int code, struct err *err);

char *hf_path(const struct hf *s, const char *path); /* Absolute inside; the caller frees. */

/* Makes the home, finds the guest's program in the image or sends it, and places the mounts. */
int hf_furnish(struct hf *s, const struct sandbox_spec *spec, deadline_ms until,
               const struct cancel *cancel, struct err *err) CHECK_RESULT;
int hf_load_guest(struct buf *out, struct err *err) CHECK_RESULT; /* This machine's copy. */
/* After an agent: where that was root, the program is sent anew. */
int hf_replace_guest(struct hf *s, deadline_ms until, const struct cancel *cancel,
                     struct err *err) CHECK_RESULT;
/* Sends the guest's program there, executable by all. */
int hf_put_guest(struct hf *s, const char *path, deadline_ms until, const struct cancel *cancel,
                 struct err *err) CHECK_RESULT;

/* Lets the mounts of `spec` stand inside, as copies, and no other. */
int hf_mounts_place(struct hf *s, const struct sandbox_spec *spec, deadline_ms until,
                    const struct cancel *cancel, struct err *err) CHECK_RESULT;
void hf_mounts_forget(struct hf *s);

/* The job to create, owned by the caller, with labels that say whose it is; NULL: no memory. What
 * the specification asks for was checked. */
json_t *hf_spec(const struct hf_hub *h, const struct sandbox_spec *spec, const char *home,
                const char *nonce);
int hf_machine_check(const struct sandbox_machine *m, struct err *err) CHECK_RESULT;
bool hf_machine_is_root(const struct sandbox_machine *m);
/* Adds volumes in the Hub's spelling. ERR_INPUT. */
int hf_volumes_add(const json_t *volumes, json_t *list, struct err *err) CHECK_RESULT;
const char *hf_space_of(const char *image); /* "owner/name"; NULL: it is no Space's address. */

/* What another process needs to know of a sandbox, beside the labels that `list` shows. */
#define HF_LABEL_USER "snaffle-user"
#define HF_HOME_VARIABLE                                                                           \
    "SNAFFLE_HOME" /* A path is no label: the Hub shows the environment too.                       \
                    */

/* One without a job, and its end: the job, if it has one by then, goes on. */
int hf_new(const char *home, bool is_root, struct hf **out, struct err *err) CHECK_RESULT;
void hf_forget(struct hf *s);
/* Makes it the sandbox of that job, which was created with the nonce. */
int hf_take_job(struct hf *s, const json_t *job, const char *nonce, struct err *err) CHECK_RESULT;

int hf_exec_in(const char *id, const struct sandbox_exec *what, struct sandbox_output *out,
               struct err *err);
int hf_kill_in(const char *id, bool *was_alive, struct err *err);
int hf_list(const struct sandbox_scope *scope, json_t **out, struct err *err);
int hf_sweep(const struct sandbox_scope *scope, bool dry_run, unsigned *removed, struct err *err);

#endif
