/* SPDX-License-Identifier: BSD-3-Clause */
#include "agent/install.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/npm.h"
#include "base/file.h"
#include "base/mem.h"
#include "tests/testing.h"

/* A folder with a fake npm, which is alone in PATH but for the system's own programs. Each call
 * adds a line to `calls`; the first `fail_times` calls fail with `fail_code`. */
struct fixture {
    char folder[32];
    char *cache;
};

static const char npm_script[] =
    "#!/bin/sh\n"
    "cd \"$(dirname \"$0\")\" || exit 9\n"
    "echo \"$*\" >>calls\n"
    "env >environment\n"
    "if [ \"$(wc -l <calls)\" -le \"$(cat fail_times)\" ]; then\n"
    "    echo \"npm error code $(cat fail_code)\" >&2\n"
    "    exit 1\n"
    "fi\n"
    "if [ \"$1\" = view ]; then\n"
    "    cat latest_answer\n"
    "    exit 0\n"
    "fi\n"
    "while [ $# -gt 1 ]; do\n"
    "    [ \"$1\" = --prefix ] && prefix=$2\n"
    "    shift\n"
    "done\n"
    "mkdir -p \"$prefix/node_modules/${1%@*}/bin\"\n"
    "echo \"program of $1\" >\"$prefix/node_modules/${1%@*}/bin/opencode\"\n";

static char *under(const struct fixture *f, const char *name) {
    return file_join(f->folder, name);
}

static void put(const struct fixture *f, const char *name, const char *text, unsigned mode) {
    struct err err = {0};
    AUTO_FREE char *path = under(f, name);
    assert_ok(file_write(path, sv_from(text), mode, &err), &err);
}

static char *get(const char *path) {
    struct err err = {0};
    AUTO_BUF struct buf text = {0};
    assert_ok(file_read(path, 65536, &text, &err), &err);
    return buf_take(&text);
}

static size_t calls(const struct fixture *f) {
    AUTO_FREE char *path = under(f, "calls");
    AUTO_FREE char *text = file_exists(path) ? get(path) : mem_strdup("");
    size_t n = 0;
    for (const char *p = text; *p; p++) {
        n += *p == '\n';
    }
    return n;
}

static int set_up(void **state) {
    struct fixture *f = calloc(1, sizeof *f);
    snprintf(f->folder, sizeof f->folder, "/tmp/snaffle-npm-XXXXXX");
    assert_non_null(mkdtemp(f->folder));
    f->cache = under(f, "agents");
    put(f, "npm", npm_script, 0755);
    put(f, "fail_times", "0", 0644);
    put(f, "fail_code", "ECONNRESET", 0644);
    put(f, "latest_answer", "2.3.4\n", 0644);
    AUTO_FREE char *path = mem_printf("%s:/usr/bin:/bin", f->folder);
    setenv("PATH", path, 1);
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    struct fixture *f = *state;
    struct err err = {0};
    assert_ok(file_remove_tree(f->folder, &err), &err);
    free(f->cache);
    free(f);
    return 0;
}

static struct agent_install request(const struct fixture *f, const char *version) {
    return (struct agent_install){
        .cache_dir = f->cache, .agent = &agent_opencode, .version = version, .backoff_ms = 1};
}

static void assert_mode(const char *path, unsigned mode) {
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, mode);
}

/* Nothing but whole versions, the lock and the note of "latest" may be left. */
static void assert_no_parts(const struct fixture *f) {
    AUTO_FREE char *command = mem_printf("! ls -A %s/opencode | grep -q part-", f->cache);
    const char *argv[] = {"sh", "-c", command, NULL};
    pid_t pid = fork();
    if (pid == 0) {
        execv("/bin/sh", (char *const *)argv);
        _exit(127);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void the_pinned_version_is_placed_and_found_again(void **state) {
    struct fixture *f = *state;
    struct err err = {0};
    struct agent_install what = request(f, NULL);
    AUTO(agent_installed_deinit) struct agent_installed got = {0};
    AUTO(agent_installed_deinit) struct agent_installed found = {0};
    mode_t old = umask(077);
    assert_ok(agent_install(&what, &got, &err), &err);
    umask(old);
    assert_string_equal(got.version, agent_opencode.default_version);
    AUTO_FREE char *text = get(got.program);
    assert_ptr_equal(strstr(text, "program of opencode-linux-"), text);
    assert_mode(f->cache, 0711);
    assert_mode(got.folder, 0755);
    assert_mode(got.program, 0755);
    assert_no_parts(f);
    assert_ok(agent_find_installed(f->cache, &agent_opencode, NULL, &found, &err), &err);
    assert_string_equal(found.program, got.program);
    assert_int_equal(strlen(found.sha256), 64);
    assert_ok(agent_check_installed(&found, &err), &err);
}

static void npm_runs_no_scripts_and_writes_nowhere_else(void **state) {
    struct fixture *f = *state;
    struct err err = {0};
    struct agent_install what = request(f, "1.2.3");
    AUTO(agent_installed_deinit) struct agent_installed got = {0};
    assert_ok(agent_install(&what, &got, &err), &err);
    AUTO_FREE char *path = under(f, "calls");
    AUTO_FREE char *text = get(path);
    assert_ptr_equal(strstr(text, "install --ignore-scripts --no-save --no-audit --no-fund "
                                  "--prefix "),
                     text);
    assert_non_null(strstr(text, f->cache));
    assert_non_null(strstr(text, "@1.2.3\n"));
}

static void npm_is_told_its_own_settings_and_no_key(void **state) {
    struct fixture *f = *state;
    struct err err = {0};
    struct agent_install what = request(f, "1.2.3");
    AUTO(agent_installed_deinit) struct agent_installed got = {0};
    setenv("OPENAI_API_KEY", "sk-the-key", 1);
    setenv("A_KEY_OF_ANOTHER_NAME", "sk-the-key", 1);
    setenv("npm_config_registry", "http://registry", 1);
    assert_ok(agent_install(&what, &got, &err), &err);
    AUTO_FREE char *path = under(f, "environment");
    AUTO_FREE char *text = get(path);
    assert_null(strstr(text, "sk-the-key"));
    assert_non_null(strstr(text, "npm_config_registry=http://registry\n"));
    assert_non_null(strstr(text, "PATH="));
    unsetenv("OPENAI_API_KEY");
    unsetenv("A_KEY_OF_ANOTHER_NAME");
    unsetenv("npm_config_registry");
}

static void what_is_there_is_not_fetched_again_unless_asked(void **state) {
    struct fixture *f = *state;
    struct err err = {0};
    struct agent_install what = request(f, "1.2.3");
    for (int i = 0; i < 3; i++) {
        AUTO(agent_installed_deinit) struct agent_installed got = {0};
        what.again = i == 2;
        assert_ok(agent_install(&what, &got, &err), &err);
        assert_int_equal(calls(f), i == 2 ? 2 : 1);
    }
    assert_no_parts(f);
}

static void a_failure_that_passes_is_tried_again(void **state) {
    struct fixture *f = *state;
    struct err err = {0};
    put(f, "fail_times", "2", 0644);
    struct agent_install what = request(f, "1.2.3");
    AUTO(agent_installed_deinit) struct agent_installed got = {0};
    assert_ok(agent_install(&what, &got, &err), &err);
    assert_int_equal(calls(f), 3);
}

static void three_failures_end_it_with_a_remedy(void **state) {
    struct fixture *f = *state;
    struct err err = {0};
    put(f, "fail_times", "9", 0644);
    struct agent_install what = request(f, "1.2.3");
    struct agent_installed got = {0};
    assert_err(agent_install(&what, &got, &err), ERR_ENVIRONMENT, &err,
               "in 3 tries: ECONNRESET (check the network");
    assert_int_equal(calls(f), 3);
    assert_no_parts(f);
}

static void a_version_that_does_not_exist_is_told_at_once(void **state) {
    struct fixture *f = *state;
    struct err err = {0};
    put(f, "fail_times", "9", 0644);
    put(f, "fail_code", "ETARGET", 0644);
    struct agent_install what = request(f, "9.9.9");
    struct agent_installed got = {0};
    assert_err(agent_install(&what, &got, &err), ERR_NOT_FOUND, &err, "no such version");
    assert_non_null(strstr(err.msg, "@9.9.9"));
    assert_non_null(strstr(err.msg, "npm view"));
    assert_int_equal(calls(f), 1);
    assert_err(agent_find_installed(f->cache, &agent_opencode, "9.9.9", &got, &err),
               ERR_ENVIRONMENT, &err, "opencode 9.9.9 is not installed");
}

static void without_npm_the_message_says_what_to_do(void **state) {
    struct fixture *f = *state;
    struct err err = {0};
    setenv("PATH", "/nonexistent", 1);
    struct agent_install what = request(f, "1.2.3");
    struct agent_installed got = {0};
    assert_err(agent_install(&what, &got, &err), ERR_ENVIRONMENT, &err,
               "npm not found (install nodejs and npm, or put the program at");
}

static void a_program_put_there_by_hand_is_found(void **state) {
    struct fixture *f = *state;
    struct err err = {0};
    AUTO_FREE char *folder = mem_printf("%s/opencode/7.0.0", f->cache);
    AUTO_FREE char *program = mem_printf("%s/opencode", folder);
    AUTO(agent_installed_deinit) struct agent_installed found = {0};
    assert_ok(file_mkdirs(folder, 0755, &err), &err);
    assert_ok(file_write(program, SV("x"), 0755, &err), &err);
    assert_ok(agent_find_installed(f->cache, &agent_opencode, "7.0.0", &found, &err), &err);
    assert_null(found.sha256);
    assert_ok(agent_check_installed(&found, &err), &err);
}

static void latest_is_resolved_and_remembered(void **state) {
    struct fixture *f = *state;
    struct err err = {0};
    struct agent_install what = request(f, "latest");
    AUTO(agent_installed_deinit) struct agent_installed got = {0};
    AUTO(agent_installed_deinit) struct agent_installed found = {0};
    assert_err(agent_find_installed(f->cache, &agent_opencode, "latest", &found, &err),
               ERR_ENVIRONMENT, &err, "opencode latest is not installed");
    assert_ok(agent_install(&what, &got, &err), &err);
    assert_string_equal(got.version, "2.3.4");
    put(f, "fail_times", "99", 0644);
    assert_ok(agent_find_installed(f->cache, &agent_opencode, "latest", &found, &err), &err);
    assert_string_equal(found.version, "2.3.4");
}

static void a_strange_latest_makes_no_path(void **state) {
    struct fixture *f = *state;
    struct err err = {0};
    put(f, "latest_answer", "../../x\n", 0644);
    struct agent_install what = request(f, "latest");
    struct agent_installed got = {0};
    assert_err(agent_install(&what, &got, &err), ERR_INPUT, &err, "'../../x' is no version");
}

static void versions_that_are_none_are_refused(void **state) {
    struct fixture *f = *state;
    const char *bad[] = {"", "..", "../1", "1/2", "-1", "v1", "1 2", "1;x", "next", "^1.0.0"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct err err = {0};
        struct agent_install what = request(f, bad[i]);
        struct agent_installed got = {0};
        assert_err(agent_install(&what, &got, &err), ERR_INPUT, &err, "is no version");
        assert_err(agent_find_installed(f->cache, &agent_opencode, bad[i], &got, &err), ERR_INPUT,
                   &err, "is no version");
    }
    assert_int_equal(calls(f), 0);
}

static void a_changed_program_is_noticed(void **state) {
    struct fixture *f = *state;
    struct err err = {0};
    struct agent_install what = request(f, "1.2.3");
    AUTO(agent_installed_deinit) struct agent_installed got = {0};
    assert_ok(agent_install(&what, &got, &err), &err);
    assert_ok(file_write(got.program, SV("another"), 0755, &err), &err);
    assert_err(agent_check_installed(&got, &err), ERR_CORRUPT, &err, "install it again");
}

static void what_a_dead_installer_left_is_swept(void **state) {
    struct fixture *f = *state;
    struct err err = {0};
    AUTO_FREE char *left = mem_printf("%s/opencode/.part-0123/node_modules", f->cache);
    assert_ok(file_mkdirs(left, 0700, &err), &err);
    struct agent_install what = request(f, "1.2.3");
    AUTO(agent_installed_deinit) struct agent_installed got = {0};
    assert_ok(agent_install(&what, &got, &err), &err);
    assert_no_parts(f);
}

static void npm_s_code_is_found_in_its_talk(void **state) {
    (void)state;
    struct sv code = npm_error_code(SV("warn\nnpm error code E404\nnpm error 404 x\n"));
    assert_true(sv_eq(code, SV("E404")));
    assert_true(sv_eq(npm_error_code(SV("npm ERR! code ETARGET")), SV("ETARGET")));
    assert_int_equal(npm_error_code(SV("all is lost")).n, 0);
    assert_int_equal(npm_error_code(SV("")).n, 0);
}

#define WITH_NPM(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

static const struct CMUnitTest tests[] = {
    WITH_NPM(the_pinned_version_is_placed_and_found_again),
    WITH_NPM(npm_runs_no_scripts_and_writes_nowhere_else),
    WITH_NPM(npm_is_told_its_own_settings_and_no_key),
    WITH_NPM(what_is_there_is_not_fetched_again_unless_asked),
    WITH_NPM(a_failure_that_passes_is_tried_again),
    WITH_NPM(three_failures_end_it_with_a_remedy),
    WITH_NPM(a_version_that_does_not_exist_is_told_at_once),
    WITH_NPM(without_npm_the_message_says_what_to_do),
    WITH_NPM(a_program_put_there_by_hand_is_found),
    WITH_NPM(latest_is_resolved_and_remembered),
    WITH_NPM(a_strange_latest_makes_no_path),
    WITH_NPM(versions_that_are_none_are_refused),
    WITH_NPM(a_changed_program_is_noticed),
    WITH_NPM(what_a_dead_installer_left_is_swept),
    cmocka_unit_test(npm_s_code_is_found_in_its_talk),
};

RUN_TESTS(tests)
