/* SPDX-License-Identifier: BSD-3-Clause */
#include "guest/server.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "guest/conn.h"

#define SILENCE_MS 90000  /* Six beats of 15 s missed: no slow host, but a dead one. */
#define END_KILL_MS 10000 /* Then the guest ends in any case, and as pid 1 all with it. */
#define EXIT_SILENCE 4

static void on_accept(struct loop_watch *w, short events) {
    (void)events;
    struct server *s = LOOP_OWNER(w, struct server, listen_watch);
    int fd = accept4(s->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0 && conn_new(s, fd, NULL) == 0 && s->n_conns >= SERVER_CONNS_MAX) {
        loop_mute(s->loop, w);
    }
}

void server_conn_gone(struct server *s) {
    if (s->listen_fd >= 0) {
        loop_want(s->loop, &s->listen_watch, POLLIN);
    }
}

/* A finished request may end its connection's place in the list, but only later (see conn_fail). */
static void on_job_change(struct jobs *jobs) {
    struct server *s = LOOP_OWNER(jobs, struct server, jobs);
    for (struct conn *c = s->conns; c; c = c->next) {
        conn_job_changed(c);
    }
}

static void on_kill_all_end(struct kill_all *k, int left) {
    struct server *s = LOOP_OWNER(k, struct server, kill_all);
    watch_kill_ended(&s->watch);
    for (struct conn *c = s->conns; c; c = c->next) {
        conn_kill_all_ended(c, left);
        conn_resume(c);
    }
    if (s->is_ending) {
        loop_stop(s->loop);
    }
}

static void on_silence(struct loop_timer *t) {
    server_end(LOOP_OWNER(t, struct server, silence), EXIT_SILENCE);
}

void server_beat(struct server *s) {
    loop_arm(s->loop, &s->silence, deadline_in_ms(s->silence_ms));
}

void server_end(struct server *s, int exit_status) {
    if (!s->is_ending) {
        s->is_ending = true;
        s->exit_status = exit_status;
        kill_all_start(&s->kill_all, deadline_in_ms(END_KILL_MS));
    }
}

int server_init(struct server *s, struct loop *loop, int listen_fd, struct err *err) {
    s->loop = loop;
    s->listen_fd = listen_fd;
    s->silence_ms = s->silence_ms ? s->silence_ms : SILENCE_MS;
    s->silence.on_time = on_silence;
    s->listen_watch.on_ready = on_accept;
    jobs_init(&s->jobs, loop, on_job_change);
    kill_all_init(&s->kill_all, &s->jobs, on_kill_all_end);
    watch_begin(&s->watch, loop, &s->kill_all, &s->limits);
    int r = fd_set_nonblocking(listen_fd, err);
    if (r == 0 && loop_add(loop, &s->listen_watch, listen_fd, POLLIN) < 0) {
        r = err_set(err, ERR_NOMEM, "out of memory");
    }
    return r;
}

void server_deinit(struct server *s) {
    loop_drop(s->loop, &s->listen_watch);
    close(s->listen_fd);
    s->listen_fd = -1;
    while (s->conns) {
        conn_free(s->conns);
    }
}
