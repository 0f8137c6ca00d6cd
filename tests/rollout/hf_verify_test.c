/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "tests/rollout/ground.h"
#include "tests/sandbox/hf_hub.h"
#include "tests/sandbox/local_world.h"
#include "tests/testing.h"

/* What a root agent leaves in a sandbox of the Hub does not grade it, where it is graded in
 * another; and where not, that is said. The agent is a shell script. */

static const char *said(const struct rollout_result *r, const char *field) {
    const char *text =
        json_string_value(json_object_get(json_object_get(r->json, "isolation"), field));
    return text ? text : "";
}

static void assert_reward(const struct rollout_result *r, double want) {
    if (!r->has_reward || r->reward < want - 0.001 || r->reward > want + 0.001) {
        AUTO_FREE char *text = json_dumps(json_object_get(r->json, "verify_results"), JSON_COMPACT);
        fail_msg("want reward %f, got %s %f: %s\n%s", want, r->has_reward ? "" : "none", r->reward,
                 r->error ? r->error : "", text);
    }
}

/* The shell and the interpreter that verifiers run; one of three checks is right. */
#define REPLACE                                                                                    \
    "{'instruction': 'echo work >made; printf \\\"#!/bin/sh\\\\nexit 0\\\\n\\\" >fake;"            \
    " chmod 755 fake; for p in python3 bash; do cp fake /usr/bin/$p.new;"                          \
    " mv -f /usr/bin/$p.new $(readlink -f /usr/bin/$p); done; rm fake',"                           \
    " 'verify': ['false', 'python3 -c \\\"import sys; sys.exit(3)\\\"', 'grep -q work made']}"

static void another_sandbox_grades_a_root_agent_that_replaced_shell_and_interpreter(void **state) {
    struct ground *g = *state;
    struct rollout_result r = {0};
    g->options.verify_in = ROLLOUT_VERIFY_FRESH;
    ground_roll(g, REPLACE, NULL, &r);
    assert_reward(&r, 1.0 / 3);
    assert_string_equal(said(&r, "reward"), "enforced: in a sandbox that the agent has never seen");
    assert_string_equal(said(&r, "user"), "shared: commands run as root");
    assert_int_equal(hub_alive(), 0);
    rollout_result_deinit(&r);
}

/* Nor is what carries the home its: not tar, and not the guest that stands inside. */
static void a_root_agent_that_replaced_tar_and_the_guest_is_graded(void **state) {
    struct ground *g = *state;
    struct rollout_result r = {0};
    g->options.verify_in = ROLLOUT_VERIFY_FRESH;
    ground_roll(g,
                "{'instruction': 'echo work >made; printf \\\"#!/bin/sh\\\\nexit 0\\\\n\\\" >fake;"
                " chmod 755 fake; for p in $(readlink -f /usr/bin/tar /usr/bin/find /bin/sh)"
                " /.snaffle-*/guest; do cp fake $p.new; mv -f $p.new $p; done; rm fake',"
                " 'verify': ['false', 'grep -q work made']}",
                NULL, &r);
    assert_reward(&r, 0.5);
    assert_int_equal(hub_alive(), 0);
    rollout_result_deinit(&r);
}

static void the_same_sandbox_is_said_to_prove_nothing_and_strict_refuses_it(void **state) {
    struct ground *g = *state;
    struct rollout_result r = {0};
    struct rollout_factory *f = NULL;
    struct err err = {0};
    ground_roll(g, REPLACE, NULL, &r);
    assert_reward(&r, 1); /* As the agent wants it. */
    assert_true(strncmp(said(&r, "reward"), "not_enforced: ", 14) == 0);
    rollout_result_deinit(&r);
    g->options.strict = true;
    g->config.agent.capture = "public"; /* The other thing that strict would refuse. */
    g->config.agent.public_url = "http://127.0.0.1:1";
    g->config.agent.listen = "127.0.0.1:0";
    assert_err(rollout_factory_new(&g->options, &f, &err), ERR_UNSUPPORTED, &err,
               "--verify-in fresh");
    g->options.verify_in = ROLLOUT_VERIFY_FRESH;
    ground_drop_factory(g);
    (void)ground_factory(g);
}

static void a_user_below_root_is_graded_in_its_own_sandbox(void **state) {
    struct ground *g = *state;
    struct rollout_result r = {0};
    struct sandbox_machine machine = {.user = "agent"};
    g->options.machine = &machine;
    ground_roll(g, REPLACE, NULL, &r);
    assert_reward(&r, 1.0 / 3);
    assert_true(strncmp(said(&r, "reward"), "enforced: ", 10) == 0);
    assert_true(strncmp(said(&r, "user"), "enforced: ", 10) == 0);
    rollout_result_deinit(&r);
    ground_drop_factory(g);
}

/* Names, kinds and rights that an archive may get wrong, and what the setup placed and the agent
 * removed. */
static void a_home_is_carried_as_it_was_and_nothing_beside_it(void **state) {
    struct ground *g = *state;
    struct rollout_result r = {0};
    g->options.verify_in = ROLLOUT_VERIFY_FRESH;
    ground_run(g,
               "{'setup': ['echo x >removed'],"
               " 'instruction': 'rm removed; echo body >plain; chmod 640 plain; mkdir -p deep/er;"
               " head -c 9000000 /dev/urandom >deep/er/big; sha256sum deep/er/big >sum;"
               " printf \\\"#!/bin/sh\\\\necho ran\\\\n\\\" >run; chmod 755 run; ln plain hard;"
               " ln -s /usr/bin out; ln -s plain link; mkfifo pipe; mkdir shut; echo in >shut/in;"
               " chmod 000 shut; touch $(printf %0200d 7); touch \\\"a b\\\"; cp /bin/true suid;"
               " chmod 4755 suid; echo mine >/usr/bin/mine; echo mine >/tmp/mine; touch ~/.hidden',"
               " 'verify': ['test ! -e removed', 'test $(stat -c %a plain) = 640',"
               " 'grep -q body hard && test $(readlink link) = plain', 'sha256sum -c sum',"
               " 'test $(./run) = ran', 'test $(readlink out) = /usr/bin', 'test -p pipe',"
               " 'test $(stat -c %a shut) = 0 && grep -q in shut/in', 'test -e $(printf %0200d 7)',"
               " 'test -e \\\"a b\\\" && test -e /root/.hidden', 'test ! -u suid',"
               " 'test ! -e /usr/bin/mine && test ! -e /tmp/mine', 'test $(stat -c %u plain) = 0',"
               " 'test -z \\\"$(find /usr/bin -uid 1000)\\\"']}",
               NULL, &r);
    assert_reward(&r, 1);
    AUTO_FREE char *plain = file_join(g->config.agent.sandbox_home, "workdir/plain");
    assert_non_null(json_object_get(json_object_get(r.json, "files"), plain));
    assert_int_equal(hub_alive(), 0);
    rollout_result_deinit(&r);
}

static void what_fails_on_the_way_to_another_sandbox_leaves_none(void **state) {
    struct ground *g = *state;
    static const struct {
        const char *rules;
        const char *cause;
    } rows[] = {
        {"[{\"method\":\"POST\",\"path\":\"/api/jobs/alice\",\"skip\":1,\"times\":1,"
         "\"status\":402,\"body\":{\"error\":\"no credit\"}}]",
         "sandbox_create"},
        {"[{\"face\":\"proxy\",\"path\":\"/home.tar\",\"skip\":1,\"job\":\"vanish\"}]",
         "sandbox_lost"},
    };
    g->options.verify_in = ROLLOUT_VERIFY_FRESH;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct rollout_result r = {0};
        hub_set_faults(rows[i].rules);
        ground_roll(g, "{'instruction': 'true', 'verify': ['true']}", NULL, &r);
        if (!r.cause || strcmp(r.cause, rows[i].cause) != 0 || r.has_reward) {
            fail_msg("want %s, got %s: %s", rows[i].cause, r.cause ? r.cause : "none",
                     r.error ? r.error : "");
        }
        assert_int_equal(hub_alive(), 0);
        rollout_result_deinit(&r);
    }
}

static int set_up(void **state) {
    hub_set_faults("[]");
    int r = ground_set_up(state);
    struct ground *g = *state;
    g->options.backend = "hf";
    g->config.agent.sandbox_home = "/root";
    return r;
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, ground_take_down)

static const struct CMUnitTest tests[] = {
    CASE(another_sandbox_grades_a_root_agent_that_replaced_shell_and_interpreter),
    CASE(a_root_agent_that_replaced_tar_and_the_guest_is_graded),
    CASE(the_same_sandbox_is_said_to_prove_nothing_and_strict_refuses_it),
    CASE(a_user_below_root_is_graded_in_its_own_sandbox),
    CASE(a_home_is_carried_as_it_was_and_nothing_beside_it),
    CASE(what_fails_on_the_way_to_another_sandbox_leaves_none),
};

int main(int argc, char **argv) {
    cmocka_set_message_output(CM_OUTPUT_TAP);
    world_enter(/* as_user= */ false);
    if (!hub_start(argc > 1 ? argv[1] : "protocol=3")) {
        (void)printf("1..0 # SKIP no fake Hub here\n");
        return world_leave() ? 0 : 1;
    }
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    hub_stop();
    return world_leave() ? failed : 1;
}
