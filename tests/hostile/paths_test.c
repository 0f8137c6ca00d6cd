/* SPDX-License-Identifier: BSD-3-Clause */
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "tests/hostile/hostile.h"

/* Links and races under the home: the host reads, writes and removes nothing outside of it. */

#define CANARY_TEXT "canary-of-the-host-20417"

/* A file that only the host's own user reads, in a folder that the sandboxes' stand beside. */
struct canary {
    char path[96];
    struct stat before;
};

static void canary_place(struct canary *c) {
    struct err err = {0};
    snprintf(c->path, sizeof c->path, "%s/canary", world_state());
    assert_ok(file_write(c->path, SV(CANARY_TEXT "\n"), 0600, &err), &err);
    assert_int_equal(lstat(c->path, &c->before), 0);
}

static void canary_is_well(const struct canary *c) {
    struct err err = {0};
    struct stat now;
    AUTO_BUF struct buf text = {0};
    assert_int_equal(lstat(c->path, &now), 0);
    assert_ok(file_read(c->path, 4096, &text, &err), &err);
    assert_string_equal(buf_cstr(&text), CANARY_TEXT "\n");
    assert_int_equal(now.st_ino, c->before.st_ino);
    assert_int_equal(now.st_mode, c->before.st_mode);
    assert_int_equal(now.st_uid, c->before.st_uid);
    assert_int_equal(now.st_mtim.tv_sec, c->before.st_mtim.tv_sec);
    assert_int_equal(now.st_mtim.tv_nsec, c->before.st_mtim.tv_nsec);
}

/* The verifier's files go to where the agent's links stand; half of its checks hold. */
static const char verify[] =
    "{'verify_files': {'link1.txt': 'verifier', 'folder1/x.txt': 'verifier', 'd/canary': 'mine',"
    " 'x.txt': 'mine'}, 'verify': ['test $(cat link1.txt) = verifier', 'test ! -L d/canary',"
    " 'false', 'false'], 'limits': {'agent_s': 60}}";

static void attack(struct ground *g, const char *agent, struct rollout_result *r) {
    struct canary c;
    canary_place(&c);
    AUTO_FREE char *vars = mem_printf("export CANARY=%s", c.path);
    hostile_roll(g, agent, vars, verify, NULL, r);
    hostile_assert_reward(r, agent, 0.5);
    canary_is_well(&c);
    ground_assert_nowhere(g->dir, CANARY_TEXT);
}

static void links_to_the_hosts_files_show_and_change_nothing(void **state) {
    NEED_SANDBOX();
    struct rollout_result r = {0};
    attack(*state, "paths_links.sh", &r);
    rollout_result_deinit(&r);
}

static void a_log_that_became_a_fifo_holds_nothing_up(void **state) {
    NEED_SANDBOX();
    struct rollout_result r = {0};
    attack(*state, "paths_log_fifo.sh", &r);
    rollout_result_deinit(&r);
}

static void a_log_that_became_a_folder_ends_nothing(void **state) {
    NEED_SANDBOX();
    struct rollout_result r = {0};
    attack(*state, "paths_log_folder.sh", &r);
    rollout_result_deinit(&r);
}

static void a_log_as_long_as_files_can_be_is_cut(void **state) {
    NEED_SANDBOX();
    struct rollout_result r = {0};
    struct stat st;
    attack(*state, "paths_log_sparse.sh", &r);
    AUTO_FREE char *log = file_join(r.dir, "agent.log");
    assert_int_equal(stat(log, &st), 0);
    assert_true(st.st_size <= ROLLOUT_LOG_MAX + 128);
    rollout_result_deinit(&r);
}

/* The agent races while the host reads its log, and goes on racing when it is stopped. */
static void a_race_of_files_and_links_shows_and_changes_nothing(void **state) {
    NEED_SANDBOX();
    struct ground *g = *state;
    struct canary c;
    struct err err = {0};
    struct task task = {0};
    struct rollout_session *s = NULL;
    struct rollout_verdict verdict;
    canary_place(&c);
    AUTO_FREE char *vars =
        mem_printf("export CANARY=%s SECONDS_TO_RACE=%d", c.path, hostile_is_long() ? 40 : 3);
    hostile_task("paths_race.py", vars, verify, &task);
    assert_ok(rollout_factory_create(ground_factory(g), &task, NULL, NULL, &s, &err), &err);
    assert_ok(rollout_session_start_agent(s, &err), &err);
    int exit_code = -1;
    unsigned fetched = 0;
    deadline_ms patience = deadline_in_s(90);
    while (rollout_session_wait(s, 0.001, &exit_code, &err) == ERR_TIMEOUT) {
        assert_false(deadline_passed(patience));
        AUTO_BUF struct buf log = {0};
        struct err ignored = {0}; /* A link in the log's place is refused. */
        fetched += rollout_session_fetch_log(s, &log, &ignored) == 0;
        assert_null(strstr(buf_cstr(&log), CANARY_TEXT));
    }
    assert_true(fetched > 0);
    assert_ok(rollout_session_verify(s, &verdict, &err), &err);
    assert_true(verdict.has_reward && verdict.reward == 0.5);
    assert_ok(rollout_session_close(s, &err), &err);
    rollout_session_free(s);
    task_deinit(&task);
    canary_is_well(&c);
    ground_assert_nowhere(g->dir, CANARY_TEXT);
}

/* As the race, against the contract's own doors: a parent folder that turns into a link. */
static void files_written_and_read_in_a_race_stay_inside(void **state) {
    (void)state;
    NEED_SANDBOX();
    struct canary c;
    struct err err = {0};
    struct sandbox *s = NULL;
    struct sandbox_job *job = NULL;
    unsigned written = 0, read = 0;
    canary_place(&c);
    assert_ok(sandbox_create(&sandbox_local,
                             &(struct sandbox_spec){.owner = "test", .run = "r", .rollout = "race"},
                             deadline_in_s(60), NULL, &s, &err),
              &err);
    AUTO_FREE char *shell = mem_printf(
        "mkdir -p d; while :; do mv d e; ln -s %.*s d; rm d; ln -s ../.. d; rm d; mv e d; "
        "done",
        (int)(strlen(c.path) - strlen("/canary")), c.path);
    assert_ok(sandbox_start(s, &(struct sandbox_exec){.shell = shell}, &job, &err), &err);
    for (int i = 0; i < (hostile_is_long() ? 20000 : 500); i++) {
        AUTO_BUF struct buf text = {0};
        struct err ignored = {0};
        written += sandbox_write_file(s, "d/canary", SV("overwritten"), 0644, &ignored) == 0;
        read += sandbox_read_file(s, "d/canary", 0, 100, &text, &ignored) == 0;
        assert_null(strstr(buf_cstr(&text), CANARY_TEXT));
    }
    assert_true(written > 0 && read > 0);
    sandbox_job_free(job);
    assert_ok(sandbox_kill(s, &err), &err);
    sandbox_free(s);
    canary_is_well(&c);
}

static const struct CMUnitTest tests[] = {
    HOSTILE_CASE(links_to_the_hosts_files_show_and_change_nothing),
    HOSTILE_CASE(a_log_that_became_a_fifo_holds_nothing_up),
    HOSTILE_CASE(a_log_that_became_a_folder_ends_nothing),
    HOSTILE_CASE(a_log_as_long_as_files_can_be_is_cut),
    HOSTILE_CASE(a_race_of_files_and_links_shows_and_changes_nothing),
    HOSTILE_CASE(files_written_and_read_in_a_race_stay_inside),
};

HOSTILE_MAIN(tests)
