/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/json.h"
#include "base/mem.h"
#include "tests/rollout/ground.h"
#include "tests/sandbox/local_world.h"
#include "tests/testing.h"

/* What an agent leaves behind does not grade it. */

static const char instruction_head[] = "{'instruction': '";

/* Runs `script` as the agent's, then `verify` (a JSON array); gives the result. */
static void judged(struct ground *g, const char *script, const char *verify,
                   struct rollout_result *out) {
    AUTO_FREE char *task = mem_printf(
        "%s%s', 'verify_files': {'tests/check.sh': 'test -e right-answer', 'flat.txt': 'flat'},"
        " 'verify': %s}",
        instruction_head, script, verify);
    ground_roll(g, task, NULL, out);
}

/* Every poison, and then half of the checks right: nothing but 0.5 is honest. */
static void an_agent_cannot_grade_itself(void **state) {
    NEED_SANDBOX();
    static const char *const poisons[] = {
        /* The reward itself, before the verifier. */
        "mkdir -p ../logs/verifier; echo 1 > ../logs/verifier/reward.txt",
        "rm -rf ../logs/verifier; ln -s ../workdir ../logs/verifier; echo 1 > reward.txt",
        "rm -rf ../logs; ln -s workdir ../logs; mkdir -p verifier; echo 1 > verifier/reward.txt",
        "rm -rf ../logs/verifier; mkfifo ../logs/verifier",
        "mkfifo ../logs/verifier/reward.txt",
        "mkdir -p ../logs/verifier/reward.txt/deep",
        "ln -s /dev/zero ../logs/verifier/reward.txt",
        "mkdir -p ../logs/verifier/x/y; chmod 000 ../logs/verifier/x ../logs/verifier ../logs",
        "rm -rf ../logs; echo file > ../logs",
        /* The shell and the programs that the verifier runs. */
        "echo exit 0 | tee ~/.bash_profile ~/.profile ~/.bashrc ~/.bash_login > /dev/null",
        "mkdir -p ~/.local/bin ~/bin; for p in bash sh test python3 grep; do printf "
        "\\\"#!/bin/sh\\\\nexit 0\\\\n\\\" > ~/.local/bin/$p; chmod 755 ~/.local/bin/$p; cp "
        "~/.local/bin/$p ~/bin/$p; cp ~/bin/$p ./$p; done",
        "d=$(python3 -c \\\"import site; print(site.getusersitepackages())\\\"); mkdir -p $d; "
        "echo \\\"import os; os._exit(0)\\\" | tee $d/usercustomize.py $d/sitecustomize.py",
        "echo BASH_ENV=~/x > ~/.pam_environment; mkdir -p ~/.config/environment.d; echo "
        "PATH=/home/user/bin > ~/.config/environment.d/x.conf",
        /* What stands where the verifier's files go. */
        "mkdir -p tests/check.sh/deep; chmod 000 tests/check.sh tests",
        "ln -s /etc tests",
        "ln -s /nowhere/at/all tests",
        "echo exit 0 > tests; mkdir flat.txt",
        "mkdir tests; ln -s ~/elsewhere tests/check.sh; ln -s /etc/passwd flat.txt",
        /* A place that is not there. */
        "cd ..; rm -rf workdir",
        "cd ..; rm -rf workdir; echo file > workdir",
        "chmod 000 .; chmod 000 ..",
        /* Programs that would write later. */
        "setsid bash -c \\\"while :; do echo 1 > ~/logs/verifier/reward.txt; done\\\" > /dev/null "
        "2>&1 & sleep 0.1",
    };
    for (size_t i = 0; i < ARRAY_LEN(poisons); i++) {
        struct rollout_result r = {0};
        judged(*state, poisons[i],
               "['true', 'bash tests/check.sh', 'python3 -c \\\"import sys; sys.exit(4)\\\"',"
               " 'grep -q ^flat flat.txt']",
               &r);
        if (!r.has_reward || r.reward != 0.5) {
            char *text = json_dumps(json_object_get(r.json, "verify_results"), JSON_INDENT(1));
            print_message("# %s\n", text);
            fail_msg("'%s' gives %s %f: %s", poisons[i], r.has_reward ? "reward" : "no reward",
                     r.reward, r.error ? r.error : "");
        }
        rollout_result_deinit(&r);
    }
}

static void the_verifiers_environment_is_made_from_nothing(void **state) {
    NEED_SANDBOX();
    struct rollout_result r = {0};
    judged(*state, "touch /tmp/mine /dev/shm/mine; echo hello > ~/mine",
           "['test -z \\\"$BASH_ENV$ENV$LD_PRELOAD$PYTHONPATH$PYTHONSTARTUP$TOKEN$BASE_URL\\\"',"
           " 'test \\\"$HOME\\\" != /home/user && test -d \\\"$HOME\\\"',"
           " 'test -z \\\"$(ls -A \\\"$HOME\\\")\\\"',"
           " 'test ! -e /tmp/mine && test ! -e /dev/shm/mine',"
           " 'test $PWD = /home/user/workdir', 'test -e /home/user/mine',"
           " '! (exec 3<>/dev/tcp/127.0.0.1/7000) 2>/dev/null',"
           " 'case :$PATH: in *:/home/*|*::*|*:.:*) exit 1 ;; esac']",
           &r);
    if (!r.has_reward || r.reward != 1) {
        char *text = json_dumps(json_object_get(r.json, "verify_results"), JSON_INDENT(1));
        fail_msg("%s", text);
    }
    rollout_result_deinit(&r);
}

static void the_verifiers_files_come_only_after_the_agent(void **state) {
    NEED_SANDBOX();
    struct rollout_result r = {0};
    judged(*state, "ls -R ~ > listing; touch right-answer",
           "['! grep -q -e check.sh -e flat.txt listing', 'bash tests/check.sh',"
           " 'test $(cat flat.txt) = flat']",
           &r);
    assert_true(r.has_reward && r.reward == 1);
    assert_null(json_object_get(json_object_get(r.json, "files"), "/home/user/workdir/flat.txt"));
    rollout_result_deinit(&r);
}

static void only_one_finite_number_in_a_small_file_is_a_reward(void **state) {
    NEED_SANDBOX();
    static const struct {
        const char *write;
        double want; /* -1: unreadable. */
    } cases[] = {
        {"echo 0.25 > $d/reward.txt", 0.25},
        {"echo -2 > $d/reward.txt; false", -2},
        {"echo nan > $d/reward.txt", -1},
        {"echo inf > $d/reward.txt", -1},
        {"echo 1 2 > $d/reward.txt", -1},
        {"touch $d/reward.txt", -1},
        {"head -c 100 /dev/zero | tr \\\\\\\\0 1 > $d/reward.txt", -1},
        {"echo 1 > $d/other; ln -s other $d/reward.txt", -1},
        {"mkdir $d/reward.txt", -1},
        {"mkfifo $d/reward.txt", -1},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct rollout_result r = {0};
        AUTO_FREE char *verify =
            mem_printf("['d=/home/user/logs/verifier; %s', 'true']", cases[i].write);
        judged(*state, "true", verify, &r);
        if (cases[i].want == -1) {
            assert_string_equal(r.cause ? r.cause : "none", "reward_unreadable");
            assert_false(r.has_reward);
        } else {
            assert_true(r.has_reward && r.reward == cases[i].want);
        }
        rollout_result_deinit(&r);
    }
}

static void a_verifier_out_of_time_gives_no_grade(void **state) {
    NEED_SANDBOX();
    struct ground *g = *state;
    g->options.limits.verify_command_s = 1;
    struct rollout_result r = {0};
    judged(g, "true", "['true', 'sleep 600', 'echo never']", &r);
    assert_string_equal(r.cause ? r.cause : "none", "verify_timeout");
    assert_false(r.has_reward);
    const json_t *results = json_object_get(r.json, "verify_results");
    assert_int_equal(json_array_size(results), 2);
    assert_int_equal(json_integer_value(json_object_get(json_array_get(results, 1), "exit_code")),
                     124);
    rollout_result_deinit(&r);
}

static void a_check_that_dies_of_a_signal_is_a_failed_check(void **state) {
    NEED_SANDBOX();
    struct rollout_result r = {0};
    judged(*state, "true", "['kill -SEGV $$', 'true']", &r);
    assert_true(r.has_reward && r.reward == 0.5);
    rollout_result_deinit(&r);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, ground_set_up, ground_take_down)

static const struct CMUnitTest tests[] = {
    CASE(an_agent_cannot_grade_itself),
    CASE(the_verifiers_environment_is_made_from_nothing),
    CASE(the_verifiers_files_come_only_after_the_agent),
    CASE(only_one_finite_number_in_a_small_file_is_a_reward),
    CASE(a_verifier_out_of_time_gives_no_grade),
    CASE(a_check_that_dies_of_a_signal_is_a_failed_check),
};

int main(int argc, char **argv) {
    world_enter(argc > 1 && strcmp(argv[1], "--as-user") == 0);
    cmocka_set_message_output(CM_OUTPUT_TAP);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return world_leave() ? failed : 1;
}
