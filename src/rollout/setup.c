/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "rollout/command.h"
#include "rollout/session_impl.h"

#define EXTRA_SETUP_ATTEMPTS 2 /* As the reference: it mostly downloads something. */
#define EXTRA_SETUP_BACKOFF_S 2.0
#define SHOWN_CHARS 120 /* Of a command in an error text. */

static double left_s(deadline_ms until) {
    return (double)deadline_left_ms(until) / 1000;
}

/* 0 when the command ended with 0; ERR_STATE when not, ERR_TIMEOUT when there was no time. */
static int run_one(struct rollout_session *s, const char *shell, deadline_ms until, json_t *results,
                   struct err *err) {
    double seconds = left_s(until);
    if (seconds <= 0) {
        return err_set(err, ERR_TIMEOUT, "setup is out of time before: %.*s", SHOWN_CHARS, shell);
    }
    struct command_end end = {0};
    int r =
        command_run(s->sandbox,
                    &(struct sandbox_exec){
                        .shell = shell, .cwd = s->workdir, .timeout_s = seconds, .cancel = s->stop},
                    results, &end, err);
    if (r < 0) {
        return r;
    }
    if (end.timed_out) {
        return err_set(err, ERR_TIMEOUT, "setup command timed out: %.*s", SHOWN_CHARS, shell);
    }
    if (end.exit_code != 0) {
        return err_set(err, ERR_STATE, "setup command failed (exit %d): %.*s", end.exit_code,
                       SHOWN_CHARS, shell);
    }
    return 0;
}

/* The configuration's own command stands in setup_results only if it failed, so that they count
 * the task's commands. */
static int run_extra(struct rollout_session *s, const char *shell, deadline_ms until,
                     struct err *err) {
    session_say(s, shell, "setup [extra_setup_shell]");
    for (unsigned n = 1;; n++) {
        json_t *results = json_array();
        if (!results) {
            return err_set(err, ERR_NOMEM, "out of memory");
        }
        int r = run_one(s, shell, until, results, err);
        bool again = r == ERR_STATE && n < EXTRA_SETUP_ATTEMPTS;
        if (r < 0 && !again && json_array_extend(s->setup_results, results) < 0) {
            r = err_set(err, ERR_NOMEM, "out of memory");
        }
        json_decref(results);
        if (!again) {
            return r;
        }
        r = cancel_sleep(s->stop, deadline_min(until, deadline_in_s(EXTRA_SETUP_BACKOFF_S)), err);
        if (r < 0) {
            return r;
        }
    }
}

int session_setup(struct rollout_session *s, struct err *err) {
    deadline_ms until = session_deadline(s, ROLLOUT_PHASE_SETUP);
    const char *extra = s->factory->o.config->extra_setup_shell;
    if (extra) {
        int r = run_extra(s, extra, until, err);
        if (r < 0) {
            return r;
        }
    }
    for (size_t i = 0; i < s->task->n_setup; i++) {
        session_say(s, s->task->setup[i], "setup [%zu/%zu]", i + 1, s->task->n_setup);
        int r = run_one(s, s->task->setup[i], until, s->setup_results, err);
        if (r < 0) {
            return r;
        }
    }
    return 0;
}
