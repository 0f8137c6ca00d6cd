/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/tool/tool.h"

#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/proc.h"
#include "server/tool/arguments.h"
#include "tests/testing.h"
#include "tests/unit/rollout/fake_sandbox.h"
#include "tests/unit/server/tool/bench.h"

#define MODEL "\"base_url\": \"http://127.0.0.1:9/v1\", \"model\": \"m\""

static const char simple[] =
    "{" MODEL ", \"instruction\": \"do it\", \"task_id\": \"t1\", \"verify\": [\"true\"]}";

static json_t *result_of(const struct caller *c) {
    struct err err = {0};
    json_t *result = NULL;
    assert_ok(json_parse(buf_sv(&c->text), "result", &result, &err), &err);
    return result;
}

static const char *text_in(const json_t *object, const char *field) {
    const char *text = json_string_value(json_object_get(object, field));
    return text ? text : "-";
}

static void call(struct bench *b, const char *arguments, struct caller *out) {
    if (!b->box) {
        bench_open(b);
    }
    caller_start(out, b, arguments);
    caller_wait(out);
}

static void assert_refused(struct bench *b, const char *arguments, const char *words) {
    struct caller c;
    call(b, arguments, &c);
    if (c.outcome != TOOL_INVALID || !strstr(buf_cstr(&c.text), words)) {
        fail_msg("%s: want '%s', got (%d) '%s'", arguments, words, (int)c.outcome,
                 buf_cstr(&c.text));
    }
    assert_int_equal(fake.created, 0);
    caller_deinit(&c);
}

static void a_call_gives_the_rollout_s_result_and_its_phases(void **state) {
    struct bench *b = *state;
    struct caller c;
    call(b, simple, &c);
    assert_int_equal(c.outcome, TOOL_DONE);
    AUTO_JSON json_t *result = result_of(&c);
    assert_string_equal(text_in(result, "status"), "ok");
    assert_string_equal(text_in(result, "mode"), "transparent_proxy");
    assert_string_equal(text_in(result, "run"), "run");
    assert_string_equal(c.task_id, "t1");
    assert_true(c.has_reward && c.reward == 1.0);
    assert_non_null(strstr(buf_cstr(&c.events), "create: "));
    assert_non_null(strstr(buf_cstr(&c.events), "verify: verify"));
    AUTO_JSON json_t *again = NULL;
    struct err err = {0};
    assert_ok(json_parse(buf_sv(&c.quoted), "quoted", &again, &err), &err);
    assert_string_equal(json_string_value(again), buf_cstr(&c.text));
    caller_deinit(&c);
}

static void the_defaults_are_the_reference_s(void **state) {
    struct bench *b = *state;
    struct caller c;
    call(b, "{" MODEL ", \"instruction\": \"do it\"}", &c);
    AUTO_JSON json_t *result = result_of(&c);
    assert_true(json_is_null(json_object_get(result, "reward")));
    assert_false(c.has_reward);
    AUTO_FREE char *path =
        mem_printf("%s/run/%s/task.json", b->ground.dir, text_in(result, "rollout"));
    AUTO_JSON json_t *task = NULL;
    struct err err = {0};
    assert_ok(json_load(path, 65536, &task, &err), &err);
    assert_string_equal(text_in(task, "instruction"), "do it");
    caller_deinit(&c);
}

static void wrong_arguments_are_told_and_nothing_begins(void **state) {
    struct bench *b = *state;
    assert_refused(b, NULL, "instruction");
    assert_refused(b, "[]", "want arguments as an object");
    assert_refused(b, "{" MODEL "}", "instruction");
    assert_refused(b, "{\"instruction\": \"x\"}", "which model?");
    assert_refused(b, "{" MODEL ", \"instruction\": \"x\", \"instruktion\": 1}",
                   "did you mean 'instruction'");
    assert_refused(b, "{" MODEL ", \"instruction\": \"x\", \"a\\nb\": 1}", "'a b'");
    assert_refused(b, "{" MODEL ", \"instruction\": 7}", "instruction: want a string");
    assert_refused(b, "{" MODEL ", \"instruction\": \"x\", \"mode\": \"proxy\"}",
                   "mode: 'proxy' is not known (use transparent_proxy or black_box)");
    assert_refused(b, "{" MODEL ", \"instruction\": \"x\", \"backend\": \"lokal\"}",
                   "backend: 'lokal' is not known (did you mean 'local'?)");
    assert_refused(b, "{" MODEL ", \"instruction\": \"x\", \"agent\": \"nobody\"}",
                   "agent: 'nobody' is not known");
    assert_refused(b, "{" MODEL ", \"instruction\": \"x\", \"capture\": \"pipe\"}",
                   "capture: 'pipe' is not known");
    assert_refused(b, "{" MODEL ", \"instruction\": \"x\", \"capture\": \"sandbox\"}", "capture:");
    assert_refused(b, "{" MODEL ", \"instruction\": \"x\", \"setup\": \"make\"}", "setup");
    assert_refused(b, "{" MODEL ", \"instruction\": \"x\", \"setup\": [1]}", "setup[0]");
    assert_refused(b, "{" MODEL ", \"instruction\": \"x\", \"top_logprobs\": 21}",
                   "top_logprobs: want a number from 0 to 20");
    assert_refused(b, "{" MODEL ", \"instruction\": \"x\", \"max_tokens_cap\": 0}",
                   "max_tokens_cap");
    assert_refused(b, "{" MODEL ", \"instruction\": \"x\", \"agent_timeout_s\": -1}",
                   "agent_timeout_s");
    assert_refused(b, "{" MODEL ", \"instruction\": \"x\", \"sandbox_home\": \"home\"}",
                   "sandbox_home");
    assert_refused(b, "{" MODEL ", \"instruction\": \"x\", \"network\": \"wide\"}",
                   "unknown word 'wide'");
    assert_refused(b, "{" MODEL ", \"instruction\": \"x\", \"network\": \"none\\u0000\"}",
                   "network: a NUL is not allowed");
    assert_refused(b, "{" MODEL ", \"instruction\": \"x\", \"limits\": {\"cpu\": 1}}", "cpu");
    assert_refused(b, "{" MODEL ", \"instruction\": \"x\", \"include_prompt_ids\": 1}",
                   "include_prompt_ids: want true or false");
    assert_refused(b, "{\"endpoint\": \"openia\", \"instruction\": \"x\"}",
                   "unknown endpoint kind: 'openia'");
    assert_refused(b, "{\"base_url\": \"ftp://x\", \"model\": \"m\", \"instruction\": \"x\"}",
                   "base_url");
}

static void what_the_operator_configured_holds_unless_the_call_says_otherwise(void **state) {
    struct bench *b = *state;
    struct err err = {0};
    struct tool_request q = {0};
    AUTO_JSON json_t *own = json_pack("{s:i, s:i, s:s}", "proxy_max_tokens_cap", 77,
                                      "proxy_top_logprobs", 3, "sandbox_home", "/home/o");
    AUTO_JSON json_t *plain = json_pack("{s:s, s:s, s:s}", "base_url", "http://127.0.0.1:9/v1",
                                        "model", "m", "instruction", "x");
    AUTO_JSON json_t *other = json_deep_copy(plain);
    json_object_set_new(other, "max_tokens_cap", json_null());
    json_object_set_new(other, "top_logprobs", json_integer(0));
    json_object_set_new(other, "sandbox_home", json_string("/home/c"));
    json_object_set_new(other, "agent_timeout_s", json_integer(7));
    assert_ok(tool_request_read(&b->options, plain, &q, &err), &err);
    assert_int_equal(q.config.agent.proxy_max_tokens_cap, 4096);
    assert_int_equal(q.config.agent.proxy_top_logprobs, 5);
    assert_true(q.config.agent.agent_timeout_s == 600);
    assert_string_equal(q.config.agent.sandbox_home, "/home/user");
    tool_request_deinit(&q);
    b->options.config = own;
    assert_ok(tool_request_read(&b->options, plain, &q, &err), &err);
    assert_int_equal(q.config.agent.proxy_max_tokens_cap, 77);
    assert_int_equal(q.config.agent.proxy_top_logprobs, 3);
    assert_string_equal(q.config.agent.sandbox_home, "/home/o");
    tool_request_deinit(&q);
    assert_ok(tool_request_read(&b->options, other, &q, &err), &err);
    assert_int_equal(q.config.agent.proxy_max_tokens_cap, 0);
    assert_int_equal(q.config.agent.proxy_top_logprobs, 0);
    assert_string_equal(q.config.agent.sandbox_home, "/home/c");
    assert_true(q.config.agent.agent_timeout_s == 7);
    tool_request_deinit(&q);
}

static void a_public_server_s_calls_ask_for_no_more_than_it_has(void **state) {
    struct bench *b = *state;
    const char *const allow[] = {"upstream=127.0.0.1", NULL};
    const char *const more[] = {"upstream=127.0.0.1", "network=full", "backend=hf", "flavor=cpu-*",
                                NULL};
    b->options.is_public = true;
    b->options.allow = allow;
#define ASK(field) "{" MODEL ", \"instruction\": \"x\", " field "}"
    assert_refused(b, ASK("\"network\": \"full\""), "--allow network=full");
    assert_refused(b, ASK("\"network\": {\"verify\": \"full\"}"), "--allow network=full");
    assert_refused(b, ASK("\"backend\": \"hf\""), "--allow backend=hf");
    assert_refused(b, ASK("\"image\": \"x\""), "--allow image=GLOB");
    assert_refused(b, ASK("\"flavor\": \"a100\""), "--allow flavor=GLOB");
    assert_refused(b, ASK("\"limits\": {\"memory_mb\": 4096}"), "memory_mb: at most 2048");
    assert_refused(b, ASK("\"limits\": {\"processes\": 513}"), "processes: at most 512");
    assert_refused(b, ASK("\"limits\": {\"disk_mb\": 4096}"), "disk_mb: at most 2048");
    struct tool_request q = {0};
    struct err err = {0};
    AUTO_JSON json_t *wide =
        json_pack("{s:s, s:s, s:s, s:s, s:s}", "base_url", "http://127.0.0.1:9/v1", "model", "m",
                  "instruction", "x", "network", "full", "backend", "hf");
    json_object_set_new(wide, "flavor", json_string("cpu-upgrade"));
    b->options.allow = more;
    assert_ok(tool_request_read(&b->options, wide, &q, &err), &err);
    assert_string_equal(q.options.backend, "hf");
    assert_string_equal(q.options.machine->flavor, "cpu-upgrade");
    assert_int_equal(q.task.network[TASK_AGENT].word, SANDBOX_NETWORK_FULL);
    tool_request_deinit(&q);
}

static void a_public_address_for_sandboxes_is_the_operator_s_to_give(void **state) {
    struct bench *b = *state;
    struct err err = {0};
    struct tool_request q = {0};
    AUTO_JSON json_t *own =
        json_pack("{s:s, s:s}", "public_url", "http://x", "listen", "127.0.0.1:0");
    AUTO_JSON json_t *asked = json_pack("{s:s, s:s, s:s, s:s}", "base_url", "http://127.0.0.1:9/v1",
                                        "model", "m", "instruction", "x", "capture", "public");
    assert_err(tool_request_read(&b->options, asked, &q, &err), ERR_DENIED, &err, "--public-url");
    AUTO_JSON json_t *no_address = json_pack("{s:n}", "public_url");
    b->options.config = no_address;
    assert_err(tool_request_read(&b->options, asked, &q, &err), ERR_DENIED, &err, "--public-url");
    b->options.config = own;
    assert_ok(tool_request_read(&b->options, asked, &q, &err), &err);
    assert_string_equal(q.config.agent.capture, "public");
    assert_null(q.config.agent.listen); /* The gateway's, which all calls share. */
    tool_request_deinit(&q);
    bench_open(b);
    assert_refused(b, "{" MODEL ", \"instruction\": \"x\", \"capture\": \"public\"}",
                   "network to be 'full'");
}

static void local_paths_and_mounts_are_no_arguments(void **state) {
    struct bench *b = *state;
    static const char *const names[] = {"mounts",    "rootfs",       "agent_cmd",
                                        "files",     "upload_files", "config",
                                        "extra_env", "runs",         "verify_files"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        AUTO_FREE char *arguments =
            mem_printf("{" MODEL ", \"instruction\": \"x\", \"%s\": \"/etc\"}", names[i]);
        assert_refused(b, arguments, names[i]);
    }
}

static void what_fails_once_it_began_is_a_result(void **state) {
    struct bench *b = *state;
    struct caller c;
    fake.faults[0] = (struct fake_fault){.call = "create", .code = ERR_LOST};
    call(b, simple, &c);
    assert_int_equal(c.outcome, TOOL_DONE);
    AUTO_JSON json_t *result = result_of(&c);
    assert_string_equal(text_in(result, "status"), "failed");
    assert_string_equal(text_in(result, "cause"), "sandbox_create");
    assert_non_null(strstr(text_in(result, "error"), "fake create failed"));
    assert_string_equal(c.task_id, "t1");
    assert_false(c.has_reward);
    caller_deinit(&c);
}

static void a_result_that_cannot_be_written_is_a_result_all_the_same(void **state) {
    struct bench *b = *state;
    struct caller c;
    bench_open(b);
    fake.agent_goes_on = true;
    caller_start(&c, b, simple);
    caller_wait_event(&c, "agent: agent running");
    struct err err = {0};
    AUTO_FREE char *run = file_join(b->ground.dir, "run");
    assert_ok(file_remove_tree(run, &err), &err);
    assert_ok(file_write(run, SV("in the way"), 0600, &err), &err);
    caller_cancel(&c);
    caller_wait(&c);
    assert_int_equal(c.outcome, TOOL_DONE);
    AUTO_JSON json_t *result = result_of(&c);
    assert_string_equal(text_in(result, "status"), "failed");
    assert_string_equal(text_in(result, "task_id"), "t1");
    assert_string_equal(text_in(result, "run"), "run");
    assert_string_equal(text_in(result, "agent"), "test");
    assert_int_equal(strlen(text_in(result, "error")) > 1, 1);
    caller_deinit(&c);
}

/* Of a server that runs one at a time: this call runs until it is cancelled. */
static void take_only_place(struct bench *b, struct caller *c) {
    b->options.concurrent_max = 1;
    bench_open(b);
    fake.agent_goes_on = true;
    caller_start(c, b, simple);
    caller_wait_event(c, "agent: agent running");
}

static void end_all(struct bench *b, struct caller *callers, size_t n) {
    tool_box_cancel(b->box, /* hard= */ false);
    for (size_t i = 0; i < n; i++) {
        caller_wait(&callers[i]);
        caller_deinit(&callers[i]);
    }
}

static void above_the_limit_calls_wait_in_their_order(void **state) {
    struct bench *b = *state;
    struct caller c[3];
    take_only_place(b, &c[0]);
    caller_start(&c[1], b, simple);
    caller_wait_event(&c[1], "waiting: waiting: all places are taken, 0 before this one");
    caller_start(&c[2], b, simple);
    caller_wait_event(&c[2], "waiting: waiting: all places are taken, 1 before this one");
    assert_int_equal(tool_box_calls(b->box), 3);
    assert_int_equal(fake.created, 1);
    caller_cancel(&c[1]); /* Its place is lost, and those behind move up. */
    caller_wait(&c[1]);
    assert_int_equal(c[1].outcome, TOOL_CANCELLED);
    caller_wait_event(&c[2], "all places are taken, 0 before this one");
    caller_cancel(&c[0]);
    caller_wait(&c[0]);
    assert_int_equal(c[0].outcome, TOOL_DONE);
    AUTO_JSON json_t *result = result_of(&c[0]);
    assert_string_equal(text_in(result, "status"), "cancelled");
    caller_wait_event(&c[2], "agent: agent running");
    caller_cancel(&c[2]);
    caller_wait(&c[2]);
    assert_int_equal(tool_box_calls(b->box), 0);
    for (int i = 0; i < 3; i++) {
        caller_deinit(&c[i]);
    }
}

static void calls_that_come_at_once_wait_in_the_order_in_which_they_came(void **state) {
    struct bench *b = *state;
    static struct caller c[24];
    char place[64];
    take_only_place(b, &c[0]);
    for (size_t i = 1; i < ARRAY_LEN(c); i++) {
        caller_start(&c[i], b, simple); /* Their threads are ready in any order. */
    }
    for (size_t i = 1; i < ARRAY_LEN(c); i++) {
        snprintf(place, sizeof place, "all places are taken, %zu before this one\n", i - 1);
        caller_wait_event(&c[i], place);
    }
    end_all(b, c, ARRAY_LEN(c));
}

static void a_call_whose_arguments_are_wrong_holds_nobody_up(void **state) {
    struct bench *b = *state;
    struct caller c[3];
    take_only_place(b, &c[0]);
    caller_start(&c[1], b, "{}");
    caller_start(&c[2], b, simple);
    caller_wait(&c[1]);
    assert_int_equal(c[1].outcome, TOOL_INVALID);
    caller_wait_event(&c[2], "all places are taken, 0 before this one\n");
    caller_cancel(&c[0]);
    caller_wait_event(&c[2], "agent: agent running");
    end_all(b, c, ARRAY_LEN(c));
}

static void when_too_many_wait_a_call_is_told_that_it_is_busy(void **state) {
    struct bench *b = *state;
    static struct caller c[1 + TOOL_WAITING_MAX + 1];
    size_t last = ARRAY_LEN(c) - 1;
    take_only_place(b, &c[0]);
    for (size_t i = 1; i < last; i++) {
        caller_start(&c[i], b, simple);
        caller_wait_event(&c[i], "waiting:");
    }
    caller_start(&c[last], b, simple);
    caller_wait(&c[last]);
    assert_int_equal(c[last].outcome, TOOL_FAILED);
    assert_non_null(strstr(buf_cstr(&c[last].text), "busy: 65 rollouts"));
    end_all(b, c, ARRAY_LEN(c));
    assert_int_equal(fake.created, 1);
}

static void a_server_that_ends_refuses_and_cancels(void **state) {
    struct bench *b = *state;
    struct caller c;
    struct caller waiting;
    struct caller late;
    take_only_place(b, &c);
    caller_start(&waiting, b, simple);
    caller_wait_event(&waiting, "waiting:");
    tool_box_refuse(b->box);
    caller_wait(&waiting);
    assert_int_equal(waiting.outcome, TOOL_FAILED);
    assert_string_equal(buf_cstr(&waiting.text), "the server is ending");
    caller_start(&late, b, simple);
    caller_wait(&late);
    assert_int_equal(late.outcome, TOOL_FAILED);
    assert_non_null(strstr(buf_cstr(&late.text), "the server is ending"));
    tool_box_cancel(b->box, /* hard= */ true);
    caller_wait(&c);
    assert_int_equal(c.outcome, TOOL_DONE);
    assert_int_equal(fake.alive, 0);
    assert_int_equal(fake.created, 1);
    caller_deinit(&c);
    caller_deinit(&waiting);
    caller_deinit(&late);
}

static void no_key_is_in_an_answer_a_record_or_an_event(void **state) {
    struct bench *b = *state;
    struct caller c;
    call(b,
         "{" MODEL ", \"api_key\": \"sk-secret-7f3a\", \"instruction\": \"x\", \"task_id\": \"k\"}",
         &c);
    assert_int_equal(c.outcome, TOOL_DONE);
    assert_null(strstr(buf_cstr(&c.text), "sk-secret-7f3a"));
    assert_null(strstr(buf_cstr(&c.events), "sk-secret-7f3a"));
    const char *const grep[] = {"grep", "-rq", "sk-secret-7f3a", b->ground.dir, NULL};
    struct proc_result found = {0};
    struct err err = {0};
    assert_ok(proc_run(&(struct proc_options){.argv = grep}, &found, &err), &err);
    assert_int_equal(found.exit_code, 1);
    proc_result_deinit(&found);
    caller_deinit(&c);
    call(b, "{" MODEL ", \"api_key\": \"sk secret\", \"instruction\": \"x\"}", &c);
    assert_int_equal(c.outcome, TOOL_INVALID);
    assert_null(strstr(buf_cstr(&c.text), "sk secret"));
    caller_deinit(&c);
}

static void a_template_is_passed_over_with_a_finding(void **state) {
    struct bench *b = *state;
    struct caller c;
    call(b, "{" MODEL ", \"instruction\": \"x\", \"template\": \"opencode-rl\"}", &c);
    assert_int_equal(c.outcome, TOOL_DONE);
    assert_non_null(strstr(buf_cstr(&c.text), "\"template_ignored\""));
    caller_deinit(&c);
}

static void the_schema_knows_every_argument_and_no_null(void **state) {
    struct bench *b = *state;
    bench_open(b);
    AUTO_JSON json_t *schema = tool_input_schema(b->box);
    const json_t *properties = json_object_get(schema, "properties");
    static const char *const defaults[] = {"endpoint",
                                           "base_url",
                                           "api_key",
                                           "model",
                                           "instruction",
                                           "setup",
                                           "verify",
                                           "task_id",
                                           "mode",
                                           "disable_thinking",
                                           "max_tokens_cap",
                                           "top_logprobs",
                                           "template",
                                           "agent_timeout_s",
                                           "backend",
                                           "agent",
                                           "sandbox_home",
                                           "image",
                                           "flavor",
                                           "network",
                                           "limits",
                                           "capture",
                                           "include_prompt_ids"};
    assert_int_equal(json_object_size(properties), ARRAY_LEN(defaults));
    for (size_t i = 0; i < ARRAY_LEN(defaults); i++) {
        const json_t *one = json_object_get(properties, defaults[i]);
        assert_non_null(json_object_get(one, "default"));
        assert_non_null(json_object_get(one, "description"));
    }
    assert_true(json_is_false(json_object_get(schema, "additionalProperties")));
    AUTO_JSON json_t *description = tool_description(b->box);
    /* create 120, install 240, setup 300, agent 600, verify 300, the end 60 */
    assert_non_null(strstr(json_string_value(description), "at most 1620 seconds"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, bench_set_up, bench_take_down)
static const struct CMUnitTest tests[] = {
    TEST(a_call_gives_the_rollout_s_result_and_its_phases),
    TEST(the_defaults_are_the_reference_s),
    TEST(wrong_arguments_are_told_and_nothing_begins),
    TEST(what_the_operator_configured_holds_unless_the_call_says_otherwise),
    TEST(a_public_server_s_calls_ask_for_no_more_than_it_has),
    TEST(a_public_address_for_sandboxes_is_the_operator_s_to_give),
    TEST(local_paths_and_mounts_are_no_arguments),
    TEST(what_fails_once_it_began_is_a_result),
    TEST(a_result_that_cannot_be_written_is_a_result_all_the_same),
    TEST(above_the_limit_calls_wait_in_their_order),
    TEST(calls_that_come_at_once_wait_in_the_order_in_which_they_came),
    TEST(a_call_whose_arguments_are_wrong_holds_nobody_up),
    TEST(when_too_many_wait_a_call_is_told_that_it_is_busy),
    TEST(a_server_that_ends_refuses_and_cancels),
    TEST(no_key_is_in_an_answer_a_record_or_an_event),
    TEST(a_template_is_passed_over_with_a_finding),
    TEST(the_schema_knows_every_argument_and_no_null),
};

RUN_TESTS(tests)
