/* SPDX-License-Identifier: BSD-3-Clause */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/proc.h"
#include "tests/sandbox/contract.h"
#include "tests/sandbox/local_world.h"
#include "tests/sandbox/oci.h"

/* The local backend over a system of its own: the whole contract, and what a rootfs promises. */

static char *small; /* A root folder in the test's state. */

static int create_over_small(const struct sandbox_spec *spec, deadline_ms until,
                             const struct cancel *cancel, struct sandbox **out, struct err *err) {
    struct sandbox_spec own = *spec;
    own.rootfs = own.rootfs ? own.rootfs : small;
    return sandbox_local.create(&own, until, cancel, out, err);
}

static void the_system_inside_is_the_rootfs_and_not_the_hosts(void **state) {
    (void)state;
    struct sandbox *s = contract_shared();
    assert_string_equal(contract_says(s, "cat /etc/marker"), "a small system\n");
    assert_string_equal(contract_says(s, "cat /opt/old/file"), "kept\n");
    assert_string_equal(contract_says(s, "ls /usr/share /etc/alternatives 2>/dev/null | wc -l"),
                        "0\n");
    assert_string_equal(contract_says(s, "ls -d /var/log /root"), "/root\n/var/log\n");
}

static void nothing_in_it_can_be_changed(void **state) {
    (void)state;
    struct sandbox *s = contract_shared();
    assert_string_equal(contract_says(s,
                                      "for d in / /usr /usr/bin /etc /opt /opt/old /var /root; do "
                                      "touch $d/new 2>/dev/null && echo $d; done; true"),
                        "");
    assert_string_equal(contract_says(s, "echo x 2>/dev/null > /etc/marker || cat /etc/marker"),
                        "a small system\n");
}

static void the_sandboxs_own_files_stand_over_it(void **state) {
    (void)state;
    struct sandbox *s = contract_shared();
    assert_string_equal(contract_says(s, "id -un; echo $HOME"), "user\n/home/user\n");
    /* Its profile is not seen: it would change what was asked for. */
    assert_null(strstr(contract_says(s, "echo $PATH"), "/nowhere"));
    assert_string_equal(contract_says(s, "test -e /etc/profile || echo none"), "none\n");
    assert_string_equal(contract_says(s, "touch /tmp/a /var/tmp/b /dev/shm/c && echo made"),
                        "made\n");
}

static void a_mount_stands_beside_what_the_rootfs_has_there(void **state) {
    (void)state;
    AUTO_FREE char *file = mem_printf("%s/mounted", world_state());
    struct err err = {0};
    assert_ok(file_write(file, SV("mounted\n"), 0644, &err), &err);
    struct sandbox_mount mounts[] = {{file, "/opt/new/file"}, {file, "/opt/old/second"}};
    struct sandbox *s = contract_make(&(struct sandbox_spec){.mounts = mounts, .n_mounts = 2});
    assert_string_equal(contract_says(s, "cat /opt/old/file /opt/new/file /opt/old/second"),
                        "kept\nmounted\nmounted\n");
    contract_end(s);
}

static void isolation_names_the_rootfs_also_after_a_restart(void **state) {
    (void)state;
    struct err err = {0};
    struct sandbox *s = contract_make(NULL);
    struct sandbox_spec spec = {.owner = "test", .run = CONTRACT_RUN, .rollout = "case"};
    assert_ok(sandbox_restart(s, &spec, deadline_in_s(PATIENCE_S), NULL, &err), &err);
    assert_string_equal(contract_says(s, "cat /etc/marker"), "a small system\n");
    AUTO_JSON json_t *isolation = sandbox_isolation(s);
    assert_string_equal(json_string_value(json_object_get(isolation, "rootfs")), small);
    contract_end(s);
}

static void a_rootfs_without_a_shell_is_refused_and_nothing_is_left(void **state) {
    (void)state;
    struct err err = {0};
    struct sandbox *s = NULL;
    AUTO_FREE char *empty = mem_printf("%s/empty", world_state());
    assert_int_equal(mkdir(empty, 0755), 0);
    struct sandbox_spec spec = {
        .owner = "test", .run = CONTRACT_RUN, .rollout = "case", .rootfs = empty};
    assert_err(sandbox_local.check_create(&spec, &err), ERR_INPUT, &err, "no /bin/bash");
    assert_err(sandbox_create(&sandbox_local, &spec, deadline_in_s(PATIENCE_S), NULL, &s, &err),
               ERR_INPUT, &err, "no /bin/bash");
    assert_int_equal(rmdir(empty), 0);
}

/* The small system as one layer, and another that changes it. */
static void write_layout(const char *layout) {
    struct err err = {0};
    struct buf layers[2] = {{.limit = 64u << 20}, {0}};
    struct proc_result tar = {0};
    const char *argv[] = {"tar", "-C", small, "-cf", "-", ".", NULL};
    assert_ok(proc_run(&(struct proc_options){.argv = argv, .output_max = 64u << 20}, &tar, &err),
              &err);
    assert_int_equal(tar.exit_code, 0);
    assert_int_equal(buf_add_sv(&layers[0], buf_sv(&tar.out)), 0);
    proc_result_deinit(&tar);
    static const struct oci_entry upper[] = {{'f', "etc/marker", "an image\n", 0},
                                             {'f', "opt/.wh.old", "", 0}};
    oci_layer(upper, ARRAY_LEN(upper), OCI_ZSTD, &layers[1]);
    oci_image(layout,
              &(struct oci_about){.env = "[\"FLAVOUR=image\", \"PATH=/opt/its/bin:/usr/bin\"]"},
              layers, 2);
    buf_deinit(&layers[0]);
    buf_deinit(&layers[1]);
}

static void an_image_layout_is_a_system_too(void **state) {
    (void)state;
    struct err err = {0};
    AUTO_FREE char *layout = mem_printf("%s/layout", world_state());
    assert_ok(file_mkdirs(layout, 0755, &err), &err);
    write_layout(layout);
    struct sandbox *s = contract_make(&(struct sandbox_spec){.rootfs = layout});
    assert_string_equal(contract_says(s, "cat /etc/marker; ls /opt | wc -l"), "an image\n0\n");
    /* What the image asks of an environment, all but a clean command has. */
    assert_string_equal(contract_says(s, "echo $FLAVOUR $PATH $HOME"),
                        "image /opt/its/bin:/usr/bin /home/user\n");
    struct sandbox_output out = {0};
    struct sandbox_exec clean = {.shell = "echo $FLAVOUR$PATH", .clean = true};
    assert_ok(sandbox_exec(s, &clean, &out, &err), &err);
    assert_null(strstr(buf_cstr(&out.out), "image"));
    assert_null(strstr(buf_cstr(&out.out), "/opt/its"));
    sandbox_output_deinit(&out);
    AUTO_JSON json_t *isolation = sandbox_isolation(s);
    const char *name = json_string_value(json_object_get(isolation, "rootfs"));
    assert_int_equal(strncmp(name, "sha256:", 7), 0);
    contract_end(s);
}

static bool is_there(const char *path) {
    return file_exists(path) == 1;
}

static unsigned sweep_images(double unused_s, bool dry_run) {
    struct err err = {0};
    unsigned n = 0;
    assert_ok(sandbox_local.sweep_images(unused_s, dry_run, &n, &err), &err);
    return n;
}

/* The folder that the layout was unpacked to. */
static char *unpacked(struct sandbox *s) {
    AUTO_JSON json_t *isolation = sandbox_isolation(s);
    const char *name = json_string_value(json_object_get(isolation, "rootfs"));
    return mem_printf("%s/images/%s", world_state(), name + strlen("sha256:"));
}

static void an_image_goes_when_no_sandbox_has_it_and_never_before(void **state) {
    (void)state;
    AUTO_FREE char *layout = mem_printf("%s/layout", world_state());
    struct sandbox_spec spec = {.rootfs = layout};
    struct sandbox *s = contract_make(&spec);
    struct sandbox *t = contract_make(&spec);
    AUTO_FREE char *dir = unpacked(s);
    assert_true(is_there(dir));
    assert_int_equal(sweep_images(0, false), 0);
    contract_end(s);
    assert_int_equal(sweep_images(0, false), 0);
    assert_string_equal(contract_says(t, "cat /etc/marker"), "an image\n");
    contract_end(t);

    assert_int_equal(sweep_images(3600, false), 0); /* It was used a moment ago. */
    assert_int_equal(sweep_images(0, true), 1);
    assert_true(is_there(dir));
    assert_int_equal(sweep_images(0, false), 1);
    assert_false(is_there(dir));

    s = contract_make(&spec); /* It comes back, ... */
    assert_string_equal(contract_says(s, "cat /etc/marker"), "an image\n");
    contract_end(s);
    struct timespec long_ago[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
    assert_int_equal(utimensat(AT_FDCWD, dir, long_ago, 0), 0);
    s = contract_make(&spec); /* ... and each use counts. */
    contract_end(s);
    assert_int_equal(sweep_images(3600, false), 0);
    assert_int_equal(utimensat(AT_FDCWD, dir, long_ago, 0), 0);
    assert_int_equal(sweep_images(3600, false), 1);
    assert_false(is_there(dir));
}

static void what_a_killed_process_left_among_the_images_goes_too(void **state) {
    (void)state;
    struct err err = {0};
    AUTO_FREE char *half = mem_printf("%s/images/unpacking/usr", world_state());
    AUTO_FREE char *going = mem_printf("%s/images/.going-00/usr", world_state());
    AUTO_FREE char *temp = mem_printf("%s/images/.2048-0123456789abcdef", world_state());
    struct timespec long_ago[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
    assert_ok(file_mkdirs(half, 0755, &err), &err);
    assert_ok(file_mkdirs(going, 0755, &err), &err);
    assert_ok(file_write(temp, SV("x"), 0600, &err), &err);
    assert_int_equal(sweep_images(0, true), 0);
    assert_true(is_there(half) && is_there(going));
    assert_int_equal(sweep_images(0, false), 0);
    assert_false(is_there(half) || is_there(going));
    assert_true(is_there(temp)); /* Somebody may be writing it. */
    assert_int_equal(utimensat(AT_FDCWD, temp, long_ago, 0), 0);
    assert_int_equal(sweep_images(0, false), 0);
    assert_false(is_there(temp));
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(the_system_inside_is_the_rootfs_and_not_the_hosts),
    cmocka_unit_test(nothing_in_it_can_be_changed),
    cmocka_unit_test(the_sandboxs_own_files_stand_over_it),
    cmocka_unit_test(a_mount_stands_beside_what_the_rootfs_has_there),
    cmocka_unit_test(isolation_names_the_rootfs_also_after_a_restart),
    cmocka_unit_test(a_rootfs_without_a_shell_is_refused_and_nothing_is_left),
    cmocka_unit_test(an_image_layout_is_a_system_too),
    cmocka_unit_test(an_image_goes_when_no_sandbox_has_it_and_never_before),
    cmocka_unit_test(what_a_killed_process_left_among_the_images_goes_too),
};

static bool make_small(const char *script) {
    struct err err = {0};
    struct proc_result made = {0};
    small = mem_printf("%s/small", world_state());
    const char *argv[] = {"/bin/sh", "-c", script, "small_root", small, NULL};
    int r = proc_run(&(struct proc_options){.argv = argv}, &made, &err);
    bool good = r == 0 && made.exit_code == 0;
    if (!good) {
        printf("Bail out! no small system: %s%s\n", err.msg, buf_cstr(&made.err));
    }
    proc_result_deinit(&made);
    return good;
}

/* With `contract`: the whole contract; else the cases of this file. */
int main(int argc, char **argv) {
    bool as_user = argc > 2 && strcmp(argv[2], "--as-user") == 0;
    bool contract = argc > 1 && strcmp(argv[1], "contract") == 0;
    struct sandbox_backend backend = sandbox_local;
    struct err err = {0};
    AUTO_BUF struct buf script = {0}; /* Read while the source is sure to be readable. */
    backend.create = create_over_small;
    if (file_read(SOURCE_ROOT "/tests/sandbox/small_root.sh", 1 << 20, &script, &err) < 0) {
        printf("Bail out! %s\n", err.msg);
        return 1;
    }
    world_enter(as_user);
    if (!make_small(buf_cstr(&script))) {
        return 1;
    }
    int failed =
        contract ? contract_run(&backend) : contract_run_cases(&backend, cases, ARRAY_LEN(cases));
    free(small);
    return world_leave() ? failed : 1;
}
