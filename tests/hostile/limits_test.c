/* SPDX-License-Identifier: BSD-3-Clause */
#include <sys/mman.h>
#include <unistd.h>

#include "base/proc.h"
#include "tests/hostile/hostile.h"

/* Agents that fill memory, disk and the table of processes: the result names the limit, they are
 * graded, and the next rollout finds nothing of it. */

static void assert_named(const struct rollout_result *r, const char *code) {
    static const char *const codes[] = {"memory_limit", "process_limit", "disk_limit"};
    for (size_t i = 0; i < ARRAY_LEN(codes); i++) {
        if (hostile_has_finding(r, codes[i]) != (code && strcmp(codes[i], code) == 0)) {
            AUTO_FREE char *findings = json_dumps(json_object_get(r->json, "findings"), 0);
            fail_msg("wanted %s, got %s", code ? code : "none", findings);
        }
    }
}

/* Who holds each limit is said as it is: by root's means, by an ordinary user's, or, where these
 * are left out, by what stands in for them. */
static void assert_isolation_is_true(const struct rollout_result *r) {
    const json_t *isolation = json_object_get(r->json, "isolation");
    const char *memory = json_string_value(json_object_get(isolation, "memory"));
    const char *disk = json_string_value(json_object_get(isolation, "disk"));
    const char *processes = json_string_value(json_object_get(isolation, "processes"));
    if (!memory || !disk || !processes) {
        fail_msg("a limit is not told of");
        return;
    }
    assert_int_equal(strncmp(processes, "enforced: ", 10), 0);
    if (geteuid() != 0 || getenv("SNAFFLE_LOCAL_WITHOUT")) {
        assert_int_equal(strncmp(memory, "watchdog: ", 10), 0);
        assert_int_equal(strncmp(disk, "counted: ", 9), 0);
        assert_string_equal(processes, "enforced: RLIMIT_NPROC");
    } else {
        assert_true(strncmp(memory, "enforced: ", 10) == 0 ||
                    strncmp(memory, "watchdog: ", 10) == 0);
        assert_true(strncmp(disk, "enforced: ", 10) == 0 || strncmp(disk, "counted: ", 9) == 0);
    }
}

static void roll(void **state, const char *agent, const char *limits, const char *code) {
    struct rollout_result r = {0};
    AUTO_FREE char *task =
        mem_printf("{'limits': {%s, 'agent_s': 20}, 'verify': ['true']}", limits);
    hostile_roll(*state, agent, NULL, task, NULL, &r);
    hostile_assert_reward(&r, agent, 1);
    assert_named(&r, code);
    assert_isolation_is_true(&r);
    rollout_result_deinit(&r);
}

static void filled_memory_is_named(void **state) {
    NEED_SANDBOX();
    roll(state, "limit_memory.sh", "'memory_mb': 128", "memory_limit");
}

static void a_filled_disk_is_named(void **state) {
    NEED_SANDBOX();
    roll(state, "limit_disk.sh", "'disk_mb': 32", "disk_limit");
}

static void a_fork_bomb_is_named(void **state) {
    NEED_SANDBOX();
    roll(state, "process_bomb.sh", "'processes': 60", "process_limit");
}

static void a_peaceful_agent_names_nothing(void **state) {
    NEED_SANDBOX();
    roll(state, "process_crash.py", "'disk_mb': 64", NULL);
}

/* What the folder below the test's state takes, in MB. */
static long used_mb(void) {
    AUTO_FREE char *boxes = mem_printf("%s/sandboxes", world_state());
    const char *argv[] = {"du", "-sm", boxes, NULL};
    struct proc_result du = {0};
    struct err err = {0};
    assert_ok(proc_run(&(struct proc_options){.argv = argv}, &du, &err), &err);
    long mb = strtol(buf_cstr(&du.out), NULL, 10);
    proc_result_deinit(&du);
    return mb;
}

static void after_all_of_it_the_host_is_well_and_the_next_rollout_fine(void **state) {
    NEED_SANDBOX();
    void *old = mmap(NULL, 64u << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(old, MAP_FAILED);
    memset(old, 1, 64u << 20); /* Ours to keep, whatever is killed. */
    roll(state, "limit_memory.sh", "'memory_mb': 128", "memory_limit");
    roll(state, "limit_disk.sh", "'disk_mb': 32", "disk_limit");
    assert_true(used_mb() <= 1);
    roll(state, "process_crash.py", "'memory_mb': 128, 'disk_mb': 32", NULL);
    assert_int_equal(munmap(old, 64u << 20), 0);
}

static const struct CMUnitTest tests[] = {
    HOSTILE_CASE(filled_memory_is_named),
    HOSTILE_CASE(a_filled_disk_is_named),
    HOSTILE_CASE(a_fork_bomb_is_named),
    HOSTILE_CASE(a_peaceful_agent_names_nothing),
    HOSTILE_CASE(after_all_of_it_the_host_is_well_and_the_next_rollout_fine),
};

HOSTILE_MAIN(tests)
