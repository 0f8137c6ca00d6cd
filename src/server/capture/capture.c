/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/capture/capture.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>

#include "journal/journal.h"

/* How long open calls may go on after a signal; supervisors kill after 30 s or more. */
#define CAPTURE_DRAIN_S 25
#define CAPTURE_SESSION "gateway.0"

static void block_signals(sigset_t *set) {
    sigemptyset(set);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGINT);
    pthread_sigmask(SIG_BLOCK, set, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
}

static int announce(const struct capture_options *o, const struct gateway *g, struct err *err) {
    const char *host = o->host ? o->host : "127.0.0.1";
    if (printf("listening on http://%s:%u/v1\n", host, (unsigned)gateway_port(g)) < 0 ||
        fflush(stdout) != 0) {
        return err_sys(err, ERR_SYS, errno, "cannot write to standard output");
    }
    return 0;
}

static int serve(const struct capture_options *o, struct gateway *g, const sigset_t *signals,
                 struct err *err) {
    struct gateway_session *s = NULL;
    struct gateway_session_options so = o->session;
    so.name = CAPTURE_SESSION;
    int rc = gateway_session_open(g, &so, &s, err);
    if (rc < 0) {
        return rc;
    }
    gateway_set_default_session(g, s);
    rc = announce(o, g, err);
    int number = 0;
    while (rc == 0 && sigwait(signals, &number) != 0) {
    }
    int closed = gateway_session_close(s, deadline_in_s(CAPTURE_DRAIN_S), err);
    return rc < 0 ? rc : closed;
}

int capture_run(const struct capture_options *o, struct err *err) {
    struct journal *journal = NULL;
    struct gateway *g = NULL;
    sigset_t signals;
    block_signals(&signals);
    const struct journal_options jo = {.dir = o->journal_dir, .durable = o->durable};
    int rc = journal_open(&jo, &journal, err);
    if (rc == 0) {
        const struct gateway_options go = {
            .journal = journal,
            .host = o->host ? o->host : "127.0.0.1",
            .port = o->port,
            .keep_raw = o->keep_raw,
        };
        rc = gateway_start(&go, &g, err);
    }
    rc = rc < 0 ? rc : serve(o, g, &signals, err);
    gateway_stop(g);
    journal_close(journal);
    return rc;
}
