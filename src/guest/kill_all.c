/* SPDX-License-Identifier: BSD-3-Clause */
#include "guest/kill_all.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest/proctree.h"

#define PAUSE_FIRST_MS 1
#define PAUSE_MAX_MS 20 /* Short against any deadline; a scan of /proc costs far less. */

static bool has_children(void) {
    siginfo_t info;
    return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 || errno != ECHILD;
}

/* Sends the signal once; how many processes are left, as far as can be seen. */
static int kill_round(struct kill_all *k) {
    bool is_init = getpid() == 1;
    if (is_init) {
        kill(-1, SIGKILL); /* All at once: nothing can fork ahead of it. */
    } else {
        struct proctree_kill below = {.root = getpid()};
        int n = proctree_kill(&below, NULL);
        (void)n; /* What it missed is a child still. */
    }
    jobs_reap(k->jobs);
    int others = is_init ? proctree_count_others(NULL) : 0;
    if (others != 0) {
        return others < 0 ? 1 : others;
    }
    return has_children() ? 1 : 0;
}

static void on_again(struct loop_timer *t) {
    struct kill_all *k = LOOP_OWNER(t, struct kill_all, again);
    int left = kill_round(k);
    if (left == 0 || deadline_passed(k->until)) {
        k->is_running = false;
        k->on_end(k, left);
        return;
    }
    loop_arm(k->jobs->loop, t, deadline_in_ms(k->pause_ms));
    k->pause_ms = k->pause_ms * 2 > PAUSE_MAX_MS ? PAUSE_MAX_MS : k->pause_ms * 2;
}

void kill_all_init(struct kill_all *k, struct jobs *jobs, void (*on_end)(struct kill_all *, int)) {
    *k = (struct kill_all){.jobs = jobs, .on_end = on_end, .again.on_time = on_again};
}

void kill_all_start(struct kill_all *k, deadline_ms until) {
    if (k->is_running) {
        k->until = until > k->until ? until : k->until;
        return;
    }
    k->is_running = true;
    k->until = until;
    k->pause_ms = PAUSE_FIRST_MS;
    loop_arm(k->jobs->loop, &k->again, clock_ms());
}
