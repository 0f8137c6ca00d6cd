/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_GUEST_JOB_H
#define SNAFFLE_GUEST_JOB_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/sv.h"
#include "guest/command.h"
#include "guest/loop.h"

/*
 * Commands from their start to their record. An attached job streams its output to its owner and is
 * forgotten once it has ended; a detached one writes to files, and its record stays to be asked
 * for, until JOBS_MAX push it out.
 *
 * A job has *exited* when its command has; it has *ended* when also its output is through and, if
 * it was killed, nothing below it is left.
 */

/* A rollout starts one agent and some tens of commands; the process limit's default is 512. */
#define JOBS_MAX 256

/* Who holds an exited command's output open gets this long to finish its sentence. */
#define JOB_GRACE_MS 1000

/* What a command has not read yet. An attached one's owner is slowed down long before; a detached
 * one's input is held whole: an instruction, at most 1 MiB. */
#define JOB_INPUT_MAX (4u << 20)

struct job;

/* Any may be NULL. `ended` of an attached job is the last; the job is gone after it. */
struct job_events {
    void (*started)(void *arg, struct job *job);
    void (*failed)(void *arg, const struct err *err); /* It never ran, and is gone. */
    bool (*has_room)(void *arg);                      /* False: call jobs_resume_output later. */
    void (*output)(void *arg, int stream, struct sv bytes);
    void (*input_taken)(void *arg);
    void (*ended)(void *arg, struct job *job);
};

struct job_stream {
    struct loop_watch watch;
    struct job *job;
    int fd;
    int number; /* 1 or 2. */
    uint64_t total;
    char last;
    bool is_bounded; /* Past the grace: `left` bytes, those that were in the pipe then, and no more.
                      */
    size_t left;
};

struct job {
    struct jobs *jobs;
    struct job *next;
    uint32_t number;
    struct command command;
    const struct job_events *events; /* NULL: nobody listens. */
    void *arg;

    pid_t keeper; /* 0 once reaped. */
    pid_t pid;    /* 0 before it is known. */
    int start_fd; /* -1: it runs. */
    struct loop_watch start_watch;
    int status_fd;
    struct loop_watch status_watch;
    struct job_stream streams[2];
    int input_fd;
    struct loop_watch input_watch;
    struct buf input;
    bool input_ended;

    struct loop_timer timeout;
    struct loop_timer grace;
    struct loop_timer kill_again;
    int64_t kill_pause_ms;
    deadline_ms kill_keeper_at;
    deadline_ms give_up_at;

    bool is_lost; /* The keeper was killed: what is below is known by its session alone. */
    bool has_exited;
    bool is_timed_out;
    bool is_killing;
    bool is_gone;  /* Nothing below is left, ... */
    bool is_stuck; /* ... or that was given up: SIGKILL did not end it. */
    bool has_ended;
    int exit_code;
};

struct jobs {
    struct loop *loop;
    struct job *first; /* Oldest first. */
    struct job **last;
    unsigned n;
    uint32_t last_number;
    struct rlimit open_files;
    bool was_refused; /* No more process was to be had for a command, once at least. */
    void (*on_change)(struct jobs *jobs); /* A detached job ended, or a killed one is gone. */
};

void jobs_init(struct jobs *jobs, struct loop *loop, void (*on_change)(struct jobs *));

/* Takes the command's contents, also on failure. Events begin after it has returned. */
int jobs_start(struct jobs *jobs, struct command *command, const struct job_events *events,
               void *arg, struct job **out, struct err *err) CHECK_RESULT;
struct job *jobs_find(const struct jobs *jobs, uint32_t number);

/* Reaps every child that has ended. Call on SIGCHLD. */
void jobs_reap(struct jobs *jobs);

/* The owner leaves: an attached job is killed, a detached one goes on, with the input it has. */
void job_disown(struct job *job);
void job_kill(struct job *job); /* With everything below. Goes on by itself until `is_gone`. */
int job_signal(const struct job *job, int number, struct err *err) CHECK_RESULT;

int job_add_input(struct job *job, struct sv bytes) CHECK_RESULT;
void job_end_input(struct job *job);
bool job_has_input(const struct job *job);   /* Not all of it is taken yet. */
bool job_wants_input(const struct job *job); /* It has not been told the end yet. */
void job_resume_output(struct job *job);

#endif
