/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/mcp/lines.h"

static void give(struct mcp_lines *l, struct sv line, mcp_line_fn fn, void *arg) {
    if (line.n > 0 && line.p[line.n - 1] == '\r') {
        line.n--;
    }
    if (l->is_too_long) {
        fn(arg, SV(""), true);
    } else if (line.n > 0) {
        fn(arg, line, false);
    }
    l->is_too_long = false;
}

/* A part of a line whose end has not come. */
static int hold(struct mcp_lines *l, struct sv part, struct err *err) {
    if (!l->is_too_long && l->held.len + part.n > MCP_LINE_MAX) {
        l->is_too_long = true;
        buf_deinit(&l->held);
    }
    if (l->is_too_long || part.n == 0) {
        return 0;
    }
    int r = buf_add_sv(&l->held, part);
    return r < 0 ? err_set(err, r, "out of memory for a message") : 0;
}

int mcp_lines_feed(struct mcp_lines *l, struct sv bytes, mcp_line_fn fn, void *arg,
                   struct err *err) {
    for (;;) {
        size_t n = sv_find(bytes, SV("\n"));
        if (n == (size_t)-1) {
            return hold(l, bytes, err);
        }
        struct sv line = {bytes.p, n};
        if (l->held.len > 0 || n > MCP_LINE_MAX || l->is_too_long) {
            int r = hold(l, line, err);
            if (r < 0) {
                return r;
            }
            line = buf_sv(&l->held);
        }
        give(l, line, fn, arg);
        buf_deinit(&l->held); /* A large one is not kept for small ones. */
        bytes = sv_cut(bytes, n + 1);
    }
}

void mcp_lines_end(struct mcp_lines *l, mcp_line_fn fn, void *arg) {
    give(l, buf_sv(&l->held), fn, arg);
    buf_deinit(&l->held);
}

void mcp_lines_deinit(struct mcp_lines *l) {
    buf_deinit(&l->held);
}
