/* SPDX-License-Identifier: BSD-3-Clause */
/* A client's WebSocket and its session: /ws with OpenEnv's messages, one after the other, and /mcp
 * with JSON-RPC as it is. */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "net/websocket.h"
#include "server/openenv/face.h"

/* Clients of /ws wait for each answer, those of /mcp have a few calls at once. */
#define WAITING_MAX 64u
#define WAITING_BYTES_MAX WEBSOCKET_MESSAGE_MAX

/* Why there is no session stands as the answer to the client's first request: it is let to send
 * that, for so long, since its library may drop what was received when it is closed before. */
#define REFUSED_MS 3000
#define REFUSED_MAX 64u

struct waiting {
    struct waiting *next;
    struct sv text; /* Behind the struct. */
};

struct link {
    struct openenv *openenv;
    struct link *prev, *next;
    struct websocket *socket;
    char peer[CONN_PEER_MAX];
    struct session *session;
    struct rpc *rpc;
    struct rpc_door door;
    bool is_bare;
    bool is_busy; /* Of /ws: a message is being answered. */
    bool in_work; /* go_on is on the stack. */
    bool is_refused;
    struct step *step;
    struct timer *timer; /* Goes on in a moment. */
    struct waiting *first;
    struct waiting **last;
    unsigned n_waiting;
    size_t waiting_bytes;
};

/* The caller frees it. */
static struct waiting *take_waiting(struct link *l) {
    struct waiting *w = l->first;
    l->first = w->next;
    l->last = l->first ? l->last : &l->first;
    l->n_waiting--;
    l->waiting_bytes -= w->text.n;
    return w;
}

/* Its socket is closed or gone. */
static void end(struct link *l) {
    struct openenv *e = l->openenv;
    *(l->prev ? &l->prev->next : &e->links) = l->next;
    if (l->next) {
        l->next->prev = l->prev;
    }
    e->n_refused -= l->is_refused;
    timer_free(l->timer);
    step_drop(l->step);
    rpc_free(l->rpc);
    door_forget(&l->door);
    if (l->session && l->session->over_http) {
        session_detach(l->session);
    } else if (l->session) {
        sessions_close(e->sessions, l->session);
    }
    while (l->first) {
        free(take_waiting(l));
    }
    free(l);
}

static void close_link(struct link *l, enum websocket_status status, struct sv why) {
    websocket_close(l->socket, status, why);
    end(l);
}

void link_end_all(struct openenv *e) {
    while (e->links) {
        close_link(e->links, WEBSOCKET_GOING_AWAY, SV("the server ends"));
    }
}

/* --- /ws --- */

/* A failure to send needs no care: on_gone comes. */
static void send_text(struct link *l, struct sv text) {
    int r = websocket_send(l->socket, text);
    (void)r;
}

static void set_free(struct link *l) {
    l->is_busy = false;
    if (!l->in_work) {
        timer_start(l->timer, 0); /* Who called this must not find the link ended. */
    }
}

/* The answer to the message that is being worked on. */
static void reply(struct link *l, const char *type, struct sv data) {
    AUTO_BUF struct buf out = {0};
    if (message_put(&out, type, data) == 0) {
        send_text(l, buf_sv(&out));
    }
    set_free(l);
}

static void on_step(void *arg, struct sv payload) {
    struct link *l = arg;
    AUTO_BUF struct buf out = {0};
    l->step = NULL;
    if (payload.n > 0) {
        reply(l, "observation", payload);
        return;
    }
    if (message_put_error(&out, "EXECUTION_ERROR", "out of memory", NULL) == 0) {
        send_text(l, buf_sv(&out));
    }
    set_free(l);
}

static void on_rpc(void *arg, struct sv answer) {
    reply(arg, "mcp", answer);
}

/* false: the link has ended. */
static bool take(struct link *l, struct sv text) {
    AUTO_BUF struct buf out = {0};
    const struct message_context c = {
        .openenv = l->openenv,
        .client = l->peer,
        .session = l->session,
        .rpc = l->rpc,
        .on_rpc = on_rpc,
        .on_step = on_step,
        .arg = l,
    };
    struct step *step = NULL;
    session_asked(l->openenv->sessions, l->session);
    l->is_busy = true;
    enum message_fate fate = message_take(&c, text, &step, &out);
    if (fate == MESSAGE_WAITS) {
        l->step = step;
        return true;
    }
    l->is_busy = false;
    if (fate != MESSAGE_CLOSES) {
        send_text(l, buf_sv(&out));
    }
    if (fate != MESSAGE_ANSWERED) {
        close_link(l, WEBSOCKET_NORMAL, (struct sv){0});
        return false;
    }
    return true;
}

/* Works through what waits, as long as each is answered at once. */
static void go_on(void *arg) {
    struct link *l = arg;
    if (l->is_refused) {
        close_link(l, WEBSOCKET_NORMAL, (struct sv){0});
        return;
    }
    l->in_work = true;
    while (!l->is_busy && l->first) {
        struct waiting *w = take_waiting(l);
        bool goes_on = take(l, w->text);
        free(w);
        if (!goes_on) {
            return;
        }
    }
    l->in_work = false;
}

static bool add_waiting(struct link *l, struct sv text) {
    struct waiting *w = NULL;
    if (l->n_waiting < WAITING_MAX && text.n <= WAITING_BYTES_MAX - l->waiting_bytes) {
        w = malloc(sizeof *w + text.n);
    }
    if (!w) {
        return false;
    }
    char *copy = (char *)(w + 1);
    if (text.n > 0) {
        memcpy(copy, text.p, text.n);
    }
    *w = (struct waiting){.text = {copy, text.n}};
    *l->last = w;
    l->last = &w->next;
    l->n_waiting++;
    l->waiting_bytes += text.n;
    return true;
}

/* --- /mcp --- */

static void on_bare_answer(void *arg, struct sv answer) {
    if (answer.n > 0) {
        send_text(arg, answer);
    }
}

static void take_bare(struct link *l, struct sv text) {
    const struct rpc_sink sink = {.on_answer = on_bare_answer, .arg = l, .client = l->peer};
    session_asked(l->openenv->sessions, l->session);
    if (rpc_calls(l->rpc) >= WAITING_MAX) {
        close_link(l, WEBSOCKET_POLICY, SV("too many requests wait for their answer"));
        return;
    }
    rpc_feed(l->rpc, text, &sink);
}

/* --- both --- */

static void on_text(struct websocket *w, struct sv text, void *arg) {
    struct link *l = arg;
    (void)w;
    if (l->is_refused) {
        close_link(l, WEBSOCKET_NORMAL, (struct sv){0});
    } else if (l->is_bare) {
        take_bare(l, text);
    } else if (!add_waiting(l, text)) {
        close_link(l, WEBSOCKET_POLICY, SV("too many messages wait for their answer"));
    } else {
        go_on(l);
    }
}

static void on_gone(struct websocket *w, void *arg) {
    (void)w;
    end(arg);
}

/* Tells why there is no session, and ends. */
static void refuse(struct link *l, const struct err *err) {
    const struct sessions *s = l->openenv->sessions;
    bool is_full = err->code == ERR_QUOTA;
    AUTO_BUF struct buf out = {0};
    bool is_wrong = err->code == ERR_NOT_FOUND;
    json_t *more = is_full    ? json_pack("{s:i, s:i}", "active_sessions", (int)sessions_active(s),
                                          "max_sessions", (int)sessions_max(s))
                   : is_wrong ? json_object()
                              : json_pack("{s:s}", "factory_name", "OpenCodeEnvironment");
    int r;
    if (l->is_bare) {
        AUTO_JSON json_t *answer =
            json_pack("{s:s, s:n, s:{s:i, s:s, s:o}}", "jsonrpc", "2.0", "id", "error", "code",
                      RPC_SERVER_ERROR, "message", err->msg, "data", more);
        r = answer ? json_compact(answer, &out) : ERR_NOMEM;
    } else {
        r = message_put_error(&out,
                              is_full    ? "CAPACITY_REACHED"
                              : is_wrong ? "SESSION_ERROR"
                                         : "FACTORY_ERROR",
                              err->msg, more);
    }
    if (r == 0) {
        send_text(l, buf_sv(&out));
    }
    if (!l->timer || l->openenv->n_refused >= REFUSED_MAX) {
        close_link(l, WEBSOCKET_NORMAL, (struct sv){0});
    } else {
        l->is_refused = true;
        l->openenv->n_refused++;
        timer_start(l->timer, REFUSED_MS);
    }
}

/* "session_id=..." of the query: the session that it wants to join; else empty. */
static struct sv wanted_session(struct sv query) {
    struct sv name = SV("session_id=");
    while (query.n > 0) {
        size_t n = sv_find(query, SV("&"));
        struct sv one = {query.p, n == (size_t)-1 ? query.n : n};
        if (sv_starts_with(one, name)) {
            return sv_cut(one, name.n);
        }
        query = sv_cut(query, one.n + 1);
    }
    return (struct sv){0};
}

/* The one that was asked for, or a new one. */
static int take_session(struct link *l, struct sv wanted, struct err *err) {
    struct sessions *s = l->openenv->sessions;
    if (wanted.n == 0) {
        return sessions_open(s, /* over_http= */ false, &l->session, err);
    }
    struct session *one = sessions_find(s, wanted);
    if (!one || !one->over_http) {
        return err_set(err, ERR_NOT_FOUND, "Unknown session_id: %.*s",
                       (int)(wanted.n < 100 ? wanted.n : 100), wanted.p);
    }
    if (one->is_attached) {
        return err_set(err, ERR_NOT_FOUND, "Session %s already has an attached WebSocket", one->id);
    }
    session_attach(one);
    session_asked(s, one);
    l->session = one;
    return 0;
}

void link_accept(struct openenv *e, struct exchange *x, bool is_bare) {
    struct err err = {0};
    struct link *l = calloc(1, sizeof *l);
    const struct websocket_options o = {.on_text = on_text, .on_gone = on_gone, .arg = l};
    struct sv query = wanted_session(exchange_query(x));
    AUTO_FREE char *wanted = mem_strndup(query.p ? query.p : "", query.n); /* `x` goes. */
    if (!l || !wanted) {
        free(l);
        exchange_cut(x, EXCHANGE_CUT_RESET);
        return;
    }
    exchange_peer(x, l->peer);
    if (websocket_accept(x, &o, &l->socket, &err) < 0) {
        free(l);
        return;
    }
    l->openenv = e;
    l->is_bare = is_bare;
    l->last = &l->first;
    l->next = e->links;
    if (e->links) {
        e->links->prev = l;
    }
    e->links = l;
    const struct rpc_options ro = {
        .tools = e->options.tools,
        .loop = e->options.loop,
        .face = RPC_OPENENV,
        .hooks = &openenv_rpc_hooks,
        .hooks_arg = &l->door,
    };
    int r = timer_new(e->options.loop, go_on, l, &l->timer, &err);
    r = r < 0 ? r : rpc_new(&ro, &l->rpc, &err);
    r = r < 0 ? r : take_session(l, is_bare ? (struct sv){0} : sv_from(wanted), &err);
    l->door = (struct rpc_door){.openenv = e, .own = l->session};
    if (r < 0) {
        refuse(l, &err);
    }
}
