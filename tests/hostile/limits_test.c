/* SPDX-License-Identifier: BSD-3-Clause */
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

static void roll(void **state, const char *agent, const char *limits, const char *code) {
    struct rollout_result r = {0};
    AUTO_FREE char *task =
        mem_printf("{'limits': {%s, 'agent_s': 20}, 'verify': ['true']}", limits);
    hostile_roll(*state, agent, NULL, task, NULL, &r);
    hostile_assert_reward(&r, agent, 1);
    assert_named(&r, code);
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

static const struct CMUnitTest tests[] = {
    HOSTILE_CASE(filled_memory_is_named),
    HOSTILE_CASE(a_filled_disk_is_named),
    HOSTILE_CASE(a_fork_bomb_is_named),
    HOSTILE_CASE(a_peaceful_agent_names_nothing),
};

HOSTILE_MAIN(tests)
