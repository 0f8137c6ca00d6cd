/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/thread.h"
#include "sandbox/local.h"

/* A start keeps the processors busy and holds a dozen descriptors for a moment: a thousand of them
 * at one time would be no faster, and pass the limit of descriptors. */
#define STARTS_AT_ONCE 16
#define LOOK_MS 500 /* How often one who waits looks at its switch. */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t given = PTHREAD_COND_INITIALIZER;
static unsigned under_way;

int local_turn_take(deadline_ms until, const struct cancel *cancel, struct err *err) {
    int r = 0;
    pthread_mutex_lock(&lock);
    while (r == 0 && under_way >= STARTS_AT_ONCE) {
        if (cancel_thrown(cancel)) {
            r = err_set(err, ERR_CANCELLED, "cancelled");
        } else if (deadline_passed(until)) {
            r = err_set(err, ERR_TIMEOUT, "no turn to start a sandbox: too many start at once");
        } else {
            thread_wait(&given, &lock, deadline_min(until, deadline_in_ms(LOOK_MS)));
        }
    }
    under_way += r == 0;
    pthread_mutex_unlock(&lock);
    return r;
}

void local_turn_give(void) {
    pthread_mutex_lock(&lock);
    under_way--;
    pthread_cond_signal(&given);
    pthread_mutex_unlock(&lock);
}
