/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "tests/rollout/ground.h"
#include "tests/rollout/model.h"
#include "tests/sandbox/hf_hub.h"
#include "tests/sandbox/local_world.h"
#include "tests/testing.h"

/* Whole rollouts in sandboxes of a fake Hub, with the gateway inside the sandbox; the agent is a
 * shell script. */

#define HOME "/root"

static struct model model;
static struct ground *model_ground;
static json_t *mounts;

static void assert_outcome(const struct rollout_result *r, const char *status, const char *cause) {
    if (strcmp(r->status, status) != 0 || strcmp(r->cause ? r->cause : "-", cause) != 0) {
        AUTO_FREE char *text = json_dumps(r->json, JSON_INDENT(1));
        fail_msg("want %s/%s, got %s/%s: %s\n%s", status, cause, r->status,
                 r->cause ? r->cause : "-", r->error ? r->error : "", text);
    }
}

static const char *text_at(const json_t *object, const char *field) {
    const char *text = json_string_value(json_object_get(object, field));
    return text ? text : "";
}

static json_int_t int_at(const struct rollout_result *r, const char *field) {
    return json_integer_value(json_object_get(r->json, field));
}

static void calls_through_the_gateway_inside_are_captured_and_graded(void **state) {
    struct rollout_result r = {0};
    ground_run(*state,
               "{'instruction': 'echo hello > made; python3 /opt/call.py 3',"
               " 'setup': ['echo ready > ready'],"
               " 'verify': ['grep -q hello made', 'grep -q ready ready', 'false']}",
               NULL, &r);
    assert_outcome(&r, "ok", "-");
    assert_true(r.has_reward);
    assert_float_equal(r.reward, 2.0F / 3, 0.001F);
    assert_int_equal(int_at(&r, "calls"), 3);
    assert_string_equal(text_at(r.json, "capture_level"), "tokens");
    assert_string_equal(text_at(r.json, "backend"), "hf");
    assert_true(strncmp(text_at(json_object_get(r.json, "isolation"), "model_key"), "key_exposed",
                        strlen("key_exposed")) == 0);
    assert_int_equal(json_array_size(json_object_get(r.json, "proxy_turns")), 3);
    assert_int_equal(hub_alive(), 0);
    rollout_result_deinit(&r);
}

static int set_up(void **state) {
    hub_set_faults("[]");
    int r = ground_set_up(state);
    struct ground *g = *state;
    g->options.backend = "hf";
    g->options.logprobs_processed = true; /* The scripted model's are. */
    g->config.agent.base_url = model.url;
    g->config.agent.model = "scripted";
    g->config.agent.sandbox_home = HOME;
    g->config.agent.mounts = mounts;
    return r;
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, ground_take_down)

static const struct CMUnitTest tests[] = {
    CASE(calls_through_the_gateway_inside_are_captured_and_graded),
};

/* One model for all tests: the Hub's jobs reach its port. */
static void start_model(void) {
    struct err err = {0};
    void *state = NULL;
    assert_int_equal(ground_set_up(&state), 0);
    model_ground = state;
    AUTO_FREE char *script = mem_printf("%s/script.json", model_ground->dir);
    assert_ok(file_write(script, SV("{\"otherwise\": {\"reply\": {\"text\": \"Done.\"}}}"), 0644,
                         &err),
              &err);
    model_start(&model, model_ground, script);
    hub_reach((int)strtol(strrchr(model.url, ':') + 1, NULL, 10));
    mounts = json_pack("[s]", SOURCE_ROOT "/tests/rollout/call.py:/opt/call.py");
}

static void stop_model(void) {
    void *state = model_ground;
    model_stop(&model);
    ground_take_down(&state);
    json_decref(mounts);
}

int main(int argc, char **argv) {
    cmocka_set_message_output(CM_OUTPUT_TAP);
    world_enter(/* as_user= */ false);
    start_model();
    if (!hub_start(argc > 1 ? argv[1] : "protocol=3")) {
        (void)printf("1..0 # SKIP no fake Hub here\n");
        stop_model();
        return world_leave() ? 0 : 1;
    }
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    hub_stop();
    stop_model();
    return world_leave() ? failed : 1;
}
