/* SPDX-License-Identifier: BSD-3-Clause */
#include "guest/job.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "guest/job_private.h"
#include "guest/proctree.h"
#include "guest/spawn.h"

#define KILL_PAUSE_FIRST_MS 1
#define KILL_PAUSE_MAX_MS 50
#define KILL_KEEPER_MS 2000  /* A keeper that has not ended by then was stopped by somebody. */
#define KILL_GIVE_UP_MS 8000 /* Below the host's own grace, so that it hears of it. */

void jobs_init(struct jobs *jobs, struct loop *loop, void (*on_change)(struct jobs *)) {
    *jobs = (struct jobs){.loop = loop, .on_change = on_change};
    jobs->last = &jobs->first;
    getrlimit(RLIMIT_NOFILE, &jobs->open_files);
}

struct job *jobs_find(const struct jobs *jobs, uint32_t number) {
    struct job *job = jobs->first;
    while (job && job->number != number) {
        job = job->next;
    }
    return job;
}

static void close_told(struct job *job, struct loop_watch *watch, int *fd) {
    loop_drop(job->jobs->loop, watch);
    mem_auto_close(fd);
    *fd = -1;
}

static void free_job(struct job *job) {
    struct jobs *jobs = job->jobs;
    struct job **p = &jobs->first;
    while (*p != job) {
        p = &(*p)->next;
    }
    *p = job->next;
    if (jobs->last == &job->next) {
        jobs->last = p;
    }
    jobs->n--;
    loop_disarm(jobs->loop, &job->timeout);
    loop_disarm(jobs->loop, &job->grace);
    loop_disarm(jobs->loop, &job->kill_again);
    job_io_close(job);
    close_told(job, &job->start_watch, &job->start_fd);
    close_told(job, &job->status_watch, &job->status_fd);
    command_deinit(&job->command);
    free(job);
}

static void say_timed_out(struct job *job) {
    AUTO_FREE char *line =
        mem_printf("[timed out after %.10gs]\n", (double)job->command.timeout_ms / 1000);
    if (!line) {
        return;
    }
    struct job_stream *stream = &job->streams[1];
    char last = stream->last;
    if (job->command.is_detached) {
        job_io_append_line(job->command.stderr_fd, line);
    } else if (job->events && job->events->output) {
        if (stream->total > 0 && last != '\n') {
            job->events->output(job->arg, 2, SV("\n"));
        }
        job->events->output(job->arg, 2, sv_from(line));
    }
}

void job_check_end(struct job *job) {
    bool through = job->streams[0].fd < 0 && job->streams[1].fd < 0;
    if (job->has_ended || !job->has_exited || !through || (job->is_killing && !job->is_gone)) {
        return;
    }
    job->has_ended = true;
    loop_disarm(job->jobs->loop, &job->timeout);
    if (job->is_timed_out) {
        say_timed_out(job);
    }
    struct jobs *jobs = job->jobs;
    if (job->command.is_detached) {
        mem_auto_close(&job->command.stderr_fd);
        job->command.stderr_fd = -1;
        jobs->on_change(jobs);
        return;
    }
    if (job->events && job->events->ended) {
        job->events->ended(job->arg, job);
    }
    free_job(job);
}

static void exited(struct job *job, int status) {
    job->has_exited = true;
    loop_disarm(job->jobs->loop, &job->timeout);
    job->exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    if (job->is_timed_out) {
        job->exit_code = JOB_EXIT_TIMED_OUT;
    }
    loop_arm(job->jobs->loop, &job->grace, deadline_in_ms(JOB_GRACE_MS));
}

static void fail_to_start(struct job *job, int reason) {
    job->jobs->was_refused = job->jobs->was_refused || reason == EAGAIN;
    struct err err;
    int code = reason == ENOENT || reason == ENOTDIR ? ERR_NOT_FOUND
               : reason == EACCES                    ? ERR_DENIED
               : reason == EAGAIN || reason == E2BIG ? ERR_LIMIT
                                                     : ERR_SYS;
    if (reason == ECHILD) {
        (void)err_set(&err, code, "the process that was to keep '%s' was killed",
                      job->command.argv.p[0]);
    } else {
        (void)err_sys(&err, code, reason, "cannot run '%s'", job->command.argv.p[0]);
    }
    if (job->events && job->events->failed) {
        job->events->failed(job->arg, &err);
    }
    free_job(job);
}

/* The next record; false when there is none for now, and the descriptor is closed at its end. */
static bool next_record(struct job *job, struct loop_watch *watch, int *fd,
                        struct spawn_record *out) {
    ssize_t n = *fd < 0 ? 0 : read(*fd, out, sizeof *out);
    if (n == (ssize_t)sizeof *out) {
        return true;
    }
    if (*fd >= 0 && (n >= 0 || (errno != EAGAIN && errno != EINTR))) {
        close_told(job, watch, fd);
    }
    return false;
}

/* Whether the command is still to be reaped, by us, in its keeper's place. */
static bool is_our_child(pid_t pid) {
    siginfo_t info;
    return pid > 0 && waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

/* A command that has neither a keeper nor us to reap it has ended unseen. */
static void settle_lost(struct job *job) {
    if (job->is_lost && job->start_fd < 0 && !job->has_exited && !is_our_child(job->pid)) {
        exited(job, SIGKILL);
    }
}

/* Takes what is told of the start. False when the job is gone. */
static bool read_start(struct job *job) {
    if (job->start_fd < 0) {
        return true;
    }
    struct spawn_record record;
    while (next_record(job, &job->start_watch, &job->start_fd, &record)) {
        if (record.event == SPAWN_FAILED) {
            fail_to_start(job, record.value);
            return false;
        }
        job->pid = record.value;
    }
    if (job->start_fd >= 0) {
        return true;
    }
    if (job->pid == 0) { /* Its keeper was killed before it was there. */
        fail_to_start(job, ECHILD);
        return false;
    }
    if (job->events && job->events->started) {
        job->events->started(job->arg, job);
    }
    settle_lost(job);
    return true;
}

/* Takes all that is told. False when the job is gone. */
static bool read_told(struct job *job) {
    struct spawn_record record;
    if (!read_start(job)) {
        return false;
    }
    while (next_record(job, &job->status_watch, &job->status_fd, &record)) {
        if (!job->has_exited) {
            exited(job, record.value);
        }
    }
    return true;
}

static void on_start(struct loop_watch *w, short events) {
    (void)events;
    struct job *job = LOOP_OWNER(w, struct job, start_watch);
    if (read_told(job)) {
        job_check_end(job);
    }
}

static void on_status(struct loop_watch *w, short events) {
    (void)events;
    struct job *job = LOOP_OWNER(w, struct job, status_watch);
    if (read_told(job)) {
        job_check_end(job);
    }
}

static void set_gone(struct job *job) {
    job->is_gone = true;
    loop_disarm(job->jobs->loop, &job->kill_again);
    struct jobs *jobs = job->jobs;
    job_check_end(job);
    jobs->on_change(jobs);
}

static void keeper_ended(struct job *job, int status) {
    job->keeper = 0;
    if (!read_told(job)) {
        return;
    }
    if (WIFEXITED(status)) {
        if (!job->has_exited) {
            exited(job, SIGKILL); /* Not seen to happen; never take it for a clean end. */
        }
        set_gone(job);
        return;
    }
    job->is_lost = true;
    settle_lost(job);
    job_check_end(job);
}

static void on_kill_again(struct loop_timer *t) {
    struct job *job = LOOP_OWNER(t, struct job, kill_again);
    struct proctree_kill what = {.root = job->keeper, .spared = job->keeper};
    if (job->keeper == 0) {
        what = (struct proctree_kill){.root = job->pid, .session = job->pid};
    }
    int n = what.root ? proctree_kill(&what, NULL) : 0;
    if (job->keeper && deadline_passed(job->kill_keeper_at)) {
        kill(job->keeper, SIGKILL);
    }
    bool given_up = deadline_passed(job->give_up_at);
    if ((job->keeper == 0 && n == 0 && job->has_exited) || given_up) {
        if (!job->has_exited) {
            exited(job, SIGKILL);
        }
        job->is_stuck = given_up;
        set_gone(job);
        return;
    }
    int64_t pause = job->kill_pause_ms;
    job->kill_pause_ms = pause * 2 > KILL_PAUSE_MAX_MS ? KILL_PAUSE_MAX_MS : pause * 2;
    loop_arm(job->jobs->loop, &job->kill_again, deadline_in_ms(pause));
}

void job_kill(struct job *job) {
    if (job->is_killing || job->is_gone) {
        return;
    }
    job->is_killing = true;
    job->kill_pause_ms = KILL_PAUSE_FIRST_MS;
    job->kill_keeper_at = deadline_in_ms(KILL_KEEPER_MS);
    job->give_up_at = deadline_in_ms(KILL_GIVE_UP_MS);
    loop_arm(job->jobs->loop, &job->kill_again, clock_ms());
}

static void on_timeout(struct loop_timer *t) {
    struct job *job = LOOP_OWNER(t, struct job, timeout);
    if (!job->has_exited) {
        job->is_timed_out = true;
        job_kill(job);
    }
}

static void on_grace(struct loop_timer *t) {
    struct job *job = LOOP_OWNER(t, struct job, grace);
    job_io_end_grace(job);
    job_check_end(job);
}

int job_signal(const struct job *job, int number, struct err *err) {
    if (job->pid == 0 || job->has_exited) {
        return 0; /* There is nobody to hear it. */
    }
    if (kill(-job->pid, number) < 0 && errno != ESRCH) {
        return err_sys(err, errno == EINVAL ? ERR_INPUT : ERR_SYS, errno,
                       "cannot send signal %d to job %u", number, job->number);
    }
    return 0;
}

void job_disown(struct job *job) {
    job->events = NULL;
    if (!job->command.is_detached) {
        job_io_close(job);
        job_kill(job);
        job_check_end(job);
    } else if (job_wants_input(job)) {
        job_end_input(job);
    }
}

static void reaped(struct jobs *jobs, pid_t pid, int status) {
    for (struct job *job = jobs->first; job; job = job->next) {
        if (job->keeper == pid) {
            keeper_ended(job, status);
            return;
        }
        if (job->pid == pid && !job->has_exited) {
            exited(job, status);
            job_check_end(job);
            return;
        }
    }
}

void jobs_reap(struct jobs *jobs) {
    for (struct job *job = jobs->first, *next; job; job = next) {
        next = job->next;
        (void)read_start(job); /* Whose pids they are must be known first. */
    }
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        reaped(jobs, pid, status);
    }
}

/* The oldest record that can go without loss of a running job. */
static bool make_place(struct jobs *jobs) {
    for (struct job *job = jobs->first; job && jobs->n >= JOBS_MAX; job = job->next) {
        if (job->has_ended && !job->events) {
            free_job(job);
            break;
        }
    }
    return jobs->n < JOBS_MAX;
}

static void init_job(struct job *job, struct jobs *jobs, const struct job_events *events,
                     void *arg) {
    job->jobs = jobs;
    job->events = events;
    job->arg = arg;
    job->number = ++jobs->last_number;
    job->start_fd = job->status_fd = -1;
    job->start_watch.on_ready = on_start;
    job->status_watch.on_ready = on_status;
    job->timeout.on_time = on_timeout;
    job->grace.on_time = on_grace;
    job->kill_again.on_time = on_kill_again;
    job_io_init(job);
    *jobs->last = job;
    jobs->last = &job->next;
    jobs->n++;
}

static int spawn(struct job *job, struct err *err) {
    int child[3] = {-1, -1, -1};
    int r = job_io_open(job, child, err);
    if (r == 0) {
        struct spawn_plan plan = {
            .argv = job->command.argv.p,
            .env = job->command.env.p ? job->command.env.p : (char *const[]){NULL},
            .cwd_fd = job->command.cwd_fd,
            .stdio = {child[0], child[1], child[2]},
            .user = job->command.user,
            .open_files = job->jobs->open_files,
        };
        struct spawned spawned = {.start_fd = -1, .status_fd = -1};
        r = spawn_keeper(&plan, &spawned, err);
        job->jobs->was_refused = job->jobs->was_refused || r == ERR_LIMIT;
        job->keeper = spawned.keeper;
        job->start_fd = spawned.start_fd;
        job->status_fd = spawned.status_fd;
    }
    for (int i = 0; i < 3; i++) {
        mem_auto_close(&child[i]);
    }
    if (r == 0 && (loop_add(job->jobs->loop, &job->start_watch, job->start_fd, POLLIN) < 0 ||
                   loop_add(job->jobs->loop, &job->status_watch, job->status_fd, POLLIN) < 0)) {
        r = err_set(err, ERR_NOMEM, "out of memory");
    }
    return r;
}

int jobs_start(struct jobs *jobs, struct command *command, const struct job_events *events,
               void *arg, struct job **out, struct err *err) {
    struct job *job = make_place(jobs) ? calloc(1, sizeof *job) : NULL;
    if (!job) {
        command_deinit(command);
        return jobs->n < JOBS_MAX
                   ? err_set(err, ERR_NOMEM, "out of memory")
                   : err_set(err, ERR_LIMIT, "%d commands run already: end some", JOBS_MAX);
    }
    job->command = *command;
    *command = (struct command){.cwd_fd = -1, .stdout_fd = -1, .stderr_fd = -1};
    init_job(job, jobs, events, arg);
    int r = spawn(job, err);
    if (r < 0) {
        if (job->keeper) {
            kill(job->keeper, SIGKILL);
        }
        free_job(job);
        return r;
    }
    if (job->command.timeout_ms) {
        loop_arm(jobs->loop, &job->timeout, deadline_in_ms((int64_t)job->command.timeout_ms));
    }
    *out = job;
    return 0;
}
