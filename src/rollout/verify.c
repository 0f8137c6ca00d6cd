/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "rollout/command.h"
#include "rollout/reward.h"
#include "rollout/session_impl.h"

#define CLEAN_UP_S 60 /* Emptying a folder that the agent filled up to its disk limit. */
#define KILL_ALL_S 20 /* As for the agent. */
#define SHOWN_CHARS 120

/*
 * Makes the places that the verifier writes to and its files go to, whatever the agent left there:
 * links, FIFOs, folders without permissions. A folder reached by a link is taken if it is in the
 * home. $1 is the home; the rest are the verifier's files.
 */
static const char make_room[] =
    "set -u\n"
    "home=$1; shift\n"
    "drop() { [ ! -L \"$1\" ] && [ -d \"$1\" ] && chmod -R u+rwx -- \"$1\"; rm -rf -- \"$1\"; }\n"
    "is_own() { case $(realpath -- \"$1\") in \"$real_home\"/*) ;; *) return 1 ;; esac; }\n"
    "folder() {\n"
    "  if [ -d \"$1\" ] && is_own \"$1\"; then chmod u+rwx -- \"$1\"\n"
    "  else drop \"$1\"; mkdir -- \"$1\"; fi\n"
    "}\n"
    "chmod u+rwx -- \"$home\"\n"
    "real_home=$(realpath -- \"$home\") || exit 1\n"
    "[ ! -L \"$home/logs\" ] || drop \"$home/logs\"\n"
    "folder \"$home/logs\"\n"
    "drop \"$home/logs/verifier\"\n"
    "mkdir -- \"$home/logs/verifier\" || exit 1\n"
    "folder \"$home/workdir\" || exit 1\n"
    "for file in \"$@\"; do\n"
    "  case $file in \"$home\"/*) ;; *) continue ;; esac\n"
    "  at=$home; rest=${file#\"$home\"/}\n"
    "  while [ \"${rest#*/}\" != \"$rest\" ]; do\n"
    "    at=$at/${rest%%/*}; rest=${rest#*/}; folder \"$at\" || exit 1\n"
    "  done\n"
    "  drop \"$file\"\n"
    "done\n"
    "[ -d \"$home/logs/verifier\" ] && [ -d \"$home/workdir\" ]\n";

/* Runs make_room in the clean sandbox. */
static int run_make_room(struct rollout_session *s, const char *const *argv, struct err *err) {
    struct sandbox_output out = {0};
    int r = sandbox_exec(
        s->sandbox,
        &(struct sandbox_exec){
            .argv = argv, .clean = true, .cwd = "/", .timeout_s = CLEAN_UP_S, .cancel = s->stop},
        &out, err);
    if (r >= 0 && out.exit_code != 0) {
        r = err_set(err, ERR_SYS, "cannot make room for the verifier (exit %d): %.200s",
                    out.exit_code, buf_cstr(&out.err));
    }
    sandbox_output_deinit(&out);
    return r;
}

static void free_strings(char **strings, size_t n) {
    for (size_t i = 0; i < n; i++) {
        free(strings[i]);
    }
    free(strings);
}

static int prepare_home(struct rollout_session *s, struct err *err) {
    const struct task *t = s->task;
    const char *home = sandbox_home(s->sandbox);
    const char *fixed[] = {"bash", "--noprofile", "--norc", "-c", make_room, "make-room", home};
    size_t n = ARRAY_LEN(fixed);
    const char **argv = calloc(n + t->n_verify_files + 1, sizeof *argv);
    char **paths = calloc(t->n_verify_files + 1, sizeof *paths);
    int r = argv && paths ? 0 : ERR_NOMEM;
    for (size_t i = 0; r == 0 && i < n; i++) {
        argv[i] = fixed[i];
    }
    for (size_t i = 0; r == 0 && i < t->n_verify_files; i++) {
        argv[n + i] = paths[i] = task_file_path(&t->verify_files[i], home);
        r = paths[i] ? 0 : ERR_NOMEM;
    }
    r = r == 0 ? run_make_room(s, argv, err) : err_set(err, r, "out of memory");
    if (paths) {
        free_strings(paths, t->n_verify_files);
    }
    free(argv);
    return r < 0 ? r : session_place_files(s, t->verify_files, t->n_verify_files, err);
}

/* Begins the sandbox anew: nothing of the agent runs, /tmp is fresh, and there is no network but
 * what the task asks for. */
static int to_clean_place(struct rollout_session *s, deadline_ms until, struct err *err) {
    struct sandbox_spec spec;
    enum sandbox_network network = session_network(s, TASK_VERIFY);
    session_spec(s, TASK_VERIFY, network, &spec);
    int r = sandbox_restart(s->sandbox, &spec, until, s->stop, err);
    if (r >= 0) {
        s->network = network;
    }
    return r;
}

/* Runs one command; *passed is whether it ended with 0. */
static int verify_one(struct rollout_session *s, const char *shell, deadline_ms until, bool *passed,
                      struct err *err) {
    double left_s = (double)deadline_left_ms(until) / 1000;
    double own_s = s->budget.limits.verify_command_s;
    double seconds = own_s < left_s ? own_s : left_s;
    if (seconds <= 0) {
        return err_set(err, ERR_TIMEOUT, "verify is out of time before: %.*s", SHOWN_CHARS, shell);
    }
    struct command_end end = {0};
    int r = command_run(s->sandbox,
                        &(struct sandbox_exec){.shell = shell,
                                               .clean = true,
                                               .cwd = s->workdir,
                                               .timeout_s = seconds,
                                               .cancel = s->stop},
                        s->verify_results, &end, err);
    if (r < 0) {
        return r;
    }
    if (end.timed_out) {
        return err_set(err, ERR_TIMEOUT, "verify command timed out after %.0f s: %.*s", seconds,
                       SHOWN_CHARS, shell);
    }
    *passed = end.exit_code == 0;
    return 0;
}

/* 1: reward.txt holds a number; 0: there is none; ERR_INPUT: it can't be taken for one. */
static int read_reward(struct rollout_session *s, double *out, struct err *err) {
    AUTO_FREE char *path = mem_printf("%s/logs/verifier/reward.txt", sandbox_home(s->sandbox));
    AUTO_BUF struct buf text = {0};
    if (!path) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    int r = sandbox_read_file(s->sandbox, path, 0, REWARD_BYTES_MAX + 1, &text, err);
    if (r == ERR_NOT_FOUND) {
        *err = (struct err){0};
        return 0;
    }
    if (r >= 0) {
        r = reward_parse(buf_sv(&text), out, err);
    }
    return r < 0 ? r : 1;
}

/* What the verifier left running could still write: it is dead before its word is read. */
static int take_reward(struct rollout_session *s, size_t passed, struct err *err) {
    int r = sandbox_kill_all(s->sandbox, deadline_in_s(KILL_ALL_S), err);
    if (r < 0) {
        return session_fail(s, ROLLOUT_PHASE_VERIFY, err);
    }
    double value = 0;
    r = read_reward(s, &value, err);
    if (r < 0) {
        enum rollout_cause same = rollout_cause_of(ROLLOUT_PHASE_VERIFY, r);
        session_note(s, r == ERR_INPUT ? ROLLOUT_CAUSE_REWARD_UNREADABLE : same, err);
        return r;
    }
    s->reward = r == 1 ? value : (double)passed / (double)s->task->n_verify;
    s->has_reward = true;
    return 0;
}

static int to_place(struct rollout_session *s, struct err *err) {
    if (session_verifies_fresh(s)) {
        return session_move_to_fresh(s, err);
    }
    int r = to_clean_place(s, session_deadline(s, ROLLOUT_PHASE_VERIFY), err);
    return r < 0 ? session_fail(s, ROLLOUT_PHASE_VERIFY, err) : 0;
}

int session_verify(struct rollout_session *s, struct err *err) {
    deadline_ms began = clock_ms();
    int r = to_place(s, err);
    if (r < 0) {
        return r;
    }
    /* Another sandbox's making is no time of the verifier's. */
    deadline_ms until = session_deadline(s, ROLLOUT_PHASE_VERIFY);
    until -= session_verifies_fresh(s) ? 0 : clock_ms() - began;
    session_phase(s, ROLLOUT_PHASE_COLLECT);
    session_collect_files(s); /* As the agent left them: before the verifier's files come. */
    session_phase(s, ROLLOUT_PHASE_VERIFY);
    r = prepare_home(s, err);
    if (r < 0) {
        return session_fail(s, ROLLOUT_PHASE_VERIFY, err);
    }
    size_t passed = 0;
    for (size_t i = 0; i < s->task->n_verify; i++) {
        bool ok = false;
        session_say(s, s->task->verify[i], "verify [%zu/%zu]", i + 1, s->task->n_verify);
        r = verify_one(s, s->task->verify[i], until, &ok, err);
        if (r < 0) {
            return session_fail(s, ROLLOUT_PHASE_VERIFY, err);
        }
        passed += ok;
    }
    return take_reward(s, passed, err);
}

int rollout_session_verify(struct rollout_session *s, struct rollout_verdict *out,
                           struct err *err) {
    pthread_mutex_lock(&s->work);
    int r = 0;
    if (atomic_load(&s->closing) && !s->verified) {
        r = err_set(err, ERR_STATE, "the session is closed");
    } else if (s->agent == SESSION_AGENT_NOT_STARTED && s->cause == ROLLOUT_CAUSE_NONE) {
        r = err_set(err, ERR_STATE, "there is nothing to verify: the agent was not started");
    } else if (!s->verified) {
        session_stop_agent(s);
        bool graded = rollout_cause_graded(s->cause, s->factory->o.verify_on);
        if (graded && s->task->n_verify > 0) {
            struct err own = {0};
            session_phase(s, ROLLOUT_PHASE_VERIFY);
            r = session_verify(s, &own);
            session_phase_end(s);
            /* A verdict that could not be reached is the rollout's result, not the caller's
             * error; being told to stop is. */
            r = r == ERR_CANCELLED ? err_set(err, r, "%s", own.msg) : 0;
        }
        s->verified = true;
    }
    *out = (struct rollout_verdict){.has_reward = s->has_reward, .reward = s->reward};
    pthread_mutex_unlock(&s->work);
    return r;
}
