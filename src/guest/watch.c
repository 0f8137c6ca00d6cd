/* SPDX-License-Identifier: BSD-3-Clause */
#include "guest/watch.h"

#include <fcntl.h>

#include "guest/protocol.h"

#define LOOK_MS 250         /* While we count memory ourselves: a program fills 500 MB in that. */
#define LOOK_RARELY_MS 1000 /* A full file system mostly stays full. */
#define COUNT_MS 1000       /* Between two counts of the home. */
#define PIECE_MS 20         /* Between two pieces of a count ... */
#define PIECE_ENTRIES 1000  /* ... of 2 ms each: a tenth of a processor at most. */
#define KILL_MS 10000       /* Longer than any end takes. */

/* What a kill left is not held against the next command, which may come to clean up; but what it
 * adds is. */
#define FORGIVEN_SHARE 16

static void kill_everything(struct watch *w, uint64_t hit) {
    w->hits |= hit;
    w->is_killing = true;
    kill_all_start(w->kill_all, deadline_in_ms(KILL_MS));
}

/* The cheap count is never too low: only what passes it is counted exactly. */
static void look_at_processes(struct watch *w) {
    const struct watch_options *o = &w->options;
    struct usage_processes u;
    if ((!o->memory_mb && !o->processes) || !usage_processes(false, &u)) {
        return;
    }
    if (o->processes && u.threads >= o->processes) {
        w->hits |= PROTOCOL_LIMIT_PROCESSES;
    }
    uint64_t most = o->memory_mb << 20;
    if (most && u.bytes > most && usage_processes(true, &u) && u.bytes > most) {
        kill_everything(w, PROTOCOL_LIMIT_MEMORY);
    }
}

static void look(struct watch *w) {
    if (w->kill_all->is_running) {
        return; /* What dies may still be counted. */
    }
    look_at_processes(w);
    if (w->options.home_has_bound && usage_is_full(w->home_fd)) {
        w->hits |= PROTOCOL_LIMIT_HOME_FULL;
    }
    if (usage_path_is_full("/tmp") || usage_path_is_full("/dev/shm")) {
        w->hits |= PROTOCOL_LIMIT_SCRATCH_FULL;
    }
}

static void on_look(struct loop_timer *t) {
    struct watch *w = LOOP_OWNER(t, struct watch, look);
    bool counts = w->options.memory_mb || w->options.processes;
    look(w);
    loop_arm(w->loop, t, deadline_in_ms(counts ? LOOK_MS : LOOK_RARELY_MS));
}

static void judge_disk(struct watch *w) {
    uint64_t limit = w->options.disk_mb << 20;
    if (w->forgives) {
        w->forgives = w->kill_all->is_running;
        w->disk_allowed = w->walk.bytes > limit ? w->walk.bytes + limit / FORGIVEN_SHARE : limit;
    } else if (w->walk.bytes > w->disk_allowed) {
        w->forgives = true;
        kill_everything(w, PROTOCOL_LIMIT_HOME_OVER);
    } else if (w->walk.bytes <= limit) {
        w->disk_allowed = limit;
    }
}

static void on_count(struct loop_timer *t) {
    struct watch *w = LOOP_OWNER(t, struct watch, count);
    bool is_through = usage_walk_step(&w->walk, w->home_fd, PIECE_ENTRIES);
    if (is_through) {
        judge_disk(w);
    }
    loop_arm(w->loop, t, deadline_in_ms(is_through ? COUNT_MS : PIECE_MS));
}

void watch_begin(struct watch *w, struct loop *loop, struct kill_all *kill_all,
                 const struct watch_options *options) {
    *w = (struct watch){.options = *options, .loop = loop, .kill_all = kill_all};
    w->home_fd = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    w->look.on_time = on_look;
    w->count.on_time = on_count;
    loop_arm(loop, &w->look, deadline_in_ms(LOOK_MS));
    if (options->disk_mb && w->home_fd >= 0) {
        w->disk_allowed = options->disk_mb << 20;
        loop_arm(loop, &w->count, deadline_in_ms(COUNT_MS));
    }
}

void watch_kill_ended(struct watch *w) {
    w->is_killing = false;
}

uint64_t watch_hits(struct watch *w) {
    look(w);
    return w->hits | (w->kill_all->jobs->was_refused ? PROTOCOL_LIMIT_PROCESSES : 0);
}
