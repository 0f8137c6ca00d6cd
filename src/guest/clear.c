/* SPDX-License-Identifier: BSD-3-Clause */
#include "guest/clear.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "guest/proctree.h"
#include "guest/spawn.h"

#define LIMIT_MS 8000 /* As for a command: what a SIGKILL does not end by then is stuck. */
#define PAUSE_MS 5

/* All at once, by a process of that user's: nothing can fork ahead of it. One of the others may
 * kill it first, which the next look finds. */
static int kill_as(uint32_t user, struct err *err) {
    pid_t pid = fork();
    if (pid == 0) {
        bool is_user = become_user(user);
        if (is_user) {
            (void)kill(-1, SIGKILL);
        }
        _exit(is_user ? 0 : 1);
    }
    int status = 0;
    if (pid < 0 || waitpid(pid, &status, 0) < 0) {
        return err_sys(err, ERR_SYS, errno, "cannot start a process");
    }
    return WIFEXITED(status) && WEXITSTATUS(status) != 0
               ? err_set(err, ERR_DENIED, "cannot become user %u", user)
               : 0;
}

/* How many there were. */
static int kill_round(uint32_t user, struct err *err) {
    if (user == 0) {
        return proctree_kill_others(err);
    }
    int r = kill_as(user, err);
    return r < 0 ? r : proctree_count_user(user, err);
}

int clear_machine(uint32_t user, struct err *err) {
    deadline_ms until = deadline_in_ms(LIMIT_MS);
    int none = 0;
    while (none < 2) {
        int seen = kill_round(user, err);
        if (seen < 0) {
            return seen;
        }
        none = seen == 0 ? none + 1 : 0;
        if (deadline_passed(until)) {
            return err_set(err, ERR_TIMEOUT, "%d processes would not end", seen);
        }
        clock_sleep_ms(PAUSE_MS);
    }
    return 0;
}
