/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/json.h"
#include "base/mem.h"
#include "sandbox/hf/hf.h"
#include "tests/sandbox/contract.h"
#include "tests/sandbox/hf_cases.h"
#include "tests/sandbox/hf_hub.h"

/* What is asked of the Hub reaches it, and holds inside. */

static struct sandbox *made(const struct sandbox_machine *m) {
    contract_machine = *m;
    struct sandbox *s = contract_make(NULL);
    contract_machine = (struct sandbox_machine){0};
    return s;
}

/* The job that was created last, as the Hub shows it. The caller owns it. */
static json_t *last_job(void) {
    AUTO_JSON json_t *state = hub_state();
    return json_incref(json_array_get(json_object_get(state, "jobs"), 0));
}

static const char *field(const json_t *job, const char *object, const char *name) {
    return json_string_value(
        json_object_get(object ? json_object_get(job, object) : (json_t *)job, name));
}

static void without_wishes_a_job_is_what_the_official_client_makes(void **state) {
    (void)state;
    struct sandbox *s = made(&(struct sandbox_machine){0});
    AUTO_JSON json_t *job = last_job();
    assert_string_equal(field(job, NULL, "dockerImage"), "python:3.12");
    assert_string_equal(field(job, NULL, "flavor"), "cpu-basic");
    assert_string_equal(field(job, "labels", "hf-sandbox-mode"), "dedicated");
    assert_string_equal(field(job, "labels", "snaffle-user"), "root");
    assert_string_equal(field(job, "owner", "name"), "alice");
    assert_int_equal(json_array_size(json_object_get(job, "volumes")), 1);
    AUTO_JSON json_t *secrets = json_pack("[s]", "SBX_TOKEN");
    assert_true(json_equal(json_object_get(job, "secrets"), secrets));
    assert_string_equal(sandbox_home(s), "/root");
    assert_string_equal(contract_says(s, "id -u; echo $HOME; echo ${HF_TOKEN-none}"),
                        "0\n/root\nnone\n");
    contract_end(s);
}

static void image_flavor_variables_and_volumes_reach_the_job(void **state) {
    (void)state;
    AUTO_JSON json_t *env = json_pack("{s:s, s:s}", "COLOUR", "blue green", "SBX", "mine");
    AUTO_JSON json_t *secrets = json_pack("{s:s}", "PASSWORD", "xyzzy plugh");
    AUTO_JSON json_t *volumes = json_pack("[s]", "datasets/acme/words:/data");
    struct sandbox *s = made(&(struct sandbox_machine){.image = "hf.co/spaces/acme/box",
                                                       .flavor = "cpu-upgrade",
                                                       .env = env,
                                                       .secrets = secrets,
                                                       .volumes = volumes});
    AUTO_JSON json_t *job = last_job();
    assert_string_equal(field(job, NULL, "spaceId"), "acme/box");
    assert_null(field(job, NULL, "dockerImage"));
    assert_string_equal(field(job, NULL, "flavor"), "cpu-upgrade");
    assert_string_equal(field(job, "environment", "COLOUR"), "blue green");
    assert_null(field(job, "environment", "PASSWORD"));
    const json_t *volume = json_array_get(json_object_get(job, "volumes"), 1);
    assert_string_equal(json_string_value(json_object_get(volume, "mountPath")), "/data");
    assert_string_equal(contract_says(s, "echo $COLOUR; echo $SBX; echo $PASSWORD"),
                        "blue green\nmine\nxyzzy plugh\n");
    contract_end(s);
}

static void the_token_goes_inside_only_when_asked_for(void **state) {
    (void)state;
    struct sandbox *s = made(&(struct sandbox_machine){.forward_token = true});
    AUTO_JSON json_t *job = last_job();
    assert_null(field(job, "environment", "HF_TOKEN"));
    assert_string_equal(contract_says(s, "echo $HF_TOKEN"), "hf_testtoken\n");
    contract_end(s);
}

static void a_namespace_owns_the_job_and_finds_it_again(void **state) {
    (void)state;
    struct sandbox_scope scope = {.namespace = "acme"};
    struct sandbox *s = made(&(struct sandbox_machine){.namespace = "acme"});
    AUTO_JSON json_t *job = last_job();
    AUTO_JSON json_t *box = NULL;
    struct sandbox_output out = {0};
    struct err err = {0};
    bool was_alive = false;
    assert_string_equal(field(job, "owner", "name"), "acme");
    assert_err(sandbox_find(&sandbox_hf, NULL, sandbox_id(s), &box, &err), ERR_NOT_FOUND, &err, "");
    assert_ok(sandbox_find(&sandbox_hf, &scope, sandbox_id(s), &box, &err), &err);
    assert_string_equal(field(box, NULL, "id"), sandbox_id(s));
    assert_ok(sandbox_exec_in(&sandbox_hf, sandbox_id(s),
                              &(struct sandbox_exec){.shell = "echo seen"}, &out, &err),
              &err);
    assert_string_equal(buf_cstr(&out.out), "seen\n");
    sandbox_output_deinit(&out);
    assert_ok(sandbox_kill_in(&sandbox_hf, sandbox_id(s), &was_alive, &err), &err);
    assert_true(was_alive);
    assert_int_equal(hub_alive(), 0);
    sandbox_free(s);
}

static void a_start_has_its_own_time(void **state) {
    (void)state;
    struct sandbox_spec spec = {.owner = "test", .run = CONTRACT_RUN, .rollout = "slow"};
    struct sandbox *s = NULL;
    struct err err = {0};
    spec.machine.start_s = 0.5;
    hub_set_faults("[{\"method\":\"POST\",\"path\":\"/api/jobs/\",\"job\":\"never_start\"}]");
    int64_t begun = clock_ms();
    assert_err(sandbox_create(&sandbox_hf, &spec, deadline_in_s(PATIENCE_S), NULL, &s, &err),
               ERR_TIMEOUT, &err, "did not become ready");
    assert_true(clock_ms() - begun < 20000);
    assert_int_equal(hub_alive(), 0);
}

static void the_agents_user_has_a_name_and_a_home_and_no_way_to_be_root(void **state) {
    (void)state;
    struct sandbox *s = made(&(struct sandbox_machine){.user = "agent"});
    struct sandbox_output out = {0};
    struct err err = {0};
    assert_string_equal(contract_says(s, "id -u; id -G; whoami >/dev/null && echo $HOME; cd; pwd"),
                        "1000\n1000\n/root\n/root\n");
    assert_string_equal(contract_says(s, "grep -e ^NoNewPrivs -e ^CapEff /proc/self/status | "
                                         "tr -d '\\t'"),
                        "CapEff:0000000000000000\nNoNewPrivs:1\n");
    assert_string_equal(contract_says(s, "{ echo x >/etc/mine; } 2>/dev/null || echo refused; "
                                         "cat /proc/1/environ 2>/dev/null || echo hidden; "
                                         "touch mine && stat -c %u mine"),
                        "refused\nhidden\n1000\n");
    struct sandbox_exec clean = {.shell = "touch $HOME/x && stat -c %u $HOME", .clean = true};
    assert_ok(sandbox_exec(s, &clean, &out, &err), &err);
    assert_string_equal(buf_cstr(&out.out), "1000\n");
    sandbox_output_deinit(&out);
    assert_ok(sandbox_write_file(s, "placed", SV("x"), 0600, &err), &err);
    assert_string_equal(contract_says(s, "stat -c %u placed; cat placed"), "1000\nx");
    AUTO_JSON json_t *isolation = sandbox_isolation(s);
    assert_string_equal(field(isolation, NULL, "user"), "enforced: no way back to root");
    assert_true(strncmp(field(isolation, NULL, "reward"), "enforced", 8) == 0);
    contract_end(s);
}

/* Programs that begin anew as fast as they can, and one whose first thread has ended. */
static const char hydra[] = "import os, sys, threading, time, ctypes\n"
                            "open('began-%d' % os.getpid(), 'w').close()\n"
                            "def tick():\n"
                            "    while True:\n"
                            "        open('ticks', 'a').write('.')\n"
                            "        time.sleep(0.01)\n"
                            "if sys.argv[1] == 'thread':\n"
                            "    threading.Thread(target=tick).start()\n"
                            "    ctypes.CDLL(None).pthread_exit(None)\n"
                            "while True:\n"
                            "    if os.fork():\n"
                            "        os._exit(0)\n"
                            "    os.setsid()\n";

static void kill_all_sees_the_last_of_them_dead(struct sandbox *s) {
    struct sandbox_job *job = NULL;
    struct err err = {0};
    int code = 0;
    assert_ok(sandbox_write_file(s, "hydra.py", sv_from(hydra), 0644, &err), &err);
    assert_ok(sandbox_start(s, &(struct sandbox_exec){.shell = "exec sleep 1000"}, &job, &err),
              &err);
    contract_says(s,
                  "for i in 1 2 3; do setsid python3 hydra.py fork >/dev/null 2>&1 & done; "
                  "setsid python3 hydra.py thread >/dev/null 2>&1 & "
                  "while [ $(ls | grep -c began) -lt 4 ] || [ ! -s ticks ]; do sleep 0.05; done");
    assert_ok(sandbox_kill_all(s, deadline_in_s(PATIENCE_S), &err), &err);
    assert_int_equal(contract_count(s, "hydra"), 0);
    assert_string_equal(contract_says(s, "n=$(stat -c %s ticks); sleep 0.3; "
                                         "[ $n = $(stat -c %s ticks) ] && echo still"),
                        "still\n");
    assert_ok(sandbox_job_wait(job, deadline_in_s(PATIENCE_S), NULL, &code, &err), &err);
    assert_int_equal(code, 137);
    sandbox_job_free(job);
}

static void kill_all_ends_a_root_agent(void **state) {
    (void)state;
    struct sandbox *s = made(&(struct sandbox_machine){0});
    kill_all_sees_the_last_of_them_dead(s);
    contract_end(s);
}

static void kill_all_ends_the_agents_user(void **state) {
    (void)state;
    struct sandbox *s = made(&(struct sandbox_machine){.user = "agent"});
    kill_all_sees_the_last_of_them_dead(s);
    contract_end(s);
}

static void a_home_of_more_than_the_limit_is_not_carried(void **state) {
    (void)state;
    struct sandbox *from = made(&(struct sandbox_machine){0});
    struct sandbox *to = made(&(struct sandbox_machine){0});
    struct err err = {0};
    contract_says(from, "head -c 3000000 /dev/zero >big; truncate -s 2T hole");
    assert_err(hf_carry(from, to, 4u << 20, deadline_in_s(PATIENCE_S), NULL, &err), ERR_LIMIT, &err,
               "more than the 4 MB that are carried to another sandbox");
    contract_says(from, "rm hole");
    assert_err(hf_carry(from, to, 2u << 20, deadline_in_s(PATIENCE_S), NULL, &err), ERR_LIMIT, &err,
               "more than the 2 MB");
    assert_ok(hf_carry(from, to, 4u << 20, deadline_in_s(PATIENCE_S), NULL, &err), &err);
    assert_string_equal(contract_says(to, "stat -c %s big"), "3000000\n");
    contract_end(from);
    contract_end(to);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(without_wishes_a_job_is_what_the_official_client_makes),
    cmocka_unit_test(image_flavor_variables_and_volumes_reach_the_job),
    cmocka_unit_test(the_token_goes_inside_only_when_asked_for),
    cmocka_unit_test(a_namespace_owns_the_job_and_finds_it_again),
    cmocka_unit_test(a_start_has_its_own_time),
    cmocka_unit_test(the_agents_user_has_a_name_and_a_home_and_no_way_to_be_root),
    cmocka_unit_test(a_home_of_more_than_the_limit_is_not_carried),
    cmocka_unit_test(kill_all_ends_a_root_agent),
    cmocka_unit_test(kill_all_ends_the_agents_user),
};

int main(int argc, char **argv) {
    return hub_run_cases(argc, argv, cases, ARRAY_LEN(cases));
}
