/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

#include "base/rand.h"
#include "server/mcp/http_internal.h"

static void unlink_session(struct mcp_http *m, struct mcp_session *s) {
    *(s->previous ? &s->previous->next : &m->first) = s->next;
    *(s->next ? &s->next->previous : &m->last) = s->previous;
}

static void put_first(struct mcp_http *m, struct mcp_session *s) {
    s->previous = NULL;
    s->next = m->first;
    *(m->first ? &m->first->previous : &m->last) = s;
    m->first = s;
}

void mcp_session_touch(struct mcp_http *m, struct mcp_session *s) {
    s->used_ms = loop_now_ms(m->o.loop);
    unlink_session(m, s);
    put_first(m, s);
}

struct mcp_session *mcp_session_find(struct mcp_http *m, struct sv id) {
    for (struct mcp_session *s = m->first; s; s = s->next) {
        if (sv_eq_constant_time(sv_from(s->id), id)) {
            return s;
        }
    }
    return NULL;
}

void mcp_session_end(struct mcp_http *m, struct mcp_session *s, int status) {
    struct mcp_post *next = NULL;
    for (struct mcp_post *p = m->posts; p; p = next) {
        next = p->next;
        if (p->session == s) {
            mcp_post_give_up(p, status);
        }
    }
    unlink_session(m, s);
    m->n_sessions--;
    rpc_free(s->rpc);
    free(s);
}

/* The one without a call that was used longest ago makes room. */
static bool make_room(struct mcp_http *m) {
    struct mcp_session *s = m->last;
    while (s && rpc_calls(s->rpc) > 0) {
        s = s->previous;
    }
    if (s) {
        mcp_session_end(m, s, 404);
    }
    return s != NULL;
}

struct mcp_session *mcp_session_open(struct mcp_http *m) {
    struct rpc_options o = {.tools = m->o.tools, .loop = m->o.loop, .face = RPC_MCP};
    if (m->n_sessions >= MCP_HTTP_SESSIONS_MAX && !make_room(m)) {
        return NULL;
    }
    struct mcp_session *s = calloc(1, sizeof *s);
    if (!s || rpc_new(&o, &s->rpc, NULL) < 0) {
        free(s);
        return NULL;
    }
    rand_hex(s->id, SESSION_ID_BYTES);
    s->used_ms = loop_now_ms(m->o.loop);
    put_first(m, s);
    m->n_sessions++;
    return s;
}

void mcp_sessions_reap(struct mcp_http *m) {
    int64_t now = loop_now_ms(m->o.loop);
    struct mcp_session *previous = NULL;
    for (struct mcp_session *s = m->last; s; s = previous) {
        previous = s->previous;
        if (now - s->used_ms < MCP_HTTP_IDLE_MS) {
            return; /* Those before were used later. */
        }
        if (rpc_calls(s->rpc) == 0) {
            mcp_session_end(m, s, 404);
        }
    }
}
