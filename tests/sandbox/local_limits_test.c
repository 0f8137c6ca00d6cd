/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "tests/sandbox/contract.h"
#include "tests/sandbox/local_world.h"

/* Memory, processes and disk filled up: whoever does it ends or is refused, the limit is named, and
 * the sandbox, its neighbours and the host go on. The same cases run with the kernel's limits, as
 * an ordinary user, and with nothing but the guest's watch. */

static bool is_enforced(const struct sandbox *s, const char *limit) {
    AUTO_JSON json_t *isolation = sandbox_isolation(s);
    const char *text = json_string_value(json_object_get(isolation, limit));
    assert_non_null(text);
    return strncmp(text, "enforced: ", strlen("enforced: ")) == 0;
}

/* "disk memory processes", as far as they were hit. */
static const char *hits(struct sandbox *s) {
    static char text[64];
    struct err err = {0};
    AUTO_JSON json_t *hit = NULL;
    static const char *const names[] = {"disk", "memory", "processes"};
    size_t n = 0;
    text[0] = '\0';
    assert_ok(sandbox_limits_hit(s, &hit, &err), &err);
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (json_is_string(json_object_get(hit, names[i]))) {
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", n ? " " : "", names[i]);
        }
    }
    return text;
}

static int exit_of(struct sandbox *s, const char *shell) {
    struct err err = {0};
    struct sandbox_output o = {0};
    struct sandbox_exec what = {.shell = shell, .clean = true, .timeout_s = PATIENCE_S};
    assert_ok(sandbox_exec(s, &what, &o, &err), &err);
    assert_false(o.timed_out);
    int code = o.exit_code;
    sandbox_output_deinit(&o);
    return code;
}

static struct sandbox *make(struct sandbox_limits limits) {
    struct sandbox_spec spec = {.limits = limits};
    return contract_make(&spec);
}

/* tail keeps a line whole, however long it is; it then holds it for as long as it is let. */
#define FILL_MEMORY                                                                                \
    "(head -c 300000000 /dev/zero; sleep 3) | tail -n 1 >/dev/null; exit ${PIPESTATUS[1]}"

static void a_program_that_fills_the_memory_ends_and_the_limit_is_named(void **state) {
    (void)state;
    struct sandbox *s = make((struct sandbox_limits){.memory_mb = 128});
    assert_string_equal(hits(s), "");

    assert_int_equal(exit_of(s, "(" FILL_MEMORY ")& wait $!"), 137);
    assert_string_equal(hits(s), "memory");
    assert_string_equal(contract_says(s, "echo alive"), "alive\n");
    contract_end(s);
}

static void memory_shared_out_among_many_programs_counts_whole(void **state) {
    (void)state;
    struct sandbox *s = make((struct sandbox_limits){.memory_mb = 128});
    int code = exit_of(s, "for i in 1 2 3 4 5 6; do (head -c 40000000 /dev/zero; sleep 3) | "
                          "tail -n 1 >/dev/null & done; wait; exit 3");
    assert_true(code == 3 || code == 137);
    assert_string_equal(hits(s), "memory");
    assert_string_equal(contract_says(s, "echo alive"), "alive\n");
    contract_end(s);
}

/* What lies in /tmp is memory that no process's end gives back. */
static void a_full_tmp_and_full_memory_leave_the_sandbox_alive(void **state) {
    (void)state;
    struct sandbox *s = make((struct sandbox_limits){.memory_mb = 128});
    assert_int_not_equal(exit_of(s, "head -c 200000000 /dev/zero >/tmp/a"), 0);
    assert_int_not_equal(exit_of(s, "head -c 200000000 /dev/zero >/dev/shm/a"), 0);
    assert_string_equal(hits(s), "disk");
    assert_int_equal(exit_of(s, "(" FILL_MEMORY ")& wait $!"), 137);
    assert_string_equal(hits(s), "disk memory");
    assert_string_equal(contract_says(s, "rm /tmp/a /dev/shm/a; echo alive"), "alive\n");
    contract_end(s);
}

#define FILL_HOME "while head -c 2000000 /dev/zero >>\"$PWD/fill\"; do sleep 0.02; done; exit 7"

static void a_home_that_is_filled_is_named_and_the_next_command_runs(void **state) {
    (void)state;
    struct sandbox *s = make((struct sandbox_limits){.disk_mb = 32});
    struct sandbox *other = make((struct sandbox_limits){.disk_mb = 32});
    assert_int_equal(exit_of(s, FILL_HOME), is_enforced(s, "disk") ? 7 : 137);
    assert_string_equal(hits(s), "disk");
    assert_string_equal(hits(other), "");
    assert_string_equal(contract_says(other, "head -c 9000000 /dev/zero >f; wc -c <f"),
                        "9000000\n");
    assert_string_equal(contract_says(s, "rm fill; head -c 9000000 /dev/zero >f; wc -c <f; "
                                         "sleep 2; echo alive"),
                        "9000000\nalive\n");
    contract_end(other);
    contract_end(s);
}

static void what_a_killed_program_left_is_not_held_against_the_next(void **state) {
    (void)state;
    struct sandbox *s = make((struct sandbox_limits){.disk_mb = 16});
    int code = is_enforced(s, "disk") ? 7 : 137;
    assert_int_equal(exit_of(s, FILL_HOME), code);
    assert_string_equal(contract_says(s, "sleep 3; echo graded"), "graded\n");
    assert_int_equal(exit_of(s, FILL_HOME), code);
    assert_string_equal(contract_says(s, "rm fill; echo clean"), "clean\n");
    contract_end(s);
}

static void many_small_files_fill_a_home_too(void **state) {
    (void)state;
    struct sandbox *s = make((struct sandbox_limits){.disk_mb = 16});
    const char *fill = "for i in $(seq 6000); do : >f$i || exit 7; done 2>/dev/null";
    if (is_enforced(s, "disk")) {
        assert_int_equal(exit_of(s, fill), 7);
        assert_string_equal(hits(s), "disk");
    } else { /* Only bytes are counted. */
        assert_int_equal(exit_of(s, fill), 0);
        assert_string_equal(hits(s), "");
    }
    assert_string_equal(contract_says(s, "rm f*; : >f; ls"), "f\n");
    contract_end(s);
}

static void as_many_processes_as_may_run_are_named(void **state) {
    (void)state;
    struct sandbox *s = make((struct sandbox_limits){.processes = 40});
    AUTO_FREE char *bomb = mem_printf(
        "for i in $(seq 100); do sleep %s & done 2>/dev/null; sleep 1; exit 0", world_mark());
    struct err err = {0};
    struct sandbox_job *job = NULL;
    struct sandbox_exec what = {.argv = (const char *[]){"bash", "-c", bomb, NULL}};
    assert_ok(sandbox_start(s, &what, &job, &err), &err);
    deadline_ms until = deadline_in_s(PATIENCE_S);
    while (world_processes_named(world_mark()) < 35) {
        assert_false(deadline_passed(until));
        clock_sleep_ms(10);
    }
    clock_sleep_ms(1500);
    assert_in_range(world_processes_named(world_mark()), 30, 40);
    assert_ok(sandbox_kill_all(s, deadline_in_s(PATIENCE_S), &err), &err);
    sandbox_job_free(job);
    assert_string_equal(hits(s), "processes");
    assert_string_equal(contract_says(s, "echo alive"), "alive\n");
    contract_end(s);
}

/* All of it at once, which ext4 refuses while a little is left. */
static void one_large_write_fills_a_home_too(void **state) {
    (void)state;
    struct sandbox *s = make((struct sandbox_limits){.disk_mb = 100});
    int code =
        exit_of(s, "dd if=/dev/zero of=f bs=1M count=150 2>/dev/null; r=$?; sleep 3; exit $r");
    assert_int_equal(code, is_enforced(s, "disk") ? 1 : 137);
    assert_string_equal(hits(s), "disk");
    contract_end(s);
}

static void a_restart_keeps_the_home_and_what_was_hit(void **state) {
    (void)state;
    struct err err = {0};
    struct sandbox_spec spec = {
        .owner = "test", .run = CONTRACT_RUN, .rollout = "case", .limits = {.disk_mb = 64}};
    struct sandbox *s = contract_make(&spec);
    contract_says(s, "mkdir -p a/b; echo kept >a/b/c; chmod 750 a; head -c 99000000 /dev/zero "
                     ">/tmp/x; head -c 900000000 /dev/zero >/dev/shm/x");
    for (int i = 0; i < 5; i++) {
        assert_ok(sandbox_restart(s, &spec, deadline_in_s(PATIENCE_S), NULL, &err), &err);
        assert_string_equal(contract_says(s, "cat a/b/c; stat -c %a a .; ls -A; rm -rf n; mkdir n; "
                                             "touch n/$RANDOM"),
                            i == 0 ? "kept\n750\n700\na\n" : "kept\n750\n700\na\nn\n");
        assert_string_equal(hits(s), "disk");
    }
    contract_end(s);
}

/* The home's folder on the host stays empty: an image is mounted where the host does not see it. */
static void the_host_sees_no_mount_of_a_sandbox(void **state) {
    (void)state;
    struct sandbox *s = make((struct sandbox_limits){.disk_mb = 32});
    AUTO_BUF struct buf mounts = {0};
    FILE *f = fopen("/proc/self/mounts", "r");
    char piece[4096];
    assert_non_null(f);
    for (size_t n; (n = fread(piece, 1, sizeof piece, f)) > 0;) {
        assert_int_equal(buf_add(&mounts, piece, n), 0);
    }
    fclose(f);
    assert_null(strstr(buf_cstr(&mounts), sandbox_id(s)));
    if (is_enforced(s, "disk")) {
        assert_string_equal(
            contract_says(s, "stat -f -c %T .; [ $(df -m --output=size . | tail -1) -le "
                             "32 ] && echo sized; grep -c 'home/user.*nosuid,nodev' "
                             "/proc/self/mounts"),
            "ext2/ext3\nsized\n1\n");
    }
    contract_end(s);
}

/* The empty image for this size is none: what a kernel without ext4 would make of a good one. */
static void a_disk_that_can_not_be_mounted_is_counted_instead(void **state) {
    (void)state;
    struct err err = {0};
    contract_shared();
    AUTO_FREE char *image = mem_printf("%s/images/home-48.ext4", world_state());
    assert_ok(file_write(image, SV("no file system"), 0600, &err), &err);
    struct sandbox *s = make((struct sandbox_limits){.disk_mb = 48});
    assert_false(is_enforced(s, "disk"));
    assert_string_equal(contract_says(s, "ls -A; echo x >f; cat f"), "x\n");
    assert_int_equal(exit_of(s, FILL_HOME), 137);
    assert_string_equal(hits(s), "disk");
    AUTO_FREE char *copy = mem_printf("%s/sandboxes/%s/home.ext4", world_state(), sandbox_id(s));
    assert_false(file_exists(copy));
    contract_end(s);
}

static void strict_is_content_where_the_kernel_holds_all(void **state) {
    (void)state;
    struct sandbox *s = contract_shared();
    bool all = is_enforced(s, "memory") && is_enforced(s, "processes") && is_enforced(s, "disk");
    assert_true(is_enforced(s, "processes"));
    if (geteuid() == 0 && !getenv("SNAFFLE_LOCAL_WITHOUT") &&
        access("/dev/loop-control", F_OK) == 0) {
        assert_true(is_enforced(s, "disk"));
    }
    struct sandbox_spec spec = {
        .owner = "test", .run = CONTRACT_RUN, .rollout = "strict", .strict = true};
    struct sandbox *strict = NULL;
    struct err err = {0};
    int r = sandbox_create(contract_backend, &spec, deadline_in_s(PATIENCE_S), NULL, &strict, &err);
    if (all) {
        assert_ok(r, &err);
        assert_string_equal(contract_says(strict, "echo fine"), "fine\n");
        contract_end(strict);
    } else {
        assert_err(r, ERR_UNSUPPORTED, &err, "only watched on this machine");
    }
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(a_program_that_fills_the_memory_ends_and_the_limit_is_named),
    cmocka_unit_test(memory_shared_out_among_many_programs_counts_whole),
    cmocka_unit_test(a_full_tmp_and_full_memory_leave_the_sandbox_alive),
    cmocka_unit_test(a_home_that_is_filled_is_named_and_the_next_command_runs),
    cmocka_unit_test(what_a_killed_program_left_is_not_held_against_the_next),
    cmocka_unit_test(many_small_files_fill_a_home_too),
    cmocka_unit_test(as_many_processes_as_may_run_are_named),
    cmocka_unit_test(one_large_write_fills_a_home_too),
    cmocka_unit_test(a_restart_keeps_the_home_and_what_was_hit),
    cmocka_unit_test(the_host_sees_no_mount_of_a_sandbox),
    cmocka_unit_test(a_disk_that_can_not_be_mounted_is_counted_instead),
    cmocka_unit_test(strict_is_content_where_the_kernel_holds_all),
};

int main(int argc, char **argv) {
    world_enter(argc > 1 && strcmp(argv[1], "--as-user") == 0);
    int failed = contract_run_cases(&sandbox_local, cases, ARRAY_LEN(cases));
    return world_leave() ? failed : 1;
}
