/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/serve.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>

#include "base/fd.h"
#include "base/sv.h"
#include "net/server.h"
#include "server/access.h"
#include "server/mcp/http.h"
#include "server/metrics.h"
#include "server/openenv/openenv.h"

#define LOOK_MS 20        /* How often it is looked whether the last rollout has ended. */
#define CLIENTS_SHARE 4   /* One in so many descriptors, for each of two listeners at most. */
#define LAST_WORDS_MS 250 /* For answers that are on their way when all has ended. */

struct serve {
    const struct serve_options *o;
    struct access access;
    unsigned clients_max; /* Of each listener. */
    struct loop *loop;
    struct tool_box *tools;
    struct mcp_http *mcp;
    struct openenv *openenv;
    struct server *server;
    double started;
    bool has_ended; /* The loop's: nobody is left to answer. */
};

/* --- requests --- */

static void refuse(struct exchange *x, enum access_verdict why) {
    static const struct server_field fields[] = {
        {{"Content-Type", 12}, {"application/json", 16}},
        {{"WWW-Authenticate", 16}, {"Bearer", 6}},
    };
    bool no_key = why == ACCESS_NO_KEY;
    struct sv text = no_key
                         ? SV("{\"detail\":\"a key is needed: send Authorization: Bearer KEY, or "
                              "put /k/KEY before the path\"}")
                         : SV("{\"detail\":\"a page of this origin may not ask here\"}");
    (void)exchange_start(x, no_key ? 401 : 403, fields, no_key ? 2 : 1, HTTP1_LENGTH, text.n);
    (void)exchange_send(x, text);
    exchange_end(x);
}

/* Of who may ask; and nothing for the one path that needs no key. */
static size_t body_max_of(struct exchange *x, void *arg) {
    const struct serve *s = arg;
    struct sv path;
    bool may = access_judge(&s->access, x, &path) == ACCESS_GRANTED;
    return may && !sv_eq(path, SV("/health")) ? SERVE_BODY_MAX : 0;
}

static void on_request(struct exchange *x, void *arg) {
    struct serve *s = arg;
    struct sv path;
    enum access_verdict verdict = access_judge(&s->access, x, &path);
    if (s->has_ended) {
        exchange_cut(x, EXCHANGE_CUT_FIN);
    } else if (verdict != ACCESS_GRANTED) {
        refuse(x, verdict);
    } else if (openenv_request(s->openenv, x, path)) {
        return;
    } else if (sv_eq(path, SV("/mcp"))) {
        mcp_http_request(s->mcp, x);
    } else if (sv_eq(path, SV("/metrics")) && sv_eq(exchange_head(x)->method, SV("GET"))) {
        metrics_answer(x, s->tools, s->openenv, s->started);
    } else {
        exchange_reply(x, 404, SV("application/json"), SV("{\"detail\":\"Not Found\"}"));
    }
}

/* --- its life --- */

static int listen_on(struct serve *s, struct err *err) {
    const struct serve_options *o = s->o;
    const struct server_options so = {
        .host = o->host ? o->host : "127.0.0.1",
        .port = o->port,
        .body_max = SERVE_BODY_MAX,
        .held_max = SERVE_HELD_MAX,
        .clients_max = s->clients_max,
        .body_max_of = body_max_of,
        .on_request = on_request,
        .arg = s,
    };
    return server_new(s->loop, &so, &s->server, err);
}

static int start(struct serve *s, struct err *err) {
    const struct serve_options *o = s->o;
    struct tool_options tools = *o->tools;
    tools.clients_max = s->clients_max;
    int r = tool_box_new(&tools, &s->tools, err);
    r = r < 0 ? r : tool_box_check(s->tools, err);
    r = r < 0 ? r : loop_new(&s->loop, err);
    if (r < 0) {
        return r;
    }
    const struct openenv_options oo = {
        .loop = s->loop,
        .tools = s->tools,
        .sessions_max = o->sessions_max,
        .production = o->production,
        .web = o->web,
        .tasks = o->tasks,
    };
    r = openenv_new(&oo, &s->openenv, err);
    if (r < 0) {
        return r;
    }
    const struct mcp_http_options mo = {
        .loop = s->loop,
        .tools = s->tools,
        .openenv = &openenv_rpc_hooks,
        .openenv_arg = openenv_rpc_arg(s->openenv),
    };
    r = mcp_http_new(&mo, &s->mcp, err);
    return r < 0 ? r : listen_on(s, err);
}

static int announce(const struct serve *s, struct err *err) {
    const char *host = s->o->host ? s->o->host : "127.0.0.1";
    bool is_v6 = sv_find(sv_from(host), SV(":")) != (size_t)-1;
    if (printf("listening on http://%s%s%s:%u\n", is_v6 ? "[" : "", host, is_v6 ? "]" : "",
               (unsigned)server_port(s->server)) < 0 ||
        fflush(stdout) != 0) {
        return err_sys(err, ERR_SYS, errno, "cannot write to standard output");
    }
    return 0;
}

static void drain_server(void *arg) {
    struct serve *s = arg;
    server_drain(s->server);
}

/* Until no call is under way, or the time is over, or a signal comes. */
static void await_calls(struct serve *s, const sigset_t *signals, double seconds) {
    deadline_ms until = deadline_in_s(seconds);
    const struct timespec look = {.tv_nsec = LOOK_MS * 1000000L};
    while (tool_box_calls(s->tools) > 0 && !deadline_passed(until)) {
        if (sigtimedwait(signals, NULL, &look) > 0) {
            return;
        }
    }
}

static void serve_until_signal(const sigset_t *signals) {
    int number = 0;
    while (sigwait(signals, &number) != 0) {
    }
}

static void wind_down(struct serve *s, const sigset_t *signals) {
    tool_box_refuse(s->tools);
    loop_call(s->loop, drain_server, s);
    await_calls(s, signals, s->o->drain_s);
    tool_box_cancel(s->tools, /* hard= */ false);
    await_calls(s, signals, SERVE_COLLECT_S);
    tool_box_cancel(s->tools, /* hard= */ true);
    while (tool_box_calls(s->tools) > 0) { /* Teardown has its own time limits. */
        clock_sleep_ms(LOOK_MS);
    }
    clock_sleep_ms(LAST_WORDS_MS);
}

static void end_answers(void *arg) {
    struct serve *s = arg;
    s->has_ended = true;
}

static void stop(struct serve *s) {
    if (s->loop) {
        loop_call(s->loop, end_answers, s);
    }
    openenv_free(s->openenv);
    mcp_http_free(s->mcp);
    server_free(s->server);
    loop_free(s->loop);
    tool_box_free(s->tools);
}

/* What strangers hold open must leave descriptors for sessions and rollouts. */
static unsigned clients_max(void) {
    unsigned long share = fd_raise_limit() / CLIENTS_SHARE;
    return share < SERVE_CLIENTS_MAX ? (unsigned)share + 1 : SERVE_CLIENTS_MAX;
}

static void block_signals(sigset_t *set) {
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigemptyset(set);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGINT);
    pthread_sigmask(SIG_BLOCK, set, NULL);
    (void)sigaction(SIGPIPE, &ignore, NULL);
}

int serve_run(const struct serve_options *o, struct err *err) {
    struct serve s = {
        .o = o,
        .started = clock_unix(),
        .clients_max = clients_max(),
        .access = {.key = o->key, .is_public = o->tools->is_public},
    };
    sigset_t signals;
    block_signals(&signals);
    int r = start(&s, err);
    r = r < 0 ? r : announce(&s, err);
    if (r == 0) {
        serve_until_signal(&signals);
        wind_down(&s, &signals);
    }
    stop(&s);
    return r;
}
