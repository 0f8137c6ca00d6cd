/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_TESTS_HUB_HUB_H
#define SNAFFLE_TESTS_HUB_HUB_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "net/server.h"

/*
 * The fake Hub: the Jobs API, and behind it jobs that are real containers (an overlay of this
 * machine's root, namespaces of their own, root inside with Docker's usual capabilities), each of
 * which runs its own command. Their ports are reached through the Jobs proxy, under
 * http://127.0.0.1:PROXY/p/<job>--<port>.local. Everything but `log` is touched on the loop's
 * thread only. It must be started by root.
 */
struct hub {
    struct loop *loop;
    struct server *api;
    struct listener *proxy;
    const char *token;     /* The only one that is let in. */
    const char *user;      /* Its namespace. */
    const char *sbx;       /* The program that stands for sbx-server. */
    const char *sbx_words; /* FAKE_SBX of every job. */
    const char *layer;     /* A folder that lies over each job's system, as an image's; or NULL. */
    const char *state;     /* A tmpfs of our own: one folder a job. */
    const uint16_t *reach; /* Ports of this machine's loopback that a job sees on its own. */
    size_t n_reach;
    int64_t start_ms; /* From create to the container's start. */
    int log_fd;
    json_t *faults; /* An array of rules; see fault.h. */
    struct job *jobs;
    unsigned n_alive;
};

/* --- jobs --- */

struct job {
    struct hub *hub;
    struct job *next;
    char id[25];
    json_t *spec; /* As created. */
    const char *stage;
    char message[256];
    char *owner;
    double created, started, finished; /* Unix seconds; 0: not yet. */
    struct buf log;                    /* The container's output. */
    struct timer *timer;               /* To the start, then to the end of its time. */
    struct container *container;
    bool cancelled;
    bool hidden; /* Taken out of sight by a fault. */
};

/* Takes `spec`. */
struct job *job_new(struct hub *h, const char *owner, json_t *spec, const char *fault);
struct job *job_find(struct hub *h, struct sv id);
void job_cancel(struct job *j);
json_t *job_json(const struct job *j);
bool job_is_over(const struct job *j);
/* From the container's own threads, by way of the loop. `c` is NULL where it did not start. */
void job_on_start(struct job *j, struct container *c, const struct err *err);
void job_on_output(struct job *j, struct sv bytes);
void job_on_end(struct job *j, int status);

/* --- containers --- */

struct container;
/* Starts the job's command, on a thread that lives as long as the Hub; then container_open, on the
 * loop's, opens what it sees of this machine and waits for its end. */
int container_spawn(struct job *j, struct container **out, struct err *err) CHECK_RESULT;
void container_open(struct container *c);
/* Does both, soon, and without holding up the loop; job_on_start is told. */
void container_start(struct job *j);
void container_kill(struct container *c);
/* A connection to a port inside; any of its threads may block for a moment. */
int container_dial(const struct container *c, uint16_t port, int *out_fd,
                   struct err *err) CHECK_RESULT;
/* Makes a private mount namespace and gives the folder of a tmpfs in it. Before any thread. */
int container_ground(const char **out, struct err *err) CHECK_RESULT;

/* A listening socket, and a connection, in the network of process `pid`. */
int netns_listen(pid_t pid, uint16_t port, int *out_fd, struct err *err) CHECK_RESULT;
int netns_dial(pid_t pid, uint16_t port, int *out_fd, struct err *err) CHECK_RESULT;

/* --- the two faces --- */

void jobs_on_request(struct exchange *x, void *arg);
void proxy_on_accept(struct conn *c, void *arg);

void hub_log(struct hub *h, json_t *line); /* Takes it; adds the time. */

#endif
