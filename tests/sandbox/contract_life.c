/* SPDX-License-Identifier: BSD-3-Clause */
#include <pthread.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "tests/sandbox/contract.h"

static const struct sandbox_spec plain = {.owner = "test", .run = CONTRACT_RUN, .rollout = "life"};

static void restart(struct sandbox *s, const struct sandbox_spec *spec) {
    struct err err = {0};
    assert_ok(sandbox_restart(s, spec, deadline_in_s(PATIENCE_S), NULL, &err), &err);
}

/* How many sandboxes of this run there are; `only_alive`: with a living owner. */
static size_t listed(const char *run, bool only_alive) {
    struct err err = {0};
    AUTO_JSON json_t *list = NULL;
    assert_ok(contract_backend->list(&(struct sandbox_scope){.run = run}, &list, &err), &err);
    size_t n = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        n += !only_alive || json_is_true(json_object_get(json_array_get(list, i), "alive"));
    }
    return n;
}

static void restart_keeps_the_home_and_ends_all_else(void **state) {
    (void)state;
    struct sandbox *s = contract_make(NULL);
    struct err err = {0};
    struct sandbox_job *job = NULL;
    int code = -1;
    contract_says(s,
                  "echo kept >kept; echo lost >/tmp/lost; ln -s /etc/passwd link; mkdir -m 0 shut");
    struct sandbox_exec what = {
        .shell = "(setsid nohup sleep 31330 >/dev/null 2>&1 &); touch ready; sleep 31330"};
    assert_ok(sandbox_start(s, &what, &job, &err), &err);
    contract_await_file(s, "ready");
    restart(s, &plain);
    assert_int_equal(contract_count(s, "31330"), 0);
    assert_string_equal(contract_says(s, "cat kept; readlink link; stat -c %a shut; ls /tmp"),
                        "kept\n/etc/passwd\n0\n");
    /* Never 0: nobody saw its end. */
    assert_err(sandbox_job_wait(job, deadline_in_s(PATIENCE_S), NULL, &code, &err), ERR_LOST, &err,
               "");
    assert_err(sandbox_job_kill(job, &err), ERR_LOST, &err, "");
    sandbox_job_free(job);
    contract_end(s);
}

static void the_clean_place_is_really_new_after_a_restart(void **state) {
    (void)state;
    struct sandbox *s = contract_make(NULL);
    contract_says(s, "touch /tmp/x /dev/shm/x; mkdir -p .config; echo 'echo rc' >.bash_profile");
    restart(s, &plain);
    struct err err = {0};
    struct sandbox_output o = {0};
    struct sandbox_exec what = {.shell = "ls -A /tmp /dev/shm \"$HOME\" | grep x; echo end",
                                .clean = true};
    assert_ok(sandbox_exec(s, &what, &o, &err), &err);
    assert_string_equal(buf_cstr(&o.out), "end\n");
    sandbox_output_deinit(&o);
    contract_end(s);
}

static void a_mount_is_seen_read_only_and_only_where_asked(void **state) {
    (void)state;
    struct err err = {0};
    char dir[] = "/tmp/snaffle-mount-XXXXXX";
    assert_non_null(mkdtemp(dir));
    assert_int_equal(chmod(dir, 0755), 0);
    AUTO_FREE char *file = file_join(dir, "program");
    assert_ok(file_write(file, SV("#!/bin/sh\necho mounted\n"), 0755, &err), &err);
    struct sandbox_mount mount = {.host_path = dir, .path = "/opt/agent"};
    struct sandbox_spec spec = plain;
    spec.mounts = &mount;
    spec.n_mounts = 1;
    struct sandbox *s = contract_make(&spec);
    /* Root may write everywhere; what it has is a copy. */
    bool is_root = strcmp(contract_says(s, "id -u"), "0\n") == 0;
    assert_string_equal(contract_says(s, "/opt/agent/program; echo x 2>/dev/null >/opt/agent/x || "
                                         "echo refused"),
                        is_root ? "mounted\n" : "mounted\nrefused\n");
    assert_false(file_exists("/opt/agent/x"));
    restart(s, &plain);
    assert_string_equal(contract_says(s, "ls /opt/agent 2>/dev/null || echo gone"), "gone\n");
    contract_end(s);
    assert_ok(file_remove_tree(dir, &err), &err);
}

static void a_home_may_stand_anywhere(void **state) {
    (void)state;
    static const char *const homes[] = {"/root", "/custom/home", "/home/someone/else", "/tmp/home"};
    struct err err = {0};
    for (size_t i = 0; i < ARRAY_LEN(homes); i++) {
        struct sandbox_spec spec = plain;
        spec.home = homes[i];
        struct sandbox *s = contract_make(&spec);
        assert_string_equal(sandbox_home(s), homes[i]);
        assert_ok(sandbox_write_file(s, "file", SV("x"), 0644, &err), &err);
        AUTO_FREE char *want = mem_printf("%s\n%s\nfile\n", homes[i], homes[i]);
        assert_string_equal(contract_says(s, "pwd; echo ~; ls"), want);
        contract_end(s);
    }
}

static void two_sandboxes_do_not_see_each_other(void **state) {
    (void)state;
    struct sandbox *a = contract_make(NULL);
    struct sandbox *b = contract_make(NULL);
    struct err err = {0};
    struct sandbox_job *job = NULL;
    assert_string_not_equal(sandbox_id(a), sandbox_id(b));
    struct sandbox_exec what = {.shell = "touch /tmp/mine mine; sleep 31329"};
    assert_ok(sandbox_start(a, &what, &job, &err), &err);
    contract_await_file(a, "mine");
    assert_int_equal(contract_count(b, "31329"), 0);
    assert_string_equal(contract_says(b, "ls /tmp ."), ".:\n\n/tmp:\n");
    contract_end(b);
    assert_int_equal(contract_count(a, "31329") > 0, 1);
    sandbox_job_free(job);
    contract_end(a);
}

static void assert_all_lost(struct sandbox *s, struct sandbox_job *job) {
    struct err err = {0};
    struct sandbox_output o = {0};
    struct sandbox_job *other = NULL;
    AUTO_BUF struct buf b = {0};
    int code = -1;
    struct sandbox_exec what = {.shell = "true"};
    assert_err(sandbox_exec(s, &what, &o, &err), ERR_LOST, &err, "");
    assert_err(sandbox_start(s, &what, &other, &err), ERR_LOST, &err, "");
    assert_err(sandbox_job_wait(job, deadline_in_s(9), NULL, &code, &err), ERR_LOST, &err, "");
    assert_err(sandbox_job_kill(job, &err), ERR_LOST, &err, "");
    assert_err(sandbox_kill_all(s, deadline_in_s(9), &err), ERR_LOST, &err, "");
    assert_err(sandbox_write_file(s, "f", SV(""), 0644, &err), ERR_LOST, &err, "");
    assert_err(sandbox_read_file(s, "f", 0, 1, &b, &err), ERR_LOST, &err, "");
    assert_err(sandbox_exists(s, "f", &err), ERR_LOST, &err, "");
    assert_err(sandbox_restart(s, &plain, deadline_in_s(9), NULL, &err), ERR_LOST, &err, "");
    json_t *hit = NULL;
    assert_err(sandbox_limits_hit(s, &hit, &err), ERR_LOST, &err, "");
    assert_null(hit);
    assert_int_equal(code, -1);
}

static void after_a_kill_every_call_says_that_the_sandbox_is_lost(void **state) {
    (void)state;
    struct sandbox *s = contract_make(NULL);
    struct err err = {0};
    struct sandbox_job *job = NULL;
    struct sandbox_exec what = {.shell = "sleep 31328"};
    assert_ok(sandbox_start(s, &what, &job, &err), &err);
    assert_ok(sandbox_kill(s, &err), &err);
    assert_ok(sandbox_kill(s, &err), &err);
    assert_all_lost(s, job);
    assert_ok(sandbox_kill(s, &err), &err);
    sandbox_job_free(job);
    sandbox_free(s);
    sandbox_free(NULL);
}

struct kill_later {
    struct sandbox *sandbox;
    int result;
};

static void *kill_it(void *arg) {
    struct kill_later *k = arg;
    clock_sleep_ms(50);
    k->result = sandbox_kill(k->sandbox, NULL);
    return NULL;
}

static void a_kill_from_another_thread_ends_a_wait_and_a_command(void **state) {
    (void)state;
    for (int with_job = 0; with_job < 2; with_job++) {
        struct kill_later k = {.sandbox = contract_make(NULL)};
        struct err err = {0};
        struct sandbox_output o = {0};
        struct sandbox_job *job = NULL;
        int code = -1;
        pthread_t thread;
        struct sandbox_exec what = {.shell = "sleep 31327", .timeout_s = 600};
        if (with_job) {
            assert_ok(sandbox_start(k.sandbox, &what, &job, &err), &err);
        }
        assert_int_equal(pthread_create(&thread, NULL, kill_it, &k), 0);
        int r = with_job ? sandbox_job_wait(job, deadline_in_s(600), NULL, &code, &err)
                         : sandbox_exec(k.sandbox, &what, &o, &err);
        pthread_join(thread, NULL);
        assert_int_equal(r, ERR_LOST);
        assert_int_equal(code, -1);
        assert_int_equal(k.result, 0);
        sandbox_output_deinit(&o);
        sandbox_job_free(job);
        sandbox_free(k.sandbox);
    }
}

static void *throw_it(void *arg) {
    clock_sleep_ms(5);
    cancel_throw(arg);
    return NULL;
}

static void a_create_that_is_cancelled_leaves_nothing(void **state) {
    (void)state;
    struct sandbox_spec spec = plain;
    spec.run = "cancelled";
    contract_shared(); /* Skips where nothing works. */
    for (int late = 0; late < 10; late++) {
        struct cancel *cancel = NULL;
        struct sandbox *s = NULL;
        struct err err = {0};
        pthread_t thread;
        assert_ok(cancel_new(&cancel, &err), &err);
        if (late == 0) {
            cancel_throw(cancel);
        } else {
            assert_int_equal(pthread_create(&thread, NULL, throw_it, cancel), 0);
            clock_sleep_ms(late % 5);
        }
        int r =
            sandbox_create(contract_backend, &spec, deadline_in_s(PATIENCE_S), cancel, &s, &err);
        if (late > 0) {
            pthread_join(thread, NULL);
        }
        assert_true(r == 0 || (r == ERR_CANCELLED && !s));
        assert_true(late > 0 || r == ERR_CANCELLED);
        sandbox_free(s);
        cancel_free(cancel);
        assert_int_equal(listed("cancelled", false), 0);
    }
}

static void a_create_without_time_says_so_and_leaves_nothing(void **state) {
    (void)state;
    struct sandbox_spec spec = plain;
    struct sandbox *s = NULL;
    struct err err = {0};
    spec.run = "hasty";
    contract_shared();
    assert_err(sandbox_create(contract_backend, &spec, deadline_in_ms(0), NULL, &s, &err),
               ERR_TIMEOUT, &err, "");
    assert_int_equal(listed("hasty", false), 0);
}

static void a_live_sandbox_is_listed_and_no_sweep_touches_it(void **state) {
    (void)state;
    struct sandbox_spec spec = plain;
    struct err err = {0};
    unsigned removed = 0;
    spec.run = "listed";
    struct sandbox *s = contract_make(&spec);
    AUTO_JSON json_t *list = NULL;
    assert_ok(contract_backend->list(&(struct sandbox_scope){.run = "listed"}, &list, &err), &err);
    assert_int_equal(json_array_size(list), 1);
    const json_t *entry = json_array_get(list, 0);
    assert_string_equal(json_string_value(json_object_get(entry, "id")), sandbox_id(s));
    assert_string_equal(json_string_value(json_object_get(entry, "run")), "listed");
    assert_true(json_is_true(json_object_get(entry, "alive")));
    assert_true(json_number_value(json_object_get(entry, "created")) > 1e9);
    assert_ok(
        contract_backend->sweep(&(struct sandbox_scope){.run = "listed"}, false, &removed, &err),
        &err);
    assert_int_equal(removed, 0);
    assert_string_equal(contract_says(s, "echo here"), "here\n");
    contract_end(s);
    assert_int_equal(listed("listed", false), 0);
}

static void what_holds_is_said_and_strict_refuses_the_rest(void **state) {
    (void)state;
    struct sandbox_spec spec = plain;
    struct sandbox *s = contract_shared();
    struct err err = {0};
    AUTO_JSON json_t *isolation = sandbox_isolation(s);
    static const char *const fields[] = {"network", "memory", "processes", "disk"};
    bool all = true;
    for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
        const char *said = json_string_value(json_object_get(isolation, fields[i]));
        assert_non_null(said);
        all = all && strncmp(said, "enforced", strlen("enforced")) == 0;
    }
    spec.strict = true;
    struct sandbox *strict = NULL;
    int r = sandbox_create(contract_backend, &spec, deadline_in_s(PATIENCE_S), NULL, &strict, &err);
    assert_int_equal(r, all ? 0 : ERR_UNSUPPORTED);
    sandbox_free(strict);
}

static void a_sandbox_that_ran_into_nothing_names_no_limit(void **state) {
    (void)state;
    struct sandbox *s = contract_make(NULL);
    struct err err = {0};
    AUTO_JSON json_t *hit = NULL;
    contract_says(s, "echo hello >file; cat file");
    assert_ok(sandbox_limits_hit(s, &hit, &err), &err);
    assert_true(json_is_object(hit));
    assert_int_equal(json_object_size(hit), 0);
    contract_end(s);
}

static void a_wrong_wish_is_refused_before_anything_exists(void **state) {
    (void)state;
    struct sandbox *s = NULL;
    struct err err = {0};
    static const char *const homes[] = {"relative", "/",    "/usr/local", "/etc", "/a/../b",
                                        "/proc/x",  "/tmp", "/a:b",       "/a/",  "//a"};
    contract_shared();
    for (size_t i = 0; i < ARRAY_LEN(homes); i++) {
        struct sandbox_spec spec = plain;
        spec.home = homes[i];
        spec.run = "wrong";
        assert_err(sandbox_create(contract_backend, &spec, deadline_in_s(9), NULL, &s, &err),
                   ERR_INPUT, &err, homes[i]);
    }
    struct sandbox_spec spec = plain;
    spec.run = "No Label";
    assert_err(sandbox_create(contract_backend, &spec, deadline_in_s(9), NULL, &s, &err), ERR_INPUT,
               &err, "'No Label'");
    spec = plain;
    spec.limits.memory_mb = -1;
    assert_err(sandbox_create(contract_backend, &spec, deadline_in_s(9), NULL, &s, &err), ERR_INPUT,
               &err, "limits");
    assert_int_equal(listed("wrong", false), 0);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(restart_keeps_the_home_and_ends_all_else),
    cmocka_unit_test(the_clean_place_is_really_new_after_a_restart),
    cmocka_unit_test(a_mount_is_seen_read_only_and_only_where_asked),
    cmocka_unit_test(a_home_may_stand_anywhere),
    cmocka_unit_test(two_sandboxes_do_not_see_each_other),
    cmocka_unit_test(after_a_kill_every_call_says_that_the_sandbox_is_lost),
    cmocka_unit_test(a_kill_from_another_thread_ends_a_wait_and_a_command),
    cmocka_unit_test(a_create_that_is_cancelled_leaves_nothing),
    cmocka_unit_test(a_create_without_time_says_so_and_leaves_nothing),
    cmocka_unit_test(a_live_sandbox_is_listed_and_no_sweep_touches_it),
    cmocka_unit_test(what_holds_is_said_and_strict_refuses_the_rest),
    cmocka_unit_test(a_sandbox_that_ran_into_nothing_names_no_limit),
    cmocka_unit_test(a_wrong_wish_is_refused_before_anything_exists),
};
const struct contract_cases contract_life = {cases, ARRAY_LEN(cases)};
