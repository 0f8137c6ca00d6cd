/* SPDX-License-Identifier: BSD-3-Clause */
#include "sandbox/cgroup.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json.h"
#include "base/mem.h"
#include "tests/testing.h"

static void a_counter_is_found_by_its_whole_name_in_either_version(void **state) {
    (void)state;
    const char *v1 = "oom_kill_disable 0\nunder_oom 1\noom_kill 3\n";
    const char *v2 = "low 0\nhigh 0\nmax 17\noom 2\noom_kill 4\noom_group_kill 9\n";
    assert_int_equal(cgroup_counter(v1, "oom_kill"), 3);
    assert_int_equal(cgroup_counter(v2, "oom_kill"), 4);
    assert_int_equal(cgroup_counter(v2, "max"), 17);
    assert_int_equal(cgroup_counter("max 5", "max"), 5);
}

static void what_is_no_counter_is_zero(void **state) {
    (void)state;
    static const char *const texts[] = {
        "",        "\n\n",        "max",       "max ",
        "max x\n", "maximum 4\n", "a max 4\n", "max 99999999999999999999999\n"};
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        assert_int_equal(cgroup_counter(texts[i], "max"), 0);
    }
}

static void groups_are_named_before_they_are_made(void **state) {
    (void)state;
    struct cgroup g;
    struct err err = {0};
    assert_ok(cgroup_name("0123456789abcdef", &g, &err), &err);
    AUTO_JSON json_t *paths = cgroup_paths(&g);
    assert_non_null(paths);
    for (size_t i = 0; i < json_array_size(paths); i++) {
        const char *path = json_string_value(json_array_get(paths, i));
        assert_non_null(strstr(path, "/snaffle-"));
        assert_non_null(strstr(path, "-0123456789abcdef"));
        assert_int_equal(access(path, F_OK), -1);
        assert_ok(cgroup_remove_path(path, &err), &err);
    }
    cgroup_deinit(&g);
}

static void a_sweep_takes_groups_of_dead_owners_alone(void **state) {
    (void)state;
    struct cgroup mine;
    struct err err = {0};
    assert_ok(cgroup_name("1123456789abcdef", &mine, &err), &err);
    cgroup_make(&mine, 64, 10);
    const char *some = mine.has_memory ? mine.memory : mine.has_pids ? mine.pids : NULL;
    if (!some) { /* Nothing can be made here; then nothing is swept either. */
        cgroup_sweep();
        cgroup_remove(&mine);
        cgroup_deinit(&mine);
        return;
    }
    const char *slash = strrchr(some, '/');
    AUTO_FREE char *dead =
        mem_printf("%.*s/snaffle-%d.1-2123456789abcdef", (int)(slash - some), some, (int)getpid());
    assert_int_equal(mkdir(dead, 0755), 0);
    cgroup_sweep();
    assert_int_equal(access(dead, F_OK), -1);
    assert_int_equal(access(some, F_OK), 0);
    cgroup_remove(&mine);
    assert_int_equal(access(some, F_OK), -1);
    cgroup_deinit(&mine);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_counter_is_found_by_its_whole_name_in_either_version),
    cmocka_unit_test(what_is_no_counter_is_zero),
    cmocka_unit_test(groups_are_named_before_they_are_made),
    cmocka_unit_test(a_sweep_takes_groups_of_dead_owners_alone),
};

RUN_TESTS(tests)
