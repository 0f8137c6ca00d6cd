/* SPDX-License-Identifier: BSD-3-Clause */
#include <sys/stat.h>
#include <unistd.h>

#include "agent/install.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "rollout/agents.h"
#include "sandbox/digest.h"
#include "tests/rollout/hf_ground.h"
#include "tests/sandbox/hf_hub.h"
#include "tests/sandbox/local_world.h"
#include "tests/testing.h"

/* How an agent's program comes into a sandbox of the Hub, and the real OpenCode there. */

static char *agents; /* This machine's own; found before the test's state is. */

static void find_agents(void) {
    struct err err = {0};
    struct agent_installed found = {0};
    if (rollout_agents_dir(&agents, &err) < 0 ||
        agent_find_installed(agents, &agent_opencode, NULL, &found, &err) < 0) {
        free(TAKE(agents));
    }
    agent_installed_deinit(&found);
}

/* The example's model script is OpenCode's; the others here make no use of what it says. */
static void opencode_is_sent_and_every_token_of_its_work_is_there(void **state) {
    struct ground *g = *state;
    struct task task = {0};
    struct err err = {0};
    struct rollout_result r = {0};
    if (!agents) {
        skip_because("opencode is not installed: run 'snaffle agent install opencode'");
    }
    g->options.running = NULL;
    assert_ok(task_load(SOURCE_ROOT "/examples/binary_search", &task, &err), &err);
    assert_ok(rollout_run(ground_factory(g), &task, NULL, NULL, &r, &err), &err);
    hf_ground_assert_outcome(&r, "ok", "-");
    assert_true(r.has_reward && r.reward == 1);
    ground_check(g, &r);
    assert_string_equal(hf_ground_text(r.json, "agent_version"), agent_opencode.default_version);
    assert_string_equal(hf_ground_text(r.json, "capture_level"), "tokens");
    assert_string_equal(hf_ground_text(r.json, "backend"), "hf");
    assert_true(hf_ground_int(&r, "calls") >= 2);
    size_t i;
    json_t *turn;
    json_array_foreach(json_object_get(r.json, "proxy_turns"), i, turn) {
        bool agent = strcmp(hf_ground_text(turn, "role"), "agent") == 0;
        assert_int_equal(json_is_true(json_object_get(turn, "trainable")), agent);
    }
    static const char *const phases[] = {"create", "install", "agent", "verify", "teardown"};
    for (i = 0; i < ARRAY_LEN(phases); i++) {
        assert_true(json_is_number(json_object_get(json_object_get(r.json, "phases"), phases[i])));
    }
    assert_int_equal(hub_alive(), 0);
    rollout_result_deinit(&r);
    task_deinit(&task);
}

/* --- programs that stand for OpenCode and for what fetches it --- */

#define VERSION "9.8.7" /* Nobody has it installed. */

/* It says its version, and makes the calls that the test counts. */
static const char program[] = "#!/bin/sh\n"
                              "[ \"$1\" != --version ] || { echo " VERSION "; exit 0; }\n"
                              "test \"$1\" = run && echo worked >made\n";

static json_t *image; /* Of the test that runs: its mounts, as the configuration borrows them. */

/* A file of the ground's at this place in the image. */
static void put_in_image(struct ground *g, const char *name, const char *text, const char *place) {
    struct err err = {0};
    AUTO_FREE char *path = file_join(g->dir, name);
    AUTO_FREE char *mount = mem_printf("%s:%s", path, place);
    assert_ok(file_write(path, sv_from(text), 0755, &err), &err);
    json_t *all = json_deep_copy(g->config.agent.mounts);
    json_array_append_new(all, json_string(mount));
    json_decref(image);
    g->config.agent.mounts = image = all;
}

static void forget_image(void) {
    json_decref(image);
    image = NULL;
}

static int set_up(void **state) {
    AUTO_FREE char *here = file_join(world_state(), "agents");
    struct err err = {0};
    assert_ok(file_remove_tree(here, &err), &err); /* A link, or what a test installed by hand. */
    if (agents) {
        assert_int_equal(symlink(agents, here), 0);
    }
    forget_image();
    return hf_ground_set_up(state);
}

/* What a login shell of the installer's finds first. */
static void put_curl(struct ground *g, const char *text) {
    put_in_image(g, "curl", text, "/opt/fetch/curl");
    put_in_image(g, "profile", "PATH=/opt/fetch:$PATH\n", "/root/.bash_profile");
}

static void use_opencode(struct ground *g, const char *version) {
    g->options.running = NULL;
    g->options.mode = ROLLOUT_BLACK_BOX; /* It need not call. */
    g->config.agent.opencode_version = version;
}

static const char task[] = "{'instruction': 'Work.', 'verify': ['grep -q worked made']}";

static void assert_worked(const struct rollout_result *r) {
    hf_ground_assert_outcome(r, "ok", "-");
    assert_true(r->has_reward && r->reward == 1);
    assert_string_equal(hf_ground_text(r->json, "agent_version"), VERSION);
}

static void what_the_image_has_at_the_version_that_is_wanted_is_taken(void **state) {
    struct ground *g = *state;
    struct rollout_result r = {0};
    use_opencode(g, VERSION);
    put_in_image(g, "opencode", program, agent_opencode.program_path);
    ground_roll(g, task, NULL, &r);
    assert_worked(&r);
    rollout_result_deinit(&r);
}

/* --- programs of this machine --- */

/* The program above, as if it were installed here; gives its compressed copy's path. */
static char *install_by_hand(void) {
    struct err err = {0};
    char digest[DIGEST_HEX_MAX];
    AUTO_FREE char *all = file_join(world_state(), "agents");
    AUTO_FREE char *folder = file_join(all, "opencode/" VERSION);
    AUTO_FREE char *path = file_join(folder, "opencode");
    assert_ok(file_remove_tree(all, &err), &err);
    assert_ok(file_mkdirs(folder, 0755, &err), &err);
    assert_ok(file_write(path, sv_from(program), 0755, &err), &err);
    assert_int_equal(digest_hex(program, strlen(program), digest), 0);
    return mem_printf("%s/%s.gz", folder, digest);
}

/* The image's gunzip notes each call for an agent, and fails where it is told to; the gateway's
 * program needs it too. */
#define REFUSES "/opt/no-gunzip"
static const char gunzip[] = "#!/bin/sh\n"
                             "case $(readlink /proc/$$/fd/0) in *opencode.gz)\n"
                             "  echo x >>\"${PLACE%/.opencode/*}/unpacked\"\n"
                             "  [ ! -e " REFUSES " ] || exit 1;;\n"
                             "esac\n"
                             "exec /usr/bin/gunzip \"$@\"\n";
static char layer[] = "/tmp/snaffle-layer-XXXXXX";

static bool make_image(void) {
    struct err err = {0};
    if (!mkdtemp(layer)) {
        return false;
    }
    AUTO_FREE char *folder = file_join(layer, "usr/local/bin");
    AUTO_FREE char *path = file_join(folder, "gunzip");
    hub_layer(layer);
    return file_mkdirs(folder, 0755, &err) == 0 &&
           file_write(path, sv_from(gunzip), 0755, &err) == 0;
}

static void a_program_goes_compressed_and_is_kept_so_for_the_next(void **state) {
    struct ground *g = *state;
    AUTO_FREE char *packed = install_by_hand();
    use_opencode(g, VERSION);
    for (int i = 0; i < 2; i++) {
        struct rollout_result r = {0};
        ground_roll(g,
                    "{'instruction': 'Work.', 'verify': ['grep -q worked made', "
                    "'test $(grep -c x ../unpacked) = 1']}",
                    NULL, &r);
        assert_worked(&r);
        assert_true(file_exists(packed));
        rollout_result_deinit(&r);
    }
}

static void where_nothing_unpacks_it_a_program_goes_as_it_is(void **state) {
    struct ground *g = *state;
    struct rollout_result r = {0};
    AUTO_FREE char *packed = install_by_hand();
    use_opencode(g, VERSION);
    put_in_image(g, "refuses", "", REFUSES);
    ground_roll(g,
                "{'instruction': 'Work.', 'verify': ['grep -q worked made', "
                "'grep -q x ../unpacked', 'test ! -e ../.opencode/bin/opencode.gz']}",
                NULL, &r);
    assert_worked(&r);
    rollout_result_deinit(&r);
}

/* A copy that something has damaged is told by the program's digest. */
static void a_damaged_copy_costs_only_another_transfer(void **state) {
    struct ground *g = *state;
    struct rollout_result r = {0};
    struct err err = {0};
    AUTO_FREE char *packed = install_by_hand();
    use_opencode(g, VERSION);
    assert_ok(file_write(packed, SV("no gzip at all"), 0644, &err), &err);
    ground_roll(g, task, NULL, &r);
    assert_worked(&r);
    rollout_result_deinit(&r);
}

/* --- installers --- */

/* Stands for curl: fails so often with this exit code, then gives the installer. */
#define CURL(failures, exit_code, installer)                                                       \
    "#!/bin/sh\n"                                                                                  \
    "echo x >>/opt/fetched\n"                                                                      \
    "[ $(grep -c x /opt/fetched) -gt " failures " ] || { echo curl: no >&2; exit " exit_code       \
    "; }\n"                                                                                        \
    "cat <<'END'\n" installer "END\n"

#define GOOD_INSTALLER                                                                             \
    "test \"$*\" = '--version " VERSION "' || exit 3\n"                                            \
    "mkdir -p $HOME/.opencode/bin; cp /opt/program $HOME/.opencode/bin/opencode\n"

static void
its_own_installer_gets_the_pin_and_another_attempt_after_the_network_failed(void **state) {
    struct ground *g = *state;
    struct rollout_result r = {0};
    use_opencode(g, VERSION);
    put_in_image(g, "program", program, "/opt/program");
    put_curl(g, CURL("1", "6", GOOD_INSTALLER));
    ground_roll(g, task, NULL, &r);
    assert_worked(&r);
    rollout_result_deinit(&r);
}

static void count_attempts(void *arg, const struct rollout_event *e) {
    unsigned *attempts = arg;
    *attempts += e->text && strstr(e->text, "installing") ? 1 : 0;
}

static void an_installer_that_knows_no_latest_version_is_not_asked_again(void **state) {
    struct ground *g = *state;
    struct rollout_result r = {0};
    unsigned attempts = 0;
    struct rollout_control control = {.progress = count_attempts, .progress_arg = &attempts};
    use_opencode(g, "latest");
    put_curl(g, CURL("0", "0", "echo Failed to fetch version information; exit 1\n"));
    ground_roll(g, task, &control, &r);
    hf_ground_assert_outcome(&r, "failed", "agent_install");
    assert_non_null(strstr(r.error, "pin one"));
    assert_int_equal(attempts, 1);
    assert_int_equal(hub_alive(), 0);
    rollout_result_deinit(&r);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, ground_take_down)

static const struct CMUnitTest tests[] = {
    CASE(opencode_is_sent_and_every_token_of_its_work_is_there),
    CASE(what_the_image_has_at_the_version_that_is_wanted_is_taken),
    CASE(its_own_installer_gets_the_pin_and_another_attempt_after_the_network_failed),
    CASE(an_installer_that_knows_no_latest_version_is_not_asked_again),
    CASE(a_program_goes_compressed_and_is_kept_so_for_the_next),
    CASE(where_nothing_unpacks_it_a_program_goes_as_it_is),
    CASE(a_damaged_copy_costs_only_another_transfer),
};

int main(int argc, char **argv) {
    struct err err = {0};
    if (!make_image()) {
        return 1;
    }
    find_agents();
    bool here = hf_ground_begin(argc > 1 ? argv[1] : "protocol=3",
                                SOURCE_ROOT "/examples/binary_search/model_script.json");
    int failed = hf_ground_end(here ? cmocka_run_group_tests(tests, NULL, NULL) : 0);
    forget_image();
    free(agents);
    return file_remove_tree(layer, &err) < 0 ? 1 : failed;
}
