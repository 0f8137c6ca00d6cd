/* SPDX-License-Identifier: BSD-3-Clause */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "tests/sandbox/contract.h"
#include "tests/sandbox/local_world.h"
#include "tests/sandbox/owner.h"

/* What is left when the owner of a sandbox is killed outright: no process, and a directory that the
 * next sweep removes. The owner is this program again, started with --owner. */

static char sleeping[96]; /* The command line of the owner's processes that try to get away. */

/* Makes a sandbox whose processes try to get away, says so, and waits to be killed. */
static int be_owner(const char *mark, const char *network) {
    struct err err = {0};
    struct sandbox *s = NULL;
    struct sandbox_output o = {0};
    struct sandbox_spec spec = {.owner = "test", .run = "dead", .rollout = "case"};
    if (strcmp(network, "full") == 0) {
        spec.network = SANDBOX_NETWORK_FULL;
    }
    AUTO_FREE char *shell =
        mem_printf("for i in 1 2 3; do (setsid nohup sleep %s >/dev/null 2>&1 &); done", mark);
    struct sandbox_exec what = {.shell = shell};
    int r = sandbox_create(&sandbox_local, &spec, deadline_in_s(PATIENCE_S), NULL, &s, &err);
    if (r == 0) {
        r = sandbox_exec(s, &what, &o, &err);
    }
    if (dprintf(STDOUT_FILENO, "%s\n", r < 0 ? err.msg : "ready") < 0) {
        return 1;
    }
    for (;;) {
        pause();
    }
}

static struct owner start_owner(const char *network) {
    const char *const args[] = {world_mark(), network, NULL};
    return owner_start(args);
}

static void await_named(const char *word, int n) {
    deadline_ms until = deadline_in_s(PATIENCE_S);
    while (world_processes_named(word) != n) {
        assert_false(deadline_passed(until));
        clock_sleep_ms(10);
    }
}

static unsigned sweep(const char *run, bool dry_run) {
    struct err err = {0};
    unsigned removed = 0;
    assert_ok(sandbox_local.sweep(&(struct sandbox_scope){.run = run}, dry_run, &removed, &err),
              &err);
    return removed;
}

static uid_t uid_of_dead(void) {
    struct err err = {0};
    AUTO_JSON json_t *list = NULL;
    AUTO_JSON json_t *record = NULL;
    assert_ok(sandbox_local.list(&(struct sandbox_scope){.run = "dead"}, &list, &err), &err);
    assert_int_equal(json_array_size(list), 1);
    const json_t *entry = json_array_get(list, 0);
    assert_true(json_is_false(json_object_get(entry, "alive")));
    AUTO_FREE char *path = mem_printf("%s/sandboxes/%s/record.json", world_state(),
                                      json_string_value(json_object_get(entry, "id")));
    assert_ok(json_load(path, 65536, &record, &err), &err);
    return (uid_t)json_integer_value(json_object_get(record, "uid"));
}

static void an_owner_killed_outright_leaves_no_process_and_a_sweep_the_rest(void **state) {
    (void)state;
    struct sandbox *live = contract_make(NULL);
    struct owner owner = start_owner("none");
    assert_true(owner_says(&owner, "ready"));
    await_named(sleeping, 3);
    owner_kill(&owner);
    await_named(sleeping, 0);
    uid_t uid = uid_of_dead();
    if (geteuid() == 0) {
        deadline_ms until = deadline_in_s(PATIENCE_S);
        while (world_processes_of(uid) > 0) {
            assert_false(deadline_passed(until));
            clock_sleep_ms(10);
        }
    }
    assert_int_equal(sweep("another-run", false), 0);
    assert_int_equal(sweep("dead", true), 1);
    assert_int_equal(sweep(NULL, false), 1);
    assert_int_equal(sweep(NULL, false), 0);
    assert_string_equal(contract_says(live, "echo alive"), "alive\n");
    contract_end(live);
}

/* How many names in `folder` hold `word`. */
static int names_in(const char *folder, const char *word) {
    int n = 0;
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));) {
        n += strstr(e->d_name, word) != NULL;
    }
    if (d) {
        closedir(d);
    }
    return n;
}

/* Loop devices whose file stands, or stood, in our state folder. */
static int loop_devices(void) {
    int n = 0;
    DIR *d = opendir("/sys/block");
    for (struct dirent *e; d && (e = readdir(d));) {
        AUTO_BUF struct buf file = {0};
        AUTO_FREE char *path = mem_printf("/sys/block/%s/loop/backing_file", e->d_name);
        n += file_read(path, 65536, &file, NULL) == 0 &&
             strstr(buf_cstr(&file), world_state()) != NULL;
    }
    if (d) {
        closedir(d);
    }
    return n;
}

static void no_group_and_no_device_of_a_dead_owner_is_left(void **state) {
    (void)state;
    contract_shared();
    int living = loop_devices();
    for (int i = 0; i < 10; i++) {
        char owner_name[64];
        struct owner owner = start_owner("none");
        snprintf(owner_name, sizeof owner_name, "snaffle-%d.", (int)owner.pid);
        if (i % 2 == 0) {
            assert_true(owner_says(&owner, "ready"));
        } else {
            clock_sleep_ms(4 + 2 * i);
        }
        owner_kill(&owner);
        deadline_ms until = deadline_in_s(PATIENCE_S);
        static const char *const groups[] = {"/sys/fs/cgroup/memory", "/sys/fs/cgroup/pids",
                                             "/sys/fs/cgroup/snaffle"};
        for (int left = 1; left > 0;) {
            assert_false(deadline_passed(until));
            sweep(NULL, false);
            left = loop_devices() - living;
            for (size_t k = 0; k < ARRAY_LEN(groups); k++) {
                left += names_in(groups[k], owner_name);
            }
        }
    }
}

static json_t *dead_ones(void) {
    struct err err = {0};
    json_t *list = NULL;
    assert_ok(sandbox_local.list(&(struct sandbox_scope){.run = "dead"}, &list, &err), &err);
    return list;
}

/* A child that has not become bwrap yet still holds the lock. */
static void sweep_the_dead(void) {
    deadline_ms until = deadline_in_s(PATIENCE_S);
    for (size_t left = 1; left > 0;) {
        assert_false(deadline_passed(until));
        sweep(NULL, false);
        AUTO_JSON json_t *now = dead_ones();
        left = json_array_size(now);
    }
}

static void an_owner_killed_in_the_middle_of_making_one_leaves_no_process(void **state) {
    (void)state;
    contract_shared();
    for (int i = 0; i < 40; i++) {
        struct owner owner = start_owner("none");
        clock_sleep_ms(i / 2); /* Making one takes 10 ms. */
        owner_kill(&owner);
        AUTO_JSON json_t *list = dead_ones();
        sweep_the_dead();
        for (size_t k = 0; k < json_array_size(list); k++) {
            json_t *id = json_object_get(json_array_get(list, k), "id");
            assert_int_equal(world_processes_named(json_string_value(id)), 0);
        }
        assert_int_equal(world_processes_named(sleeping), 0);
    }
}

/* It has joined the sandbox's user namespace, and so lost what would tell it of a death. */
static void what_makes_a_full_network_ends_with_its_owner(void **state) {
    (void)state;
    struct err err = {0};
    struct sandbox *s = NULL;
    struct sandbox_spec spec = {
        .owner = "test", .run = "live", .rollout = "case", .network = SANDBOX_NETWORK_FULL};
    int r = sandbox_create(&sandbox_local, &spec, deadline_in_s(PATIENCE_S), NULL, &s, &err);
    if (r == ERR_ENVIRONMENT) {
        skip_because("%s", err.msg);
    }
    assert_ok(r, &err);
    contract_end(s);
    for (int i = 0; i < 10; i++) {
        struct owner owner = start_owner("full");
        if (i % 2 == 0) {
            assert_true(owner_says(&owner, "ready"));
        } else {
            clock_sleep_ms(10 * i); /* Making one takes 100 ms. */
        }
        owner_kill(&owner);
        AUTO_JSON json_t *list = dead_ones();
        if (i % 2 == 0) {
            assert_int_equal(json_array_size(list), 1);
            const char *id = json_string_value(json_object_get(json_array_get(list, 0), "id"));
            await_named(id, 0);
        }
        sweep_the_dead();
        for (size_t k = 0; k < json_array_size(list); k++) {
            const char *id = json_string_value(json_object_get(json_array_get(list, k), "id"));
            await_named(id, 0);
        }
    }
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(an_owner_killed_outright_leaves_no_process_and_a_sweep_the_rest),
    cmocka_unit_test(no_group_and_no_device_of_a_dead_owner_is_left),
    cmocka_unit_test(an_owner_killed_in_the_middle_of_making_one_leaves_no_process),
    cmocka_unit_test(what_makes_a_full_network_ends_with_its_owner),
};

int main(int argc, char **argv) {
    if (argc > 3 && strcmp(argv[1], "--owner") == 0) {
        return be_owner(argv[2], argv[3]);
    }
    world_enter(argc > 1 && strcmp(argv[1], "--as-user") == 0);
    snprintf(sleeping, sizeof sleeping, "sleep %s", world_mark());
    int failed = contract_run_cases(&sandbox_local, cases, ARRAY_LEN(cases));
    return world_leave() ? failed : 1;
}
