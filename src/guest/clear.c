/* SPDX-License-Identifier: BSD-3-Clause */
#include "guest/clear.h"

#include "base/clock.h"
#include "guest/proctree.h"

#define LIMIT_MS 8000 /* As for a command: what a SIGKILL does not end by then is stuck. */
#define PAUSE_MS 5

int clear_machine(struct err *err) {
    deadline_ms until = deadline_in_ms(LIMIT_MS);
    int none = 0;
    while (none < 2) {
        int killed = proctree_kill_others(err);
        if (killed < 0) {
            return killed;
        }
        none = killed == 0 ? none + 1 : 0;
        if (deadline_passed(until)) {
            return err_set(err, ERR_TIMEOUT, "%d processes would not end", killed);
        }
        clock_sleep_ms(PAUSE_MS);
    }
    return 0;
}
