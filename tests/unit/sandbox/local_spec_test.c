/* SPDX-License-Identifier: BSD-3-Clause */
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "sandbox/local.h"
#include "tests/testing.h"

static int check_home(const char *home, struct err *err) {
    return local_check_spec(&(struct sandbox_spec){0}, home, geteuid(), err);
}

static int check_mount(const char *from, const char *to, struct err *err) {
    struct sandbox_mount mount = {from, to};
    struct sandbox_spec spec = {.mounts = &mount, .n_mounts = 1};
    return local_check_spec(&spec, "/home/user", geteuid(), err);
}

static void a_home_stands_anywhere_but_on_the_system(void **state) {
    (void)state;
    struct err err = {0};
    static const char *const good[] = {"/home/user", "/root",     "/a",         "/workspace/x y",
                                       "/tmp/home",  "/usrlocal", "/var/lib/x", "/run/user"};
    static const char *const bad[] = {
        "",      "home",       "/",          "//",           "/a//b",          "/a/",
        "/a/.",  "/./a",       "/a/..",      "/usr",         "/usr/x",         "/etc/x",
        "/proc", "/dev/shm/x", "/lib64/x",   "/run/snaffle", "/run/snaffle/x", "/run/snaffle-guest",
        "/tmp",  "/var",       "/var/tmp/x", "/a:b",         "/a\nb",          "/a\x7f"};
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        assert_ok(check_home(good[i], &err), &err);
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_err(check_home(bad[i], &err), ERR_INPUT, &err, "home");
    }
}

static void a_mount_stands_neither_in_the_home_nor_above_it(void **state) {
    (void)state;
    struct err err = {0};
    assert_ok(check_mount("/usr/bin", "/opt/x", &err), &err);
    assert_ok(check_mount("/usr/bin", "/home/other", &err), &err);
    assert_err(check_mount("/usr/bin", "/home/user", &err), ERR_INPUT, &err, "in each other");
    assert_err(check_mount("/usr/bin", "/home/user/x", &err), ERR_INPUT, &err, "in each other");
    assert_err(check_mount("/usr/bin", "/home", &err), ERR_INPUT, &err, "in each other");
    assert_err(check_mount("/usr/bin", "opt", &err), ERR_INPUT, &err, "'opt'");
    assert_err(check_mount("/no/such", "/opt/x", &err), ERR_NOT_FOUND, &err, "'/no/such'");
    assert_err(check_mount("usr/bin", "/opt/x", &err), ERR_NOT_FOUND, &err, "'usr/bin'");
}

static void a_mount_from_a_shut_folder_is_named(void **state) {
    (void)state;
    if (geteuid() != 0) {
        skip_because("only root's sandboxes run as another user");
    }
    struct err err = {0};
    char dir[] = "/tmp/snaffle-spec-test-XXXXXX";
    assert_non_null(mkdtemp(dir));
    AUTO_FREE char *inside = mem_printf("%s/program", dir);
    assert_int_equal(mkdir(inside, 0755), 0);
    struct sandbox_mount mount = {inside, "/opt/x"};
    struct sandbox_spec spec = {.mounts = &mount, .n_mounts = 1};
    assert_err(local_check_spec(&spec, "/home/user", STATE_UID_FIRST, &err), ERR_ENVIRONMENT, &err,
               dir);
    rmdir(inside);
    rmdir(dir);
}

static void the_last_words_of_bwrap_lead_to_a_remedy(void **state) {
    (void)state;
    static const struct {
        const char *words, *remedy;
    } rows[] = {
        {"", "without a word"},
        {"bwrap: Unknown option --disable-userns\nmore\n", "0.8 or newer"},
        {"bwrap: Can't mount proc on /newroot/proc: x", "systempaths"},
        {"bwrap: Creating new namespace failed: Resource temporarily unavailable", "ulimit -u"},
        {"bwrap: setting up uid map: Permission denied", "user namespaces"},
        {"bwrap: something else", "'bwrap: something else'"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct err err = {0};
        assert_err(local_diagnose(sv_from(rows[i].words), "/nonexistent", &err), ERR_ENVIRONMENT,
                   &err, rows[i].remedy);
        assert_null(strstr(err.msg, "more\n"));
    }
}

static void a_switch_of_the_kernel_is_named_with_what_to_set_it_to(void **state) {
    (void)state;
    static const struct {
        const char *name, *value, *remedy;
    } rows[] = {
        {"kernel/apparmor_restrict_unprivileged_userns", "1\n", "'bwrap-userns-restrict'"},
        {"kernel/unprivileged_userns_clone", "0\n", "`sysctl kernel.unprivileged_userns_clone=1`"},
        {"user/max_user_namespaces", "0\n", "`sysctl user.max_user_namespaces=15000`"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct err err = {0};
        char dir[] = "/tmp/snaffle-sysctls.XXXXXX";
        assert_non_null(mkdtemp(dir));
        AUTO_FREE char *path = file_join(dir, rows[i].name);
        AUTO_FREE char *folder = mem_strndup(path, (size_t)(strrchr(path, '/') - path));
        assert_ok(file_mkdirs(folder, 0700, &err), &err);
        assert_ok(file_write(path, sv_from(rows[i].value), 0600, &err), &err);
        assert_err(local_diagnose(SV("bwrap: setting up uid map: Permission denied"), dir, &err),
                   ERR_ENVIRONMENT, &err, rows[i].remedy);
        assert_ok(file_remove_tree(dir, &err), &err);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_home_stands_anywhere_but_on_the_system),
    cmocka_unit_test(a_mount_stands_neither_in_the_home_nor_above_it),
    cmocka_unit_test(a_mount_from_a_shut_folder_is_named),
    cmocka_unit_test(the_last_words_of_bwrap_lead_to_a_remedy),
    cmocka_unit_test(a_switch_of_the_kernel_is_named_with_what_to_set_it_to),
};

RUN_TESTS(tests)
