/* SPDX-License-Identifier: BSD-3-Clause */
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/proc.h"
#include "journal/journal.h"
#include "tests/gateway/engine.h"
#include "tests/hostile/hostile.h"
#include "tests/sandbox/owner.h"

/* Snaffle killed outright in every phase: nothing of the sandbox is left but what `snaffle gc`
 * removes, and the journal can be read. And threads that come and go. The one that is killed is
 * this program again, started with --owner. */

#define PATIENCE_S 60

static const char owners_task[] =
    "{'setup': ['sleep 0.2'], 'verify': ['sleep 0.2', 'true'], 'limits': {'agent_s': 30}}";

/* Says each phase as it begins, and stays in it for a moment. */
static void say_phase(void *arg, const struct rollout_event *e) {
    (void)arg;
    if (!e->tick) {
        (void)dprintf(STDOUT_FILENO, "%s\n", rollout_phase_name(e->phase));
        clock_sleep_ms(20);
    }
}

static void be_owner(const char *dir, const char *url, const char *mark) {
    void *state = NULL;
    ground_set_up(&state);
    struct ground *g = state;
    AUTO_FREE char *vars = mem_printf("export MARK=%s", mark);
    struct task task = {0};
    struct err err = {0};
    struct rollout_result r = {0};
    struct rollout_control control = {.progress = say_phase};
    g->config.agent.base_url = url;
    g->options.runs_dir = dir;
    hostile_task("kill_talk.py", vars, owners_task, &task);
    if (rollout_run(ground_factory(g), &task, NULL, &control, &r, &err) < 0) {
        (void)dprintf(STDOUT_FILENO, "%s\n", err.msg);
    }
    (void)dprintf(STDOUT_FILENO, "over\n");
    for (;;) {
        pause();
    }
}

static json_t *boxes(void) {
    struct err err = {0};
    json_t *list = NULL;
    assert_ok(sandbox_local.list(NULL, &list, &err), &err);
    return list;
}

/* Nothing of it runs within its patience, though no guest was told to end. */
static void nothing_runs(const json_t *list) {
    deadline_ms until = deadline_in_s(PATIENCE_S);
    size_t i;
    json_t *box;
    json_array_foreach(list, i, box) {
        const char *id = json_string_value(json_object_get(box, "id"));
        while (world_processes_named(id) > 0 || world_processes_named(world_mark()) > 0) {
            assert_false(deadline_passed(until));
            clock_sleep_ms(20);
        }
    }
}

/* As a user calls it, until nothing is left; then no folder, uid, group or mount is. */
static void gc_removes_the_rest(void) {
    const char *argv[] = {getenv("SNAFFLE_PROGRAM"), "gc", NULL};
    deadline_ms until = deadline_in_s(PATIENCE_S);
    for (size_t left = 1; left > 0;) {
        struct err err = {0};
        struct proc_result done = {0};
        assert_false(deadline_passed(until));
        assert_ok(proc_run(&(struct proc_options){.argv = argv}, &done, &err), &err);
        if (done.exit_code != 0) {
            fail_msg("snaffle gc: %s", buf_cstr(&done.err));
        }
        proc_result_deinit(&done);
        AUTO_JSON json_t *now = boxes();
        left = json_array_size(now);
    }
    AUTO_BUF struct buf mounts = {0};
    struct err err = {0};
    assert_ok(file_read("/proc/self/mountinfo", 1 << 20, &mounts, &err), &err);
    assert_null(strstr(buf_cstr(&mounts), world_state()));
}

/* No control group bears the name of a sandbox that is gone. */
static void no_group_is_left(const json_t *list) {
    static const char *const tops[] = {"/sys/fs/cgroup/snaffle", "/sys/fs/cgroup/memory/snaffle"};
    size_t i;
    json_t *box;
    json_array_foreach(list, i, box) {
        for (size_t k = 0; k < ARRAY_LEN(tops); k++) {
            AUTO_FREE char *path =
                file_join(tops[k], json_string_value(json_object_get(box, "id")));
            assert_false(file_exists(path) == 1);
        }
    }
}

/* No uid is held. */
static void no_uid_is_held(void) {
    AUTO_FREE char *folder = file_join(world_state(), "uids");
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));) {
        if (e->d_name[0] != '.') {
            AUTO_FREE char *path = file_join(folder, e->d_name);
            AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
            assert_true(fd < 0 || flock(fd, LOCK_EX | LOCK_NB) == 0);
        }
    }
    if (d) {
        closedir(d);
    }
}

/* The journal can be read to its end; no call has a result that was not asked, or two. */
static void journal_is_readable(const char *journal) {
    struct err err = {0};
    struct journal_reader *reader = NULL;
    struct journal_record record;
    unsigned asked = 0, answered = 0;
    int r;
    assert_ok(journal_reader_open(journal, &reader, &err), &err);
    while ((r = journal_reader_next(reader, &record, &err)) == 1) {
        asked += record.type == JOURNAL_INTENT;
        answered += record.type == JOURNAL_RESULT;
    }
    assert_ok(r, &err);
    journal_reader_close(reader);
    assert_true(answered <= asked && asked - answered <= 1); /* The agent asks one at a time. */
}

static void journals_are_readable(const char *runs) {
    DIR *d = opendir(runs);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));) {
        AUTO_FREE char *run = file_join(runs, e->d_name);
        AUTO_FREE char *journal = file_join(run, "journal");
        if (e->d_name[0] != '.' && file_exists(journal) == 1) {
            journal_is_readable(journal);
        }
    }
    closedir(d);
}

/* An answer that takes its time, so that a kill comes in its middle. */
static void stream_slowly(struct engine_request *r, void *arg) {
    (void)arg;
    engine_sse_head(r);
    for (int i = 0; i < 5; i++) {
        engine_chunk(r,
                     SV("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a \"}}]}\n\n"));
        clock_sleep_ms(10);
    }
    engine_chunk(r, SV("data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":"
                       "\"stop\"}]}\n\ndata: [DONE]\n\n"));
    engine_puts(r, "0\r\n\r\n");
}

static void killed_in(struct ground *g, const char *phase, int after_ms) {
    struct engine *engine = engine_start(stream_slowly, NULL);
    const char *const args[] = {g->dir, engine_url(engine), world_mark(), NULL};
    struct owner owner = owner_start(args);
    assert_true(owner_says(&owner, phase));
    clock_sleep_ms(after_ms);
    AUTO_JSON json_t *list = boxes();
    owner_kill(&owner);
    nothing_runs(list);
    gc_removes_the_rest();
    no_group_is_left(list);
    no_uid_is_held();
    journals_are_readable(g->dir);
    engine_stop(engine);
}

static void killed_in_any_phase_it_leaves_only_what_gc_removes(void **state) {
    NEED_SANDBOX();
    static const char *const phases[] = {"create", "install", "setup",   "agent",
                                         "verify", "collect", "teardown"};
    for (size_t i = 0; i < ARRAY_LEN(phases); i++) {
        for (int k = 0; k < (hostile_is_long() ? 20 : 1); k++) {
            killed_in(*state, phases[i], 3 * k);
        }
    }
}

static void killed_in_the_middle_of_an_answer_its_journal_is_readable(void **state) {
    NEED_SANDBOX();
    for (int k = 0; k < (hostile_is_long() ? 20 : 3); k++) {
        killed_in(*state, "agent", 400 + 27 * k);
    }
}

struct making {
    struct ground *g;
    const struct task *task;
    struct rollout_session *session;
    int code;
    struct err err;
};

static void *make(void *arg) {
    struct making *m = arg;
    m->code =
        rollout_factory_create(ground_factory(m->g), m->task, NULL, NULL, &m->session, &m->err);
    if (m->code == 0) {
        m->code = rollout_session_start_agent(m->session, &m->err);
    }
    return NULL;
}

static void a_session_outlives_the_thread_that_made_it(void **state) {
    NEED_SANDBOX();
    struct task task = {0};
    struct err err = {0};
    struct rollout_verdict verdict = {0};
    pthread_t thread;
    int exit_code = -1;
    ground_task("{'instruction': 'sleep 0.5; echo yes > said', 'verify': ['grep -q yes said']}",
                &task);
    struct making m = {.g = *state, .task = &task};
    assert_int_equal(pthread_create(&thread, NULL, make, &m), 0);
    pthread_join(thread, NULL);
    assert_ok(m.code, &m.err);
    assert_ok(rollout_session_wait(m.session, 0, &exit_code, &err), &err);
    assert_int_equal(exit_code, 0);
    assert_ok(rollout_session_verify(m.session, &verdict, &err), &err);
    assert_true(verdict.has_reward && verdict.reward == 1);
    assert_ok(rollout_session_close(m.session, &err), &err);
    rollout_session_free(m.session);
    task_deinit(&task);
    assert_int_equal(ground_sandboxes(), 0);
}

static const struct CMUnitTest tests[] = {
    HOSTILE_CASE(killed_in_any_phase_it_leaves_only_what_gc_removes),
    HOSTILE_CASE(killed_in_the_middle_of_an_answer_its_journal_is_readable),
    HOSTILE_CASE(a_session_outlives_the_thread_that_made_it),
};

int main(int argc, char **argv) {
    if (argc > 4 && strcmp(argv[1], "--owner") == 0) {
        be_owner(argv[2], argv[3], argv[4]);
    }
    hostile_enter(argc, argv);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return world_leave() ? failed : 1;
}
