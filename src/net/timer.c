/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>

#include "net/loop_internal.h"

struct timer {
    uv_timer_t uv;
    void (*fn)(void *arg);
    void *arg;
};

int timer_new(struct loop *l, void (*fn)(void *arg), void *arg, struct timer **out,
              struct err *err) {
    struct timer *t = calloc(1, sizeof *t);
    if (!t) {
        return err_set(err, ERR_NOMEM, "no memory for a timer");
    }
    uv_timer_init(&l->uv, &t->uv);
    t->uv.data = t;
    t->fn = fn;
    t->arg = arg;
    *out = t;
    return 0;
}

static void on_fire(uv_timer_t *uv) {
    struct timer *t = uv->data;
    t->fn(t->arg);
}

void timer_start(struct timer *t, int64_t ms) {
    uv_update_time(t->uv.loop); /* The loop's clock may be a whole batch old. */
    uv_timer_start(&t->uv, on_fire, ms > 0 ? (uint64_t)ms : 0, 0);
}

void timer_stop(struct timer *t) {
    uv_timer_stop(&t->uv);
}

static void on_closed(uv_handle_t *h) {
    free(h->data);
}

void timer_free(struct timer *t) {
    if (t) {
        uv_close((uv_handle_t *)&t->uv, on_closed);
    }
}
