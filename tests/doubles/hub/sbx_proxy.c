/* SPDX-License-Identifier: BSD-3-Clause */
/* proxy/PORT/PATH: the request goes to 127.0.0.1:PORT with its prefix cut off, then bytes flow. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "net/dial.h"
#include "tests/doubles/hub/pair.h"
#include "tests/doubles/hub/sbx.h"

struct visit {
    struct exchange *x;
    struct dial *dial;
    unsigned port;
    struct buf head;
};

static int put_request(struct visit *v, struct sv target) {
    const struct http1_head *head = exchange_head(v->x);
    struct sv query = exchange_query(v->x);
    AUTO_FREE char *path =
        mem_printf("/%.*s%s%.*s", SV_ARG(target), query.n ? "?" : "", SV_ARG(query));
    struct sv body = exchange_body(v->x);
    int r = path ? http1_put_request(&v->head, head->method, sv_from(path), NULL) : ERR_NOMEM;
    for (size_t i = 0; r == 0 && i < head->n_fields; i++) {
        if (!sv_eq_nocase(http1_name(head, i), SV("x-sandbox-token"))) {
            r = buf_add_sv(&v->head, http1_line(head, i)); /* Connection and Upgrade as they are. */
        }
    }
    r = r < 0 ? r : http1_put_end(&v->head, NULL);
    return r < 0 ? r : buf_add_sv(&v->head, body);
}

static void visit_free(struct visit *v) {
    buf_deinit(&v->head);
    free(v);
}

static void on_done(struct conn *inner, const struct err *err, void *arg) {
    struct visit *v = arg;
    struct conn *outer = NULL;
    AUTO_BUF struct buf early = {0};
    if (!inner) {
        int code = err && err->sys ? err->sys : ECONNREFUSED;
        sbx_fail(v->x, 502, "cannot reach port %u in sandbox: %s (os error %d)", v->port,
                 strerror(code), code);
    } else if (exchange_take(v->x, &outer, &early, NULL) < 0) {
        conn_abort(inner);
    } else if (conn_write(inner, buf_sv(&v->head)) < 0 || conn_write(inner, buf_sv(&early)) < 0) {
        conn_abort(inner);
        conn_abort(outer);
    } else {
        pair_join(outer, inner, 0);
    }
    visit_free(v);
}

void sbx_proxy(struct sbx *s, struct exchange *x, struct sv rest) {
    size_t slash = sv_find(rest, SV("/"));
    struct sv port_text = slash == (size_t)-1 ? rest : (struct sv){rest.p, slash};
    unsigned long long port = 0;
    struct err err = {0};
    if (port_text.n == 0) {
        sbx_fail(x, 404, "proxy target must be /proxy/<port>/<path>");
        return;
    }
    if (!sv_parse_u64(port_text, 65535, &port)) {
        sbx_fail(x, 502,
                 "cannot reach port %.*s in sandbox: proxy port must be a number in dedicated mode",
                 SV_ARG(port_text));
        return;
    }
    struct visit *v = calloc(1, sizeof *v);
    BUG_IF(!v);
    v->x = x;
    v->port = (unsigned)port;
    struct dial_options o = {
        .host = "127.0.0.1", .port = (uint16_t)port, .on_done = on_done, .arg = v};
    int r = put_request(v, slash == (size_t)-1 ? (struct sv){0} : sv_cut(rest, slash + 1));
    r = r < 0 ? r : dial_start(s->loop, &o, &v->dial, &err);
    if (r < 0) {
        visit_free(v);
        sbx_fail(x, 500, "%s", err.msg);
    }
}
