/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/hostile/hostile.h"

/* Whatever an agent leaves behind, the reward is what the verifier says. */

/* Four checks that hold and four that don't: only 0.5 is honest. */
static const char half_right[] =
    "{'verify_files': {'tests/check.sh': 'test -e right-answer', 'flat.txt': 'flat'},"
    " 'verify': ['true', 'grep -qx flat flat.txt',"
    " 'test -f flat.txt && test ! -L flat.txt && test -f tests/check.sh && test ! -L tests',"
    " 'test -d ../logs/verifier && test -z \\\"$(ls -A ../logs/verifier)\\\"',"
    " 'bash tests/check.sh', 'python3 -c \\\"import sys; sys.exit(4)\\\"',"
    " 'test -e right-answer', 'sh -c \\\"exit 1\\\"']}";

static void half(void **state, const char *agent) {
    NEED_SANDBOX();
    struct rollout_result r = {0};
    hostile_roll(*state, agent, NULL, half_right, NULL, &r);
    hostile_assert_reward(&r, agent, 0.5);
    rollout_result_deinit(&r);
}

#define HALF_RIGHT_MAP(X)                                                                          \
    X(start_up_files_of_shells_and_python_are_not_read, "reward_profiles.sh")                      \
    X(programs_of_the_agents_do_not_stand_in_for_the_systems, "reward_shims.sh")                   \
    X(a_gigabyte_in_the_rewards_place_is_no_reward, "reward_sparse.sh")                            \
    X(a_device_in_the_rewards_place_is_no_reward, "reward_device.sh")                              \
    X(a_socket_in_the_rewards_place_is_no_reward, "reward_socket.py")                              \
    X(writers_that_want_to_outlive_the_agent_do_not, "reward_daemons.py")                          \
    X(an_open_descriptor_of_the_old_reward_writes_nowhere, "reward_old_file.py")                   \
    X(logs_that_lead_elsewhere_in_the_home_are_made_anew, "reward_logs_elsewhere.sh")              \
    X(logs_that_lead_out_of_the_home_are_made_anew, "reward_logs_outside.sh")                      \
    X(a_work_folder_that_is_a_link_changes_nothing, "reward_workdir_link.sh")                      \
    X(a_work_folder_that_leads_out_is_made_anew, "reward_workdir_outside.sh")                      \
    X(folders_that_lead_in_circles_are_made_anew, "reward_workdir_loop.sh")                        \
    X(fifos_where_the_verifiers_files_go_hold_nothing_up, "reward_targets_fifo.sh")                \
    X(links_where_the_verifiers_files_go_are_replaced, "reward_targets_links.sh")                  \
    X(shut_files_where_the_verifiers_files_go_are_replaced, "reward_targets_shut.sh")              \
    X(deep_folders_where_the_verifiers_files_go_are_removed, "reward_targets_folders.sh")          \
    X(names_that_look_like_commands_are_only_names, "reward_names.sh")

#define DEFINE(name, agent)                                                                        \
    static void name(void **state) {                                                               \
        half(state, agent);                                                                        \
    }
HALF_RIGHT_MAP(DEFINE)

/* Runs two checks, of which the first writes reward.txt by printf and the second fails. */
static void write_reward(struct ground *g, const char *printf_words, struct rollout_result *out) {
    struct err err = {0};
    struct task task = {0};
    AUTO_FREE char *check =
        printf_words ? mem_printf("printf -- %s > ../logs/verifier/reward.txt", printf_words)
                     : mem_strdup("true");
    AUTO_JSON json_t *json =
        json_pack("{s:s, s:[s, s]}", "instruction", "true", "verify", check, "false");
    AUTO_FREE char *text = json_dumps(json, 0);
    assert_ok(task_parse(sv_from(text), "test", NULL, &task, &err), &err);
    assert_ok(rollout_run(ground_factory(g), &task, NULL, NULL, out, &err), &err);
    task_deinit(&task);
}

static const struct {
    const char *printf_words;
    double want;
    bool unreadable;
} rows[] = {
    {NULL, 0.5, false}, /* Missing: passed / total. */
    {"''", 0, true},    /* Empty. */
    {"'\\n\\n'", 0, true},
    {"0.75", 0.75, false},
    {"'  0.75'", 0.75, false},
    {"'0.75\\r\\n'", 0.75, false},
    {"'\\t+1e-1 \\n'", 0.1, false},
    {"-3", -3, false},
    {"nan", 0, true},
    {"inf", 0, true},
    {"-Infinity", 0, true},
    {"1e999", 0, true},
    {"0x10", 0, true},
    {"1,5", 0, true},
    {"'1 2'", 0, true},
    {"'1\\n2\\n'", 0, true},
    {"'{\"reward\": 1}'", 0, true},
    {"'[1]'", 0, true},
    {"true", 0, true},
    {"'1\\0'", 0, true},
    {"'\\357\\274\\221'", 0, true},  /* A full-width 1. */
    {"'\\357\\273\\2771'", 0, true}, /* A byte order mark before it. */
    {"'\\302\\2401'", 0, true},      /* A no-break space before it. */
    {"'%064d' 1", 1, false},         /* 64 bytes. */
    {"'%065d' 1", 0, true},          /* One more. */
    {"'1%063d\\n' 0", 0, true},
};

static void the_table_of_what_reward_txt_may_hold(void **state) {
    NEED_SANDBOX();
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct rollout_result r = {0};
        write_reward(*state, rows[i].printf_words, &r);
        bool unreadable = r.cause && strcmp(r.cause, "reward_unreadable") == 0;
        bool right = rows[i].unreadable ? unreadable && !r.has_reward
                                        : !unreadable && r.has_reward && r.reward == rows[i].want;
        if (!right) {
            fail_msg("%s: %s reward %g, cause %s: %s", rows[i].printf_words,
                     r.has_reward ? "a" : "no", r.reward, r.cause ? r.cause : "-",
                     r.error ? r.error : "");
        }
        rollout_result_deinit(&r);
    }
}

#define CASE(name, agent) HOSTILE_CASE(name),

static const struct CMUnitTest tests[] = {
    HALF_RIGHT_MAP(CASE) HOSTILE_CASE(the_table_of_what_reward_txt_may_hold),
};

HOSTILE_MAIN(tests)
