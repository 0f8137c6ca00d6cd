/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "tests/rollout/hf_ground.h"
#include "tests/sandbox/hf_hub.h"
#include "tests/testing.h"

/* Whole rollouts in sandboxes of a fake Hub, by the ways in which an agent there reaches its model;
 * the agent is a shell script. */

static void calls_through_the_gateway_inside_are_captured_and_graded(void **state) {
    struct rollout_result r = {0};
    ground_run(*state,
               "{'instruction': 'echo hello > made; python3 /opt/call.py 3',"
               " 'setup': ['echo ready > ready'],"
               " 'verify': ['grep -q hello made', 'grep -q ready ready', 'false']}",
               NULL, &r);
    hf_ground_assert_outcome(&r, "ok", "-");
    assert_true(r.has_reward);
    assert_float_equal(r.reward, 2.0F / 3, 0.001F);
    assert_int_equal(hf_ground_int(&r, "calls"), 3);
    assert_string_equal(hf_ground_text(r.json, "capture_level"), "tokens");
    assert_string_equal(hf_ground_text(r.json, "backend"), "hf");
    assert_true(strncmp(hf_ground_text(json_object_get(r.json, "isolation"), "model_key"),
                        "key_exposed", strlen("key_exposed")) == 0);
    assert_int_equal(json_array_size(json_object_get(r.json, "proxy_turns")), 3);
    assert_int_equal(hub_alive(), 0);
    rollout_result_deinit(&r);
}

static void no_part_of_the_key_is_in_files_arguments_or_environments(void **state) {
    struct ground *g = *state;
    struct rollout_result r = {0};
    /* What a root agent finds without looking into the gateway's memory, and what is written here
     * and at the Hub. */
    ground_roll(
        g,
        "{'instruction': 'cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline >all.txt;"
        " python3 /opt/call.py 1; cat $HOME/logs/agent/gateway.log >>all.txt;"
        " grep -r -a -l sk-real-[k]ey $HOME /.snaffle-* /tmp /run /opt/call.py >found.txt; true',"
        " 'verify': ['! grep -a -q sk-real-[k]ey all.txt', 'test ! -s found.txt',"
        "            'test -s all.txt']}",
        NULL, &r);
    hf_ground_assert_outcome(&r, "ok", "-");
    if (r.reward < 1) {
        AUTO_FREE char *found = ground_read(&r, "files/found.txt");
        AUTO_FREE char *text = json_dumps(json_object_get(r.json, "verify_results"), 0);
        fail_msg("%s\n%s", found, text);
    }
    rollout_result_deinit(&r);
    ground_assert_nowhere(g->dir, GROUND_KEY);
    struct err err = {0};
    AUTO_BUF struct buf log = {0};
    assert_ok(file_read(hub_log_path(), 64u << 20, &log, &err), &err);
    assert_true(sv_find(buf_sv(&log), SV(GROUND_KEY)) == (size_t)-1);
    /* The endpoint has it. */
    AUTO_BUF struct buf seen = {0};
    assert_ok(file_read(hf_ground.model.log, 64u << 20, &seen, &err), &err);
    assert_true(sv_find(buf_sv(&seen), SV(GROUND_KEY)) != (size_t)-1);
}

static void an_agent_without_root_can_not_look_into_the_gateway(void **state) {
    struct ground *g = *state;
    struct rollout_result r = {0};
    struct sandbox_machine machine = {.user = "agent"};
    g->options.machine = &machine;
    g->config.agent.sandbox_home = "/home/agent";
    ground_roll(g,
                "{'instruction': 'python3 /opt/call.py 1; id -u >id; p=$(cat $HOME/proxy/pid);"
                " kill -0 $p && ! cat /proc/$p/environ && ! head -c 1 /proc/$p/mem && echo ok >ok',"
                " 'verify': ['grep -q -x 1000 id', 'test -e ok']}",
                NULL, &r);
    hf_ground_assert_outcome(&r, "ok", "-");
    assert_float_equal(r.reward, 1, 0.001F);
    assert_int_equal(hf_ground_int(&r, "calls"), 1);
    const json_t *isolation = json_object_get(r.json, "isolation");
    assert_true(strncmp(hf_ground_text(isolation, "model_key"), "enforced", 8) == 0);
    assert_true(strncmp(hf_ground_text(isolation, "records"), "not_enforced", 12) == 0);
    rollout_result_deinit(&r);
    ground_drop_factory(g);
}

static void a_black_box_s_calls_pass_unchanged_and_are_counted(void **state) {
    struct ground *g = *state;
    struct rollout_result r = {0};
    g->options.mode = ROLLOUT_BLACK_BOX;
    ground_roll(g, "{'instruction': 'python3 /opt/call.py 2', 'verify': ['true']}", NULL, &r);
    hf_ground_assert_outcome(&r, "ok", "-");
    assert_int_equal(hf_ground_int(&r, "calls"), 2);
    assert_int_equal(json_array_size(json_object_get(r.json, "proxy_turns")), 0);
    assert_string_equal(hf_ground_text(r.json, "capture_level"), "none");
    rollout_result_deinit(&r);
}

static void a_stranger_inside_may_not_use_the_model(void **state) {
    struct rollout_result r = {0};
    ground_roll(*state, "{'instruction': 'TOKEN=other python3 /opt/call.py 1'}", NULL, &r);
    hf_ground_assert_outcome(&r, "ok", "agent_crash");
    assert_int_equal(hf_ground_int(&r, "calls"), 0);
    rollout_result_deinit(&r);
}

static void an_agent_that_must_call_and_does_not_has_failed(void **state) {
    struct ground *g = *state;
    struct rollout_result r = {0};
    g->options.require_calls = true;
    ground_roll(g, "{'instruction': 'true', 'verify': ['true']}", NULL, &r);
    hf_ground_assert_outcome(&r, "failed", "agent_no_calls");
    rollout_result_deinit(&r);
}

static void an_endpoint_that_answers_nothing_is_down(void **state) {
    struct ground *g = *state;
    struct rollout_result r = {0};
    g->config.agent.base_url = "http://127.0.0.1:9/v1";
    ground_roll(g, "{'instruction': 'python3 /opt/call.py 1; true', 'verify': ['true']}", NULL, &r);
    hf_ground_assert_outcome(&r, "failed", "upstream_down");
    assert_int_equal(hf_ground_int(&r, "calls"), 1);
    rollout_result_deinit(&r);
}

static void an_open_call_is_written_down_when_the_agent_is_stopped(void **state) {
    struct ground *g = *state;
    struct rollout_result r = {0};
    g->options.limits.agent_s = 2;
    ground_roll(g, "{'instruction': 'python3 /opt/call.py 1; python3 /opt/call.py 1 slow'}", NULL,
                &r);
    hf_ground_assert_outcome(&r, "ok", "agent_timeout");
    const json_t *turns = json_object_get(r.json, "proxy_turns");
    assert_int_equal(json_array_size(turns), 2);
    AUTO_FREE char *trace = ground_read(&r, "trace.jsonl");
    assert_non_null(strstr(trace, "\"end\": \"client_abort\""));
    rollout_result_deinit(&r);
}

/* Once both calls are taken over, at whatever is asked of the sandbox next. */
static void lose_sandbox(void *arg, const struct rollout_event *e) {
    bool *is_lost = arg;
    if (e->calls == 2 && !*is_lost) {
        *is_lost = true;
        hub_set_faults("[{\"face\":\"proxy\",\"path\":\"/v1/\",\"job\":\"vanish\"}]");
    }
}

static void calls_of_a_sandbox_that_is_lost_are_kept(void **state) {
    struct rollout_result r = {0};
    bool is_lost = false;
    struct rollout_control control = {.progress = lose_sandbox, .progress_arg = &is_lost};
    ground_roll(*state, "{'instruction': 'python3 /opt/call.py 2; sleep 120', 'verify': ['true']}",
                &control, &r);
    hf_ground_assert_outcome(&r, "failed", "sandbox_lost");
    assert_int_equal(hf_ground_int(&r, "calls"), 2);
    assert_int_equal(json_array_size(json_object_get(r.json, "proxy_turns")), 2);
    assert_int_equal(hub_alive(), 0);
    rollout_result_deinit(&r);
}

/* Once the first call is taken over. */
static void change_policy(void *ground, const struct rollout_event *e) {
    struct ground *g = ground;
    struct err err = {0};
    if (e->calls == 1) {
        assert_ok(rollout_factory_set_policy_version(ground_factory(g), "step-2", &err), &err);
    }
}

/* The gateway inside can't be told: its calls keep the version of its start. */
static void a_policy_that_changes_while_the_agent_works_is_told(void **state) {
    struct ground *g = *state;
    struct rollout_result r = {0};
    struct rollout_control control = {.progress = change_policy, .progress_arg = g};
    g->config.agent.policy_version = "step-1";
    ground_roll(g,
                "{'instruction': 'python3 /opt/call.py 1; sleep 3; python3 /opt/call.py 1',"
                " 'verify': ['true']}",
                &control, &r);
    hf_ground_assert_outcome(&r, "ok", "-");
    AUTO_FREE char *result = ground_read(&r, "result.json");
    AUTO_FREE char *trace = ground_read(&r, "trace.jsonl");
    assert_non_null(strstr(result, "\"code\": \"policy_changed\""));
    assert_non_null(strstr(trace, "\"policy_version\": \"step-1\""));
    assert_null(strstr(trace, "\"policy_version\": \"step-2\""));
    rollout_result_deinit(&r);
}

static void a_gateway_that_does_not_start_is_told_with_its_log(void **state) {
    struct ground *g = *state;
    struct rollout_result r = {0};
    ground_roll(g,
                "{'instruction': 'true', 'network': 'full', 'setup':"
                " ['python3 -m http.server -b 127.0.0.1 7000 >/dev/null 2>&1 & sleep 1']}",
                NULL, &r);
    hf_ground_assert_outcome(&r, "failed", "capture_fault");
    assert_non_null(strstr(r.error, "7000"));
    assert_int_equal(hub_alive(), 0);
    rollout_result_deinit(&r);
}

static void a_program_that_does_not_run_inside_ends_the_rollout(void **state) {
    struct ground *g = *state;
    struct err err = {0};
    struct rollout_result r = {0};
    AUTO_FREE char *real = mem_strdup(getenv("SNAFFLE_GATEWAY_PROGRAM"));
    AUTO_FREE char *other = mem_printf("%s/other", g->dir);
    assert_ok(file_write(other, SV("#!/bin/sh\necho no such machine >&2; exit 4\n"), 0755, &err),
              &err);
    setenv("SNAFFLE_GATEWAY_PROGRAM", other, 1);
    ground_roll(g, "{'instruction': 'true'}", NULL, &r);
    setenv("SNAFFLE_GATEWAY_PROGRAM", real, 1);
    hf_ground_assert_outcome(&r, "failed", "capture_fault");
    assert_non_null(strstr(r.error, "no such machine"));
    assert_int_equal(hub_alive(), 0);
    rollout_result_deinit(&r);
}

static void the_agent_calls_a_gateway_at_a_public_address(void **state) {
    struct ground *g = *state;
    struct rollout_result r = {0};
    AUTO_FREE char *address = mem_printf("127.0.0.1:%d", hf_ground.public_port);
    AUTO_FREE char *url = mem_printf("http://%s/", address);
    g->config.agent.capture = "public";
    g->config.agent.public_url = url;
    g->config.agent.listen = address;
    ground_roll(g,
                "{'instruction': 'echo $BASE_URL >url; python3 /opt/call.py 2;"
                " ! BASE_URL=http://127.0.0.1:7000/v1 python3 /opt/call.py 1;"
                " ! BASE_URL=${BASE_URL%/s/*}/s/0123/v1 TOKEN=x python3 /opt/call.py 1',"
                " 'verify': ['grep -q /s/.*/v1 url']}",
                NULL, &r);
    hf_ground_assert_outcome(&r, "ok", "-");
    assert_float_equal(r.reward, 1, 0.001F);
    assert_int_equal(hf_ground_int(&r, "calls"), 2);
    assert_string_equal(hf_ground_text(r.json, "capture_level"), "tokens");
    assert_string_equal(hf_ground_text(json_object_get(r.json, "isolation"), "model_key"),
                        "enforced: it stays outside");
    rollout_result_deinit(&r);
}

static void ways_that_can_not_be_are_refused(void **state) {
    struct ground *g = *state;
    static const struct {
        const char *backend, *capture, *public_url, *listen;
        bool strict;
        int code;
        const char *says;
    } rows[] = {
        {"hf", "tunnel", NULL, NULL, false, ERR_UNSUPPORTED, "no tunnel into sandboxes of 'hf'"},
        {"local", "sandbox", NULL, NULL, false, ERR_UNSUPPORTED, "leave 'sandbox' out"},
        {"hf", "sandbox", NULL, NULL, true, ERR_UNSUPPORTED, "without --strict"},
        {"hf", "public", NULL, NULL, false, ERR_INPUT, "--public-url"},
        {"hf", "public", "ftp://x", NULL, false, ERR_INPUT, "public_url: "},
        {"hf", "public", "http://x/?q", NULL, false, ERR_INPUT, "has a query"},
        {"hf", "public", "http://x", "x", false, ERR_INPUT, "want ADDRESS:PORT"},
        {"hf", "public", "http://x", "::1:70000", false, ERR_INPUT, "want ADDRESS:PORT"},
        {"hf", NULL, "http://x", NULL, false, ERR_INPUT, "only capture 'public'"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct err err = {0};
        struct rollout_factory *f = NULL;
        g->options.backend = rows[i].backend;
        g->options.strict = rows[i].strict;
        g->config.agent.capture = rows[i].capture;
        g->config.agent.public_url = rows[i].public_url;
        g->config.agent.listen = rows[i].listen;
        assert_err(rollout_factory_new(&g->options, &f, &err), rows[i].code, &err, rows[i].says);
    }
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, hf_ground_set_up, ground_take_down)

static const struct CMUnitTest tests[] = {
    CASE(calls_through_the_gateway_inside_are_captured_and_graded),
    CASE(no_part_of_the_key_is_in_files_arguments_or_environments),
    CASE(an_agent_without_root_can_not_look_into_the_gateway),
    CASE(a_black_box_s_calls_pass_unchanged_and_are_counted),
    CASE(a_stranger_inside_may_not_use_the_model),
    CASE(an_agent_that_must_call_and_does_not_has_failed),
    CASE(an_endpoint_that_answers_nothing_is_down),
    CASE(an_open_call_is_written_down_when_the_agent_is_stopped),
    CASE(calls_of_a_sandbox_that_is_lost_are_kept),
    CASE(a_policy_that_changes_while_the_agent_works_is_told),
    CASE(a_gateway_that_does_not_start_is_told_with_its_log),
    CASE(a_program_that_does_not_run_inside_ends_the_rollout),
    CASE(the_agent_calls_a_gateway_at_a_public_address),
    CASE(ways_that_can_not_be_are_refused),
};

int main(int argc, char **argv) {
    bool here = hf_ground_begin(argc > 1 ? argv[1] : "protocol=3",
                                SOURCE_ROOT "/tests/rollout/hf_model.json");
    return hf_ground_end(here ? cmocka_run_group_tests(tests, NULL, NULL) : 0);
}
