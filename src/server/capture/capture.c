/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/capture/capture.h"

#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>

#include "base/log.h"
#include "base/rand.h"
#include "journal/journal.h"
#include "server/capture/live.h"
#include "server/capture/pool.h"
#include "server/capture/server.h"

#define DESCRIPTORS_KEPT 150  /* For listeners, the journal, admins; a call holds two. */
#define KEPT_BYTES (64 << 20) /* Of freed memory: what requests and answers under way need. */
#define BIG_BYTES (8 << 20)   /* From here on memory is the kernel's again at once. */
#define DRAIN_LOOK_MS 20      /* How often it is looked whether the last connection is gone. */

static void block_signals(sigset_t *set) {
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigemptyset(set);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGHUP);
    pthread_sigmask(SIG_BLOCK, set, NULL);
    (void)sigaction(SIGPIPE, &ignore, NULL);
}

static int announce(struct capture *c, struct err *err) {
    const char *host = c->o->host ? c->o->host : "127.0.0.1";
    bool is_v6 = sv_find(sv_from(host), SV(":")) != (size_t)-1;
    c->ready = true;
    if (printf("listening on http://%s%s%s:%u/v1\n", is_v6 ? "[" : "", host, is_v6 ? "]" : "",
               (unsigned)gateway_port(c->gateway)) < 0 ||
        fflush(stdout) != 0) {
        return err_sys(err, ERR_SYS, errno, "cannot write to standard output");
    }
    return 0;
}

/* True when one came in time. */
static bool await_signal(const sigset_t *set, int64_t ms, int *number) {
    struct timespec at = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    *number = sigtimedwait(set, NULL, &at);
    return *number > 0;
}

static void reload(struct capture *c) {
    struct err err = {0};
    if (!c->o->upstream_file) {
        log_warning("SIGHUP: there is no --upstream-file to read again");
    } else if (upstreams_load(c, &err) < 0) {
        log_error("%s; the upstreams stay as they were", err.msg);
    }
}

static void serve(struct capture *c, const sigset_t *signals) {
    int number = 0;
    while (number != SIGTERM && number != SIGINT) {
        while (sigwait(signals, &number) != 0) {
        }
        if (number == SIGHUP) {
            reload(c);
        }
    }
}

/* Connections end with their answers. Once more a signal, or no more time: what is left is cut. */
static deadline_ms drain(struct capture *c, const sigset_t *signals) {
    deadline_ms until = deadline_in_s(c->o->drain_s);
    int number = 0;
    gateway_drain(c->gateway);
    while (gateway_connections(c->gateway) > 0 && !deadline_passed(until)) {
        if (await_signal(signals, DRAIN_LOOK_MS, &number) && number != SIGHUP) {
            return deadline_in_ms(0);
        }
    }
    return until;
}

/* --- one session --- */

static void on_call_end(void *capture) {
    const struct capture *c = capture;
    if (c->live) {
        live_wake(c->live);
    }
}

/* A name of its own for each start, since the journal keeps what was before. */
static int open_single(struct capture *c, struct gateway_session **out, struct err *err) {
    (void)snprintf(c->name, sizeof c->name, "gateway-%.12s.0", c->instance);
    struct gateway_session_options so = c->o->session;
    so.name = c->name;
    so.token = c->o->key;
    int rc = gateway_session_open(c->gateway, &so, out, err);
    if (rc == 0 && !c->o->key) {
        gateway_set_default_session(c->gateway, *out);
    }
    if (rc == 0 && c->o->unix_path) {
        rc = gateway_session_listen_unix(*out, c->o->unix_path, err);
    }
    if (rc < 0 || !c->o->trace) {
        return rc;
    }
    const struct trace_source from = {
        .journal_dir = c->o->journal_dir,
        .session = c->name,
        .judge = judge_call,
        .arg = &c->judge,
        .journal = c->journal,
    };
    return live_new(&from, c->o->trace, &c->live, err);
}

static int run_single(struct capture *c, const sigset_t *signals, struct err *err) {
    struct gateway_session *s = NULL;
    deadline_ms until = deadline_in_ms(0);
    int rc = open_single(c, &s, err);
    rc = rc < 0 ? rc : announce(c, err);
    if (rc == 0) {
        serve(c, signals);
        until = drain(c, signals);
    }
    int closed = s ? gateway_session_close(s, until, rc < 0 ? NULL : err) : 0;
    int written = live_end(c->live, rc < 0 || closed < 0 ? NULL : err);
    return rc < 0 ? rc : closed < 0 ? closed : written;
}

/* --- many --- */

static int run_many(struct capture *c, const sigset_t *signals, struct err *err) {
    int rc = restore_sessions(c, err);
    rc = rc < 0 ? rc : announce(c, err);
    if (rc == 0) {
        serve(c, signals);
        sessions_end_all(c, drain(c, signals));
    }
    return rc;
}

/* How many calls the descriptors are enough for: of them a process mostly gets few unasked, but may
 * have many. 0: not known. */
static uint64_t make_room(void) {
    const rlim_t most = 2 * SERVER_CLIENTS_MAX + DESCRIPTORS_KEPT;
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) < 0) {
        return 0;
    }
    if (files.rlim_cur < most) {
        files.rlim_cur = files.rlim_max < most ? files.rlim_max : most;
        (void)setrlimit(RLIMIT_NOFILE, &files); /* Raising it to its bound is always allowed. */
    }
    rlim_t usable = files.rlim_cur < most ? files.rlim_cur : most;
    return usable > 2 * DESCRIPTORS_KEPT ? (usable - DESCRIPTORS_KEPT) / 2 : usable / 4 + 1;
}

static int start(struct capture *c, struct err *err) {
    const struct capture_options *o = c->o;
    const struct journal_options jo = {.dir = o->journal_dir, .durable = o->durable};
    int rc = pool_new(&c->pool, err);
    rc = rc < 0 ? rc : journal_open(&jo, &c->journal, err);
    if (rc < 0) {
        return rc;
    }
    const struct gateway_options go = {
        .journal = c->journal,
        .host = o->host ? o->host : "127.0.0.1",
        .port = o->port,
        .connections_max = make_room(),
        .keep_raw = o->keep_raw,
        .engine = o->engine,
        .workers = o->workers,
        .on_request = capture_on_request,
        .body_max_of = capture_body_max,
        .on_call_end = o->trace ? on_call_end : NULL,
        .hooks_arg = c,
    };
    rc = gateway_start(&go, &c->gateway, err);
    return rc < 0 ? rc : upstreams_load(c, err);
}

/* Else each request of some 100 KB gives its pages back, and the next one's are cleared anew. */
static void keep_memory(void) {
    (void)mallopt(M_TRIM_THRESHOLD, KEPT_BYTES);
    (void)mallopt(M_MMAP_THRESHOLD, BIG_BYTES);
}

int capture_run(const struct capture_options *o, struct err *err) {
    struct capture c = {.o = o,
                        .started = clock_unix(),
                        .judge = {.logprobs_processed = o->logprobs_processed},
                        .end_by = DEADLINE_NEVER};
    sigset_t signals;
    keep_memory();
    block_signals(&signals);
    rand_hex(c.instance, sizeof c.instance / 2);
    pthread_mutex_init(&c.mutex, NULL);
    pthread_cond_init(&c.unused, NULL);
    int rc = start(&c, err);
    if (rc == 0) {
        rc = o->sessions ? run_many(&c, &signals, err) : run_single(&c, &signals, err);
    }
    c.ready = false;
    if (c.gateway) {
        (void)gateway_connections(c.gateway); /* A handler that saw it ready has ended now. */
    }
    pool_free(c.pool); /* Its answers need the loops. */
    gateway_stop(c.gateway);
    journal_close(c.journal);
    pthread_cond_destroy(&c.unused);
    pthread_mutex_destroy(&c.mutex);
    return rc;
}
