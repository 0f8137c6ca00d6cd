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

/* A whole rollout over another system: Debian's smallest, with a Python of its own. */

#define EXAMPLE SOURCE_ROOT "/examples/python_agent"
#define DEBIAN CACHE "/bookworm-python3"
#define DEBOOTSTRAP_S 420 /* Some eighty packages, fetched and unpacked. */

/* Made once; false, with the reason, where it can't be. Its own /dev needs no devices. */
static bool have_debian(char *why, size_t size) {
    static const char *const argv[] = {SOURCE_ROOT "/tests/debian_root.sh", DEBIAN, NULL};
    return ground_runs(argv, DEBOOTSTRAP_S, why, size);
}

/* Where the sandbox's user can come to it: a build may stand in a closed folder. */
static const char *passable_debian(void) {
    static char copy[256];
    struct err err = {0};
    if (state_check_passable(DEBIAN "/bin", STATE_UID_FIRST, &err) == 0) {
        return DEBIAN;
    }
    char line[ERR_MSG_MAX];
    snprintf(copy, sizeof copy, "%s/debian", world_state());
    const char *const argv[] = {"cp", "-a", DEBIAN, copy, NULL};
    assert_true(ground_runs(argv, DEBOOTSTRAP_S, line, sizeof line));
    return copy;
}

/* The agent's own words, and the system's. */
static const char command[] = "test \"$(. /etc/os-release; echo $VERSION_CODENAME)\" = bookworm && "
                              "exec python3 ~/agent.py";

static void an_agent_works_in_a_debian_of_its_own(void **state) {
    NEED_SANDBOX();
    char why[ERR_MSG_MAX];
    if (!have_debian(why, sizeof why)) {
        skip_because("%s", why);
    }
    struct ground *g = *state;
    struct model m = {0};
    struct task task = {0};
    struct err err = {0};
    struct rollout_result r = {0};
    AUTO_BUF struct buf program = {0};
    AUTO_FREE char *file = mem_printf("%s/agent.py", g->dir);
    AUTO_FREE char *mount = mem_printf("%s:/opt/agent/agent.py", file);
    AUTO_JSON json_t *mounts = json_pack("[s]", mount);
    const char *root = passable_debian();
    assert_ok(file_read(EXAMPLE "/agent.py", 1 << 20, &program, &err), &err);
    assert_ok(file_write(file, buf_sv(&program), 0644, &err), &err);
    assert_int_equal(chmod(g->dir, 0755), 0);
    model_start(&m, g, EXAMPLE "/model_script.json");
    g->options.running = NULL;
    g->options.agent = "command";
    g->config.agent.agent_cmd = command;
    g->config.agent.extra_setup_shell = "cp /opt/agent/agent.py ~";
    g->config.agent.mounts = mounts;
    g->config.agent.rootfs = root;
    g->options.setup_offline = true;
    assert_ok(task_load(EXAMPLE, &task, &err), &err);
    assert_ok(rollout_run(ground_factory(g), &task, NULL, NULL, &r, &err), &err);
    model_stop(&m);
    if (!r.has_reward || r.reward != 1 || r.cause) {
        AUTO_FREE char *log = ground_read(&r, "agent.log");
        fail_msg("%s %s %s\n%s", r.status, r.cause ? r.cause : "", r.error ? r.error : "", log);
    }
    const json_t *isolation = json_object_get(r.json, "isolation");
    assert_string_equal(json_string_value(json_object_get(isolation, "rootfs")), root);
    rollout_result_deinit(&r);
    task_deinit(&task);
}

static void a_rootfs_that_is_none_is_refused_before_anything_is_made(void **state) {
    struct ground *g = *state;
    NEED_SANDBOX();
    static const struct {
        const char *path;
        const char *says;
    } rows[] = {{"/nowhere/at/all", "No such file"},
                {"/etc/passwd", "no folder"},
                {"/usr/share", "no /bin/bash"},
                {"/", "own system"}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct err err = {0};
        struct rollout_factory *f = NULL;
        g->config.agent.rootfs = rows[i].path;
        assert_err(rollout_factory_new(&g->options, &f, &err), ERR_INPUT, &err, rows[i].says);
    }
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, ground_set_up, ground_take_down)

static const struct CMUnitTest tests[] = {
    CASE(an_agent_works_in_a_debian_of_its_own),
    CASE(a_rootfs_that_is_none_is_refused_before_anything_is_made),
};

int main(void) {
    world_enter(/* as_user= */ false);
    cmocka_set_message_output(CM_OUTPUT_TAP);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return world_leave() ? failed : 1;
}
