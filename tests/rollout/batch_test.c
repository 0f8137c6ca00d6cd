/* SPDX-License-Identifier: BSD-3-Clause */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/rand.h"
#include "rollout/batch.h"
#include "tests/rollout/ground.h"
#include "tests/sandbox/local_world.h"
#include "tests/testing.h"

/* Many rollouts at once in real sandboxes; the agent is the shell. */

static void list_add(struct task_list *l, const char *json) {
    l->tasks = realloc(l->tasks, (l->n + 1) * sizeof *l->tasks);
    l->sources = realloc(l->sources, (l->n + 1) * sizeof *l->sources);
    assert_true(l->tasks && l->sources);
    l->tasks[l->n] = (struct task){0};
    l->sources[l->n] = mem_strdup("test");
    ground_task(json, &l->tasks[l->n++]);
}

/* `n` tasks t0, t1 ... of one instruction. */
static void list_of(struct task_list *l, unsigned n, const char *instruction) {
    for (unsigned i = 0; i < n; i++) {
        AUTO_FREE char *json = mem_printf("{'task_id': 't%u', 'instruction': '%s', 'network': "
                                          "'none', 'verify': ['test -e done']}",
                                          i, instruction);
        list_add(l, json);
    }
}

static void plan_of(const struct task_list *l, size_t per_task, struct batch_plan *out) {
    struct err err = {0};
    assert_ok(batch_plan_make(l, per_task, out, &err), &err);
}

struct seen {
    size_t most_running;
    size_t ended;
    struct cancel *cancel; /* Thrown once this many run. */
    size_t at;
};

static void see_tick(void *arg, const struct batch_view *v) {
    struct seen *s = arg;
    s->most_running = v->totals.running > s->most_running ? v->totals.running : s->most_running;
    if (s->cancel && v->totals.in_phase[ROLLOUT_PHASE_AGENT] >= s->at) {
        cancel_throw(s->cancel);
    }
}

static void see_ended(void *arg, const struct batch_item *item) {
    struct seen *s = arg;
    s->ended++;
    assert_int_equal(item->state, BATCH_ENDED);
}

/* The batch's exit status; what ended badly is printed, so that a red case says why. */
static int exit_status(const struct batch_plan *p) {
    for (size_t i = 0; i < p->n; i++) {
        const struct batch_item *item = &p->items[i];
        if (item->cause || item->error) {
            print_message("%s: attempt %u, %s: %s\n", item->rollout, item->attempt,
                          item->cause ? item->cause : "no cause",
                          item->error ? item->error : "no error");
        }
    }
    return batch_exit_status(p, false);
}

static void one_that_fails_stops_no_other_and_no_more_run_than_asked(void **state) {
    NEED_SANDBOX();
    struct ground *g = *state;
    struct err err = {0};
    struct task_list l = {0};
    struct batch_plan p = {0};
    struct seen seen = {0};
    struct batch_totals t;
    list_of(&l, 5, "touch done; sleep 0.2");
    list_add(&l,
             "{'task_id': 'bad', 'instruction': 'true', 'setup': ['false'], 'network': 'none'}");
    plan_of(&l, 2, &p);
    struct batch_options o = {.concurrency = 4, .tick = see_tick, .ended = see_ended, .arg = &seen};
    assert_ok(batch_run(ground_factory(g), &p, &o, &err), &err);
    batch_totals(&p, &t);
    assert_int_equal(t.ok, 10);
    assert_int_equal(t.failed, 2);
    assert_int_equal(t.rewarded, 10);
    assert_true(t.reward_sum > 9.99);
    assert_int_equal(seen.ended, 12);
    assert_in_range(seen.most_running, 1, 4);
    assert_string_equal(p.items[10].cause, "setup_failed");
    assert_int_equal(exit_status(&p), 1);
    assert_int_equal(ground_sandboxes(), 0);
    batch_plan_deinit(&p);
    task_list_deinit(&l);
}

/* The status that result.json of an attempt has; attempt 0: the present one. */
static void assert_status(const struct ground *g, const char *rollout, unsigned attempt,
                          const char *status) {
    struct err err = {0};
    AUTO_JSON json_t *result = NULL;
    AUTO_FREE char *part = attempt ? mem_printf("/attempts/%u", attempt) : mem_strdup("");
    AUTO_FREE char *path =
        mem_printf("%s/%s/%s%s/result.json", g->dir, g->options.run, rollout, part);
    assert_ok(json_load(path, 1u << 24, &result, &err), &err);
    assert_string_equal(json_string_value(json_object_get(result, "status")), status);
}

static void a_cancelled_batch_goes_on_where_it_was(void **state) {
    NEED_SANDBOX();
    struct ground *g = *state;
    struct err err = {0};
    struct task_list l = {0};
    struct batch_plan p = {0};
    struct batch_totals t;
    struct seen seen = {.at = 3};
    assert_ok(cancel_new(&seen.cancel, &err), &err);
    g->options.run = "going-on";
    list_of(&l, 6, "test -e ~/go || sleep 600; touch done");
    plan_of(&l, 1, &p);
    struct batch_options o = {.concurrency = 3,
                              .cancel = seen.cancel,
                              .tick = see_tick,
                              .ended = see_ended,
                              .arg = &seen};
    assert_ok(batch_run(ground_factory(g), &p, &o, &err), &err);
    batch_totals(&p, &t);
    assert_int_equal(t.cancelled, 3);
    assert_int_equal(t.waiting, 3);
    assert_int_equal(ground_sandboxes(), 0);
    batch_plan_deinit(&p);

    g->config.agent.extra_setup_shell = "touch ~/go";
    plan_of(&l, 1, &p);
    assert_int_equal(batch_run(ground_factory(g), &p, &(struct batch_options){0}, &err),
                     ERR_EXISTS);
    batch_plan_deinit(&p);
    plan_of(&l, 1, &p);
    assert_ok(batch_run(ground_factory(g), &p, &(struct batch_options){.resume = true}, &err),
              &err);
    assert_int_equal(exit_status(&p), 0);
    assert_int_equal(p.items[0].attempt, 2);
    assert_int_equal(p.items[5].attempt, 1);
    assert_status(g, "t0-0", 1, "cancelled");
    assert_status(g, "t0-0", 0, "ok");
    batch_plan_deinit(&p);

    plan_of(&l, 1, &p);
    assert_ok(batch_run(ground_factory(g), &p, &(struct batch_options){.resume = true}, &err),
              &err);
    batch_totals(&p, &t);
    assert_int_equal(t.kept, 6);
    batch_plan_deinit(&p);
    task_list_deinit(&l);
    cancel_free(seen.cancel);
}

static void causes_are_tried_again_as_their_table_says(void **state) {
    NEED_SANDBOX();
    struct ground *g = *state;
    struct err err = {0};
    struct task_list l = {0};
    struct batch_plan p = {0};
    struct batch_totals t;
    g->options.require_calls = true;
    list_of(&l, 2, "touch done");
    plan_of(&l, 1, &p);
    assert_ok(batch_run(ground_factory(g), &p, &(struct batch_options){0}, &err), &err);
    batch_totals(&p, &t);
    assert_int_equal(t.failed, 2);
    assert_int_equal(t.again, 2);
    assert_int_equal(p.items[0].attempt, 2);
    assert_string_equal(p.items[0].cause, "agent_no_calls");
    batch_plan_deinit(&p);
    task_list_deinit(&l);
}

/* Calls the model by the shell's own means, and fails as its endpoint does: nobody listens there.
 */
#define CALL                                                                                       \
    "exec 3<>/dev/tcp/127.0.0.1/7000; printf 'POST /v1/chat/completions HTTP/1.1\\r\\nHost: x"     \
    "\\r\\nContent-Length: 28\\r\\nConnection: close\\r\\n\\r\\n{\"model\":\"m\",\"messages\":"    \
    "[] }' >&3; cat <&3"

struct resting {
    char order[64];        /* The rollouts as they ended. */
    bool seen;             /* One rested while another ran. */
    struct cancel *cancel; /* Thrown once one rests. */
};

static void see_resting(void *arg, const struct batch_view *v) {
    struct resting *s = arg;
    s->seen = s->seen || (v->totals.resting == 1 && v->totals.running == 1);
    if (s->cancel && v->totals.resting == 1) {
        cancel_throw(s->cancel);
    }
}

static void see_order(void *arg, const struct batch_item *item) {
    struct resting *s = arg;
    size_t n = strlen(s->order);
    snprintf(s->order + n, sizeof s->order - n, "%s ", item->rollout);
}

static void list_calls(struct task_list *l, const char *id, const char *script) {
    AUTO_JSON json_t *task =
        json_pack("{s:s, s:s, s:[s]}", "task_id", id, "instruction", script, "verify", "true");
    AUTO_FREE char *text = json_dumps(task, 0);
    struct err err = {0};
    list_add(l, "{'instruction': 'x'}");
    struct task *t = &l->tasks[l->n - 1];
    task_deinit(t);
    assert_ok(task_parse(sv_from(text), "test", NULL, t, &err), &err);
}

static void one_that_waits_for_its_next_attempt_leaves_its_place_to_others(void **state) {
    NEED_SANDBOX();
    struct ground *g = *state;
    struct err err = {0};
    struct task_list l = {0};
    struct batch_plan p = {0};
    struct resting s = {0};
    g->options.retries = 1;
    g->options.retry_backoff_s = 3;
    g->options.run = "resting";
    list_calls(&l, "calls", CALL);
    list_calls(&l, "other", "sleep 4"); /* Eight ticks. */
    plan_of(&l, 1, &p);
    struct batch_options o = {.concurrency = 1, .tick = see_resting, .ended = see_order, .arg = &s};
    assert_ok(batch_run(ground_factory(g), &p, &o, &err), &err);
    assert_string_equal(s.order, "other-0 calls-0 ");
    assert_true(s.seen);
    assert_string_equal(p.items[0].cause, "upstream_down");
    assert_int_equal(p.items[0].attempt, 2);
    assert_status(g, "calls-0", 1, "failed");
    batch_plan_deinit(&p);
    task_list_deinit(&l);
}

static void cancelled_while_one_waits_for_its_next_attempt_its_last_one_stands(void **state) {
    NEED_SANDBOX();
    struct ground *g = *state;
    struct err err = {0};
    struct task_list l = {0};
    struct batch_plan p = {0};
    struct resting s = {0};
    struct batch_totals t;
    assert_ok(cancel_new(&s.cancel, &err), &err);
    g->options.retries = 1;
    g->options.retry_backoff_s = 600;
    list_calls(&l, "calls", CALL);
    plan_of(&l, 1, &p);
    struct batch_options o = {
        .cancel = s.cancel, .tick = see_resting, .ended = see_order, .arg = &s};
    assert_ok(batch_run(ground_factory(g), &p, &o, &err), &err);
    batch_totals(&p, &t);
    assert_string_equal(s.order, "calls-0 ");
    assert_int_equal(t.failed, 1);
    assert_int_equal(t.resting, 0);
    assert_string_equal(p.items[0].cause, "upstream_down");
    assert_int_equal(p.items[0].attempt, 1);
    batch_plan_deinit(&p);
    task_list_deinit(&l);
    cancel_free(s.cancel);
}

static void nothing_begins_without_room_or_on_a_run_that_another_has(void **state) {
    NEED_SANDBOX();
    struct ground *g = *state;
    struct err err = {0};
    struct task_list l = {0};
    struct batch_plan p = {0};
    g->options.run = "taken";
    list_of(&l, 2, "touch done");
    plan_of(&l, 1, &p);
    struct batch_options o = {.rollout_bytes = UINT64_MAX / 4};
    assert_int_equal(batch_run(ground_factory(g), &p, &o, &err), ERR_FULL);
    AUTO_FREE char *run = mem_printf("%s/taken", g->dir);
    AUTO_FREE char *first = mem_printf("%s/t0-0", run);
    assert_int_equal(file_exists(first), 0);

    AUTO_CLOSE int fd = open(run, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0);
    assert_int_equal(batch_run(ground_factory(g), &p, &(struct batch_options){0}, &err), ERR_STATE);
    assert_non_null(strstr(err.msg, "another process is at the run 'taken'"));
    assert_int_equal(file_exists(first), 0);
    batch_plan_deinit(&p);
    task_list_deinit(&l);
}

#define KILL_TASKS 6
#define KILL_EACH 2
#define KILLS_SURE 3 /* Rounds that do not end by themselves. */
#define KILLS_MAX 20 /* Some may fall before anything began; the round after them is let be. */
#define KILL_WITHIN_MS 1250

/* What the process does that gets killed: a batch in the folder. Its word on stdout comes when the
 * batch begins. */
static int victim(const char *dir, bool is_held) {
    void *state = NULL;
    struct err err = {0};
    struct task_list l = {0};
    struct batch_plan p = {0};
    ground_set_up(&state);
    struct ground *g = state;
    rmdir(g->dir); /* No use for it, and a killed process leaves it behind. */
    g->options.runs_dir = dir;
    g->options.run = "killed";
    list_of(&l, KILL_TASKS, "touch done; sleep 0.1");
    plan_of(&l, KILL_EACH, &p);
    struct batch_options o = {.concurrency = 3, .resume = true};
    ssize_t n = write(STDOUT_FILENO, "b", 1);
    int r = batch_run(ground_factory(g), &p, &o, &err);
    if (r < 0 || n != 1) {
        fprintf(stderr, "# %s\n", err.msg);
    }
    int status = r < 0 ? 2 : exit_status(&p);
    if (is_held && status == 0) {
        (void)pause(); /* No signal but the last one comes. */
    }
    batch_plan_deinit(&p);
    task_list_deinit(&l);
    ground_take_down(&state);
    return status;
}

static pid_t start_victim(const char *dir, const char *how, int *out_word) {
    int word[2];
    assert_int_equal(pipe2(word, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(word[1], STDOUT_FILENO);
        execl("/proc/self/exe", "batch_test", how, dir, (char *)NULL);
        _exit(127);
    }
    assert_true(pid > 0);
    close(word[1]);
    *out_word = word[0];
    return pid;
}

/* Starts the victim, and kills it at some moment after its batch began unless it is let be; its
 * exit status, or -1 when it was killed. */
static int one_round(const char *dir, unsigned kills) {
    int status = 0;
    unsigned delay = 0;
    char byte;
    AUTO_CLOSE int word = -1;
    pid_t pid = start_victim(dir, kills < KILLS_SURE ? "--held-victim" : "--victim", &word);
    assert_int_equal(read(word, &byte, 1), 1);
    if (kills < KILLS_MAX) {
        rand_bytes(&delay, sizeof delay);
        clock_sleep_ms(delay % KILL_WITHIN_MS);
        kill(pid, SIGKILL);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void killed_at_any_moment_it_does_each_rollout_once_in_the_end(void **state) {
    NEED_SANDBOX();
    struct ground *g = *state;
    struct err err = {0};
    struct store *store = NULL;
    struct store_rows rows = {0};
    int status = -1;
    unsigned kills = 0;
    while ((status = one_round(g->dir, kills)) == -1) {
        kills++;
    }
    assert_int_equal(status, 0);
    assert_true(kills >= KILLS_SURE);
    g->options.run = "killed";
    for (unsigned t = 0; t < KILL_TASKS; t++) {
        for (unsigned k = 0; k < KILL_EACH; k++) {
            AUTO_FREE char *rollout = mem_printf("t%u-%u", t, k);
            assert_status(g, rollout, 0, "ok");
        }
    }
    assert_ok(store_open(g->dir, &store, &err), &err);
    size_t found = 0;
    assert_ok(store_index_rebuild(store, &found, &err), &err);
    assert_int_equal(found, KILL_TASKS * KILL_EACH);
    assert_ok(
        store_list(store, &(struct store_query){.run = "killed", .status = "ok"}, &rows, &err),
        &err);
    assert_int_equal(rows.n, KILL_TASKS * KILL_EACH);
    store_rows_deinit(&rows);
    store_close(store);
    unsigned swept = 0;
    assert_ok(sandbox_local.sweep(NULL, /* dry_run= */ false, &swept, &err), &err);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, ground_set_up, ground_take_down)

static const struct CMUnitTest tests[] = {
    CASE(one_that_fails_stops_no_other_and_no_more_run_than_asked),
    CASE(a_cancelled_batch_goes_on_where_it_was),
    CASE(causes_are_tried_again_as_their_table_says),
    CASE(one_that_waits_for_its_next_attempt_leaves_its_place_to_others),
    CASE(cancelled_while_one_waits_for_its_next_attempt_its_last_one_stands),
    CASE(nothing_begins_without_room_or_on_a_run_that_another_has),
    CASE(killed_at_any_moment_it_does_each_rollout_once_in_the_end),
};

int main(int argc, char **argv) {
    bool is_held = argc > 2 && strcmp(argv[1], "--held-victim") == 0;
    if (is_held || (argc > 2 && strcmp(argv[1], "--victim") == 0)) {
        return victim(argv[2], is_held);
    }
    world_enter(false);
    cmocka_set_message_output(CM_OUTPUT_TAP);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return world_leave() ? failed : 1;
}
