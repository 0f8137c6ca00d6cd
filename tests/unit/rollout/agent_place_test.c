/* SPDX-License-Identifier: BSD-3-Clause */
#include "rollout/agent_place.h"

#include <sys/stat.h>
#include <sys/utsname.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "rollout/config.h"
#include "rollout/factory.h"
#include "tests/testing.h"
#include "tests/unit/rollout/fake_sandbox.h"

/* An agent's program in a machine elsewhere, with faults that a real one does not show on demand.
 * Its model is at a public address, so that nothing else is sent. */

#define VERSION "1.2.3"
#define LOOK "exec:libc=other"
#define PLACE "/home/user/.opencode/bin/opencode"

struct bench {
    char dir[64];
    char machine[128]; /* What the sandbox says of itself when it is like this machine. */
    struct config config;
    struct task task;
    struct rollout_options options;
    struct rollout_factory *factory;
};

/* The version in this machine's cache, or none. */
static void put_in_cache(struct bench *b, const char *version) {
    struct err err = {0};
    AUTO_FREE char *folder = mem_printf("%s/agents/opencode/%s", b->dir, version);
    AUTO_FREE char *program = file_join(folder, "opencode");
    assert_ok(file_mkdirs(folder, 0755, &err), &err);
    assert_ok(file_write(program, SV("a program"), 0755, &err), &err);
}

static int set_up(void **state) {
    struct bench *b = calloc(1, sizeof *b);
    struct err err = {0};
    struct utsname u;
    snprintf(b->dir, sizeof b->dir, "/tmp/snaffle-place-XXXXXX");
    assert_non_null(mkdtemp(b->dir));
    assert_int_equal(chmod(b->dir, 0755), 0);
    setenv("SNAFFLE_STATE", b->dir, 1);
    assert_int_equal(uname(&u), 0);
    bool glibc =
        file_exists("/lib64/ld-linux-x86-64.so.2") || file_exists("/lib/ld-linux-aarch64.so.1");
    snprintf(b->machine, sizeof b->machine, "%s %s\n", u.machine, glibc ? "glibc" : "other");
    fake_reset();
    AUTO_JSON json_t *layer =
        json_pack("{s:s, s:s, s:s, s:s, s:s, s:s}", "base_url", "http://127.0.0.1:9/v1", "model",
                  "m", "opencode_version", VERSION, "capture", "public", "public_url",
                  "http://gateway.example", "listen", "127.0.0.1:0");
    assert_ok(config_build(&(struct config_layer){layer, "test"}, 1,
                           &(struct config_defaults){"1.0.0", NULL}, &b->config, &err),
              &err);
    assert_ok(task_parse(SV("{\"instruction\": \"do it\"}"), "test", NULL, &b->task, &err), &err);
    b->options = (struct rollout_options){
        .using = &fake_remote,
        .mode = ROLLOUT_TRANSPARENT_PROXY,
        .config = &b->config.agent,
        .runs_dir = b->dir,
        .run = "run",
    };
    *state = b;
    return 0;
}

static int take_down(void **state) {
    struct bench *b = *state;
    struct err err = {0};
    rollout_factory_free(b->factory);
    task_deinit(&b->task);
    config_deinit(&b->config);
    assert_ok(file_remove_tree(b->dir, &err), &err);
    free(b);
    return 0;
}

static int create(struct bench *b, struct rollout_session **out, struct err *err) {
    int r = rollout_factory_new(&b->options, &b->factory, err);
    return r < 0 ? r : rollout_factory_create(b->factory, &b->task, NULL, NULL, out, err);
}

static struct rollout_session *created(struct bench *b) {
    struct rollout_session *s = NULL;
    struct err err = {0};
    assert_ok(create(b, &s, &err), &err);
    BUG_IF(!s);
    return s;
}

static void our_copy_is_sent_and_compared(void **state) {
    struct bench *b = *state;
    put_in_cache(b, VERSION);
    fake.faults[0] = (struct fake_fault){.call = LOOK, .out = b->machine};
    struct rollout_session *s = created(b);
    assert_true(fake_ordered("exec clean libc=other", "write " PLACE ".gz"));
    assert_true(fake_ordered("write " PLACE ".gz", "exec clean at=$PLACE"));
    assert_int_equal(fake_count("write " PLACE), 1);
    assert_string_equal(s->program, PLACE);
    assert_string_equal(s->agent_version, VERSION);
    assert_int_equal(fake_count("exec set -o pipefail"), 0);
    rollout_session_free(s);
}

/* The second time as it is, after a digest that differs and where nothing unpacks it. */
static void a_copy_that_arrived_damaged_or_packed_is_sent_again(void **state) {
    struct bench *b = *state;
    static const int codes[] = {5, 6};
    put_in_cache(b, VERSION);
    for (size_t i = 0; i < ARRAY_LEN(codes); i++) {
        fake_reset();
        fake.faults[0] = (struct fake_fault){.call = LOOK, .out = b->machine};
        fake.faults[1] =
            (struct fake_fault){.call = "exec:sha256sum", .exit_code = codes[i], .times = 1};
        struct rollout_session *s = created(b);
        assert_int_equal(fake_count("write " PLACE ".gz"), 1);
        assert_int_equal(fake_count("write " PLACE), 2);
        rollout_session_free(s);
        rollout_factory_free(b->factory);
        b->factory = NULL;
    }
}

static void one_that_is_damaged_each_time_ends_the_rollout(void **state) {
    struct bench *b = *state;
    struct rollout_session *s = NULL;
    struct err err = {0};
    put_in_cache(b, VERSION);
    fake.faults[0] = (struct fake_fault){.call = LOOK, .out = b->machine};
    fake.faults[1] = (struct fake_fault){.call = "exec:sha256sum", .exit_code = 5};
    assert_err(create(b, &s, &err), ERR_SYS, &err, "does not run inside (exit 5)");
    assert_int_equal(fake_count("write " PLACE), 2);
    assert_int_equal(fake.alive, 0);
}

static void a_machine_of_another_kind_gets_the_installer(void **state) {
    struct bench *b = *state;
    put_in_cache(b, VERSION);
    fake.faults[0] = (struct fake_fault){.call = LOOK, .out = "sparc other\n", .times = 1};
    fake.faults[1] =
        (struct fake_fault){.call = LOOK, .out = "sparc other\n" VERSION " /x/opencode\n"};
    struct rollout_session *s = created(b);
    assert_int_equal(fake_count("exec set -o pipefail"), 1);
    assert_string_equal(s->program, "/x/opencode");
    rollout_session_free(s);
}

static void what_does_not_run_there_gives_way_to_the_installer(void **state) {
    struct bench *b = *state;
    put_in_cache(b, VERSION);
    fake.faults[0] = (struct fake_fault){.call = LOOK, .out = b->machine, .times = 1};
    fake.faults[1] = (struct fake_fault){.call = "exec:sha256sum", .exit_code = 132};
    fake.faults[2] = (struct fake_fault){.call = LOOK, .out = "m l\n" VERSION " /x/opencode\n"};
    struct rollout_session *s = created(b);
    assert_int_equal(fake_count("exec set -o pipefail"), 1);
    rollout_session_free(s);
}

static void the_image_s_other_version_does_not_do(void **state) {
    struct bench *b = *state;
    struct rollout_session *s = NULL;
    struct err err = {0};
    fake.faults[0] = (struct fake_fault){.call = LOOK, .out = "m l\n1.2.4 /usr/bin/opencode\n"};
    assert_err(create(b, &s, &err), ERR_ENVIRONMENT, &err, "left no version '" VERSION "'");
    assert_int_equal(fake_count("exec set -o pipefail"), 1);
    assert_int_equal(fake.alive, 0);
}

static void any_version_of_the_image_does_for_latest(void **state) {
    struct bench *b = *state;
    b->config.agent.opencode_version = "latest";
    fake.faults[0] = (struct fake_fault){.call = LOOK, .out = "m l\n1.2.4 /usr/bin/opencode\n"};
    struct rollout_session *s = created(b);
    assert_string_equal(s->agent_version, "1.2.4");
    assert_string_equal(s->program, "/usr/bin/opencode");
    assert_int_equal(fake_count("exec set -o pipefail"), 0);
    rollout_session_free(s);
}

static void a_lost_sandbox_is_not_an_installation_that_failed(void **state) {
    struct bench *b = *state;
    struct rollout_session *s = NULL;
    struct err err = {0};
    fake.faults[0] = (struct fake_fault){.call = LOOK, .code = ERR_LOST};
    assert_err(create(b, &s, &err), ERR_LOST, &err, "");
    assert_int_equal(fake.alive, 0);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, take_down)

static const struct CMUnitTest tests[] = {
    CASE(our_copy_is_sent_and_compared),
    CASE(a_copy_that_arrived_damaged_or_packed_is_sent_again),
    CASE(one_that_is_damaged_each_time_ends_the_rollout),
    CASE(a_machine_of_another_kind_gets_the_installer),
    CASE(what_does_not_run_there_gives_way_to_the_installer),
    CASE(the_image_s_other_version_does_not_do),
    CASE(any_version_of_the_image_does_for_latest),
    CASE(a_lost_sandbox_is_not_an_installation_that_failed),
};

int main(void) {
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
