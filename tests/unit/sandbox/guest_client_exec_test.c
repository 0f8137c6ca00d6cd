/* SPDX-License-Identifier: BSD-3-Clause */
#include "sandbox/guest_client.h"

#include <pthread.h>

#include "base/mem.h"
#include "tests/unit/guest/guest_fixture.h"

static void deinit(struct sandbox_output *o) {
    buf_deinit(&o->out);
    buf_deinit(&o->err);
}

#define AUTO_OUTPUT AUTO(deinit) struct sandbox_output

static void a_command_gives_its_exit_code_and_both_streams(void **state) {
    GUEST_OR_SKIP(state);
    AUTO_OUTPUT o = {0};
    struct sandbox_exec what = {.shell = "echo out; echo err >&2; exit 3"};
    assert_ok(guest_exec(&f->client, &what, &o, &err), &err);
    assert_int_equal(o.exit_code, 3);
    assert_string_equal(buf_cstr(&o.out), "out\n");
    assert_string_equal(buf_cstr(&o.err), "err\n");
    assert_false(o.timed_out);
    assert_false(o.truncated);
    assert_int_equal(o.out_total, 4);
    assert_int_equal(o.err_total, 4);
}

static void a_command_that_says_nothing_gives_empty_streams(void **state) {
    GUEST_OR_SKIP(state);
    AUTO_OUTPUT o = {0};
    const char *argv[] = {"true", NULL};
    assert_ok(guest_exec(&f->client, &(struct sandbox_exec){.argv = argv}, &o, &err), &err);
    assert_int_equal(o.exit_code, 0);
    assert_string_equal(buf_cstr(&o.out), "");
    assert_int_equal(o.out.len, 0);
}

static void a_command_that_a_signal_ended_gives_128_and_its_number(void **state) {
    GUEST_OR_SKIP(state);
    static const struct {
        const char *text;
        int code;
    } rows[] = {
        {"kill -TERM $$", 143}, {"kill -KILL $$", 137}, {"kill -PIPE $$", 141}, {"exit 255", 255}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        AUTO_OUTPUT o = {0};
        struct sandbox_exec what = {.shell = rows[i].text};
        assert_ok(guest_exec(&f->client, &what, &o, &err), &err);
        assert_int_equal(o.exit_code, rows[i].code);
    }
}

/* Echoes `word` as an argument, in shell text, as input and as a variable: it comes back whole. */
static void check_word(struct guest_fixture *f, struct sv word) {
    struct err err = {0};
    AUTO_FREE char *text = mem_strndup(word.p, word.n);
    AUTO_FREE char *pair = mem_printf("WORD=%s", text);
    const char *env[] = {pair, NULL};
    const char *argv[] = {"printf", "%s", text, NULL};
    struct sandbox_exec rows[] = {
        {.argv = argv},
        {.shell = "printf %s \"$WORD\"", .env = env},
        {.shell = "printf %s \"$WORD\"", .env = env, .clean = true},
        {.shell = "cat", .input = word},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        AUTO_OUTPUT o = {0};
        assert_ok(guest_exec(&f->client, &rows[i], &o, &err), &err);
        assert_int_equal(o.exit_code, 0);
        assert_true(sv_eq(buf_sv(&o.out), word));
    }
}

static void words_of_any_kind_arrive_as_they_are(void **state) {
    GUEST_OR_SKIP(state);
    check_word(f, SV("two words"));
    check_word(f, SV("'single' \"double\" `id` $(id) $HOME \\ ! # ; & | < > * ? ~"));
    check_word(f, SV("line\n\nline\n"));
    check_word(f, SV("-n"));
    check_word(f, SV("--help"));
    check_word(f, SV("caf\xc3\xa9 \xf0\x9f\x90\xb4 \xff\xfe\x01\x7f"));
    AUTO_BUF struct buf big = {0};
    while (big.len < 100u * 1024) {
        assert_int_equal(buf_addf(&big, "%zu 'quoted'\n$(text) ", big.len), 0);
    }
    check_word(f, (struct sv){big.data, 100u * 1024});
}

static void shell_text_may_begin_with_a_dash_and_hold_lines(void **state) {
    GUEST_OR_SKIP(state);
    AUTO_OUTPUT o = {0};
    struct sandbox_exec what = {.shell = "-x() { echo \"dash $1\"; }\n-x 'a\nb'\n"};
    assert_ok(guest_exec(&f->client, &what, &o, &err), &err);
    assert_string_equal(buf_cstr(&o.out), "dash a\nb\n");
    deinit(&o);
    what = (struct sandbox_exec){.shell = "-x 2>/dev/null; echo $?", .clean = true};
    assert_ok(guest_exec(&f->client, &what, &o, &err), &err);
    assert_string_equal(buf_cstr(&o.out), "127\n");
}

static void a_word_too_long_for_the_kernel_says_so(void **state) {
    GUEST_OR_SKIP(state);
    AUTO_OUTPUT o = {0};
    AUTO_FREE char *word = malloc(2u * 1024 * 1024 + 1);
    assert_non_null(word);
    memset(word, 'x', 2u * 1024 * 1024);
    word[2u * 1024 * 1024] = '\0';
    const char *argv[] = {"echo", word, NULL};
    struct sandbox_exec what = {.argv = argv};
    assert_err(guest_exec(&f->client, &what, &o, &err), ERR_LIMIT, &err, "too long");
    word[200u * 1024] = '\0';
    assert_err(guest_exec(&f->client, &what, &o, &err), ERR_LIMIT, &err, "'echo'");
}

static void input_reaches_the_command_whole_and_ends(void **state) {
    GUEST_OR_SKIP(state);
    AUTO_OUTPUT o = {0};
    size_t n = 5u * 1024 * 1024 + 17;
    AUTO_FREE char *bytes = malloc(n);
    assert_non_null(bytes);
    for (size_t i = 0; i < n; i++) {
        bytes[i] = (char)(i * 31 >> 3);
    }
    struct sandbox_exec what = {.shell = "cat", .input = {bytes, n}, .output_max = n};
    assert_ok(guest_exec(&f->client, &what, &o, &err), &err);
    assert_int_equal(o.out_total, n);
    assert_true(sv_eq(buf_sv(&o.out), (struct sv){bytes, n}));
}

static void a_command_may_leave_its_input_unread(void **state) {
    GUEST_OR_SKIP(state);
    size_t n = 3u * 1024 * 1024;
    AUTO_FREE char *bytes = calloc(1, n);
    assert_non_null(bytes);
    static const char *const texts[] = {"true", "exec <&-; echo closed", "head -c 1 >/dev/null"};
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        AUTO_OUTPUT o = {0};
        struct sandbox_exec what = {.shell = texts[i], .input = {bytes, n}};
        assert_ok(guest_exec(&f->client, &what, &o, &err), &err);
        assert_int_equal(o.exit_code, 0);
    }
}

static void without_input_stdin_is_empty(void **state) {
    GUEST_OR_SKIP(state);
    AUTO_OUTPUT o = {0};
    struct sandbox_exec what = {.shell = "readlink /proc/self/fd/0; wc -c"};
    assert_ok(guest_exec(&f->client, &what, &o, &err), &err);
    assert_string_equal(buf_cstr(&o.out), "/dev/null\n0\n");
}

static void much_output_is_counted_and_its_tail_kept(void **state) {
    GUEST_OR_SKIP(state);
    AUTO_OUTPUT o = {0};
    struct sandbox_exec what = {
        .shell = "head -c 52428800 /dev/zero | tr '\\0' x; echo end; echo err >&2",
        .output_max = 1000,
    };
    assert_ok(guest_exec(&f->client, &what, &o, &err), &err);
    assert_int_equal(o.exit_code, 0);
    assert_true(o.truncated);
    assert_int_equal(o.out_total, 52428804);
    assert_int_equal(o.out.len, 1000);
    assert_true(sv_ends_with(buf_sv(&o.out), SV("xxxend\n")));
    assert_string_equal(buf_cstr(&o.err), "err\n");
}

static void a_clean_environment_holds_three_variables_and_what_is_given(void **state) {
    GUEST_OR_SKIP(state);
    AUTO_OUTPUT o = {0};
    const char *argv[] = {"/usr/bin/env", NULL};
    const char *env[] = {"X=1", "LANG=C", NULL};
    struct sandbox_exec what = {.argv = argv, .env = env, .clean = true};
    assert_ok(guest_exec(&f->client, &what, &o, &err), &err);
    const char *text = buf_cstr(&o.out);
    assert_non_null(
        strstr(text, "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n"));
    assert_non_null(strstr(text, "HOME=/tmp/"));
    assert_non_null(strstr(text, "X=1\n"));
    assert_non_null(strstr(text, "LANG=C\n"));
    size_t lines = 0;
    for (const char *p = text; *p; p++) {
        lines += *p == '\n';
    }
    assert_int_equal(lines, 4);
}

static void a_clean_home_is_empty_private_and_removed(void **state) {
    GUEST_OR_SKIP(state);
    AUTO_OUTPUT o = {0};
    struct sandbox_exec what = {
        .shell = "ls -A \"$HOME\" | wc -l; stat -c %a \"$HOME\"; echo \"$HOME\"", .clean = true};
    assert_ok(guest_exec(&f->client, &what, &o, &err), &err);
    assert_true(sv_starts_with(buf_sv(&o.out), SV("0\n700\n/tmp/")));
    AUTO_FREE char *home = mem_strdup(buf_cstr(&o.out) + strlen("0\n700\n"));
    home[strlen(home) - 1] = '\0';
    assert_int_equal(guest_exists(&f->client, home, &err), 0);
}

static void profiles_and_startup_files_are_for_login_shells_only(void **state) {
    GUEST_OR_SKIP(state);
    assert_ok(guest_write_file(&f->client, ".bash_profile", SV("echo profile\n"), 0644, &err),
              &err);
    assert_ok(guest_write_file(&f->client, "evil.sh", SV("echo evil\n"), 0644, &err), &err);
    AUTO_OUTPUT login = {0};
    AUTO_OUTPUT clean = {0};
    assert_ok(guest_exec(&f->client, &(struct sandbox_exec){.shell = "echo x"}, &login, &err),
              &err);
    assert_string_equal(buf_cstr(&login.out), "profile\nx\n");
    struct sandbox_exec what = {.shell = "echo x", .clean = true};
    assert_ok(guest_exec(&f->client, &what, &clean, &err), &err);
    assert_string_equal(buf_cstr(&clean.out), "x\n");
}

static void a_folder_may_be_given_and_must_exist(void **state) {
    GUEST_OR_SKIP(state);
    AUTO_OUTPUT o = {0};
    struct sandbox_exec what = {.shell = "mkdir -p sub && cd sub && pwd -P"};
    assert_ok(guest_exec(&f->client, &what, &o, &err), &err);
    AUTO_FREE char *path = mem_strdup(buf_cstr(&o.out));
    deinit(&o);
    what = (struct sandbox_exec){.shell = "pwd -P", .cwd = "sub"};
    assert_ok(guest_exec(&f->client, &what, &o, &err), &err);
    assert_string_equal(buf_cstr(&o.out), path);
    deinit(&o);
    what.cwd = "missing";
    assert_err(guest_exec(&f->client, &what, &o, &err), ERR_NOT_FOUND, &err, "'missing'");
}

static void a_program_that_is_not_there_is_named(void **state) {
    GUEST_OR_SKIP(state);
    AUTO_OUTPUT o = {0};
    const char *argv[] = {"no-such-program", NULL};
    struct sandbox_exec what = {.argv = argv};
    assert_err(guest_exec(&f->client, &what, &o, &err), ERR_NOT_FOUND, &err, "'no-such-program'");
    struct sandbox_exec none = {0};
    assert_err(guest_exec(&f->client, &none, &o, &err), ERR_INPUT, &err, "arguments or shell");
    const char *env[] = {"NOTHING", NULL};
    what = (struct sandbox_exec){.shell = "true", .env = env};
    assert_err(guest_exec(&f->client, &what, &o, &err), ERR_INPUT, &err, "NAME=value");
}

/* How many processes sleep as this test's do. */
static int count_sleepers(struct guest_fixture *f) {
    struct err err = {0};
    AUTO_OUTPUT o = {0};
    struct sandbox_exec what = {
        .shell = "n=0; for p in /proc/[0-9]*/cmdline; do "
                 "[ \"$(tr '\\0' ' ' <$p 2>/dev/null)\" = \"sleep $SLEEP \" ] && n=$((n+1)); done; "
                 "echo $n"};
    assert_ok(guest_exec(&f->client, &what, &o, &err), &err);
    return (int)strtol(buf_cstr(&o.out), NULL, 10);
}

#define DAEMONS                                                                                    \
    "sleep $SLEEP & setsid sleep $SLEEP & (setsid sh -c 'sleep $SLEEP & sleep $SLEEP' &); "

static void wait_for_file(struct guest_fixture *f, const char *path) {
    struct err err = {0};
    deadline_ms until = deadline_in_s(10);
    while (guest_exists(&f->client, path, &err) != 1) {
        assert_false(deadline_passed(until));
        clock_sleep_ms(5);
    }
}

static void a_command_out_of_time_is_killed_with_all_below_it_and_says_so(void **state) {
    GUEST_OR_SKIP(state);
    AUTO_OUTPUT o = {0};
    struct sandbox_exec what = {.shell = "printf part >&2; " DAEMONS "sleep $SLEEP",
                                .timeout_s = 0.5};
    int64_t start = clock_ms();
    assert_ok(guest_exec(&f->client, &what, &o, &err), &err);
    assert_true(clock_ms() - start < 60000);
    assert_int_equal(o.exit_code, 124);
    assert_true(o.timed_out);
    assert_string_equal(buf_cstr(&o.err), "part\n[timed out after 0.5s]\n");
    assert_int_equal(count_sleepers(f), 0);
}

static void a_command_that_ignores_signals_is_still_out_of_time(void **state) {
    GUEST_OR_SKIP(state);
    AUTO_OUTPUT o = {0};
    struct sandbox_exec what = {.shell = "trap '' TERM INT HUP; while :; do sleep 0.05; done",
                                .timeout_s = 1};
    assert_ok(guest_exec(&f->client, &what, &o, &err), &err);
    assert_int_equal(o.exit_code, 124);
    assert_string_equal(buf_cstr(&o.err), "[timed out after 1s]\n");
}

static void a_daemon_that_holds_the_output_does_not_hold_the_call(void **state) {
    GUEST_OR_SKIP(state);
    AUTO_OUTPUT o = {0};
    struct sandbox_exec what = {.shell = "sleep $SLEEP & (setsid yes &); echo done",
                                .timeout_s = 120};
    int64_t start = clock_ms();
    assert_ok(guest_exec(&f->client, &what, &o, &err), &err);
    assert_true(clock_ms() - start < 100000);
    assert_int_equal(o.exit_code, 0);
    assert_non_null(strstr(buf_cstr(&o.out), "y\n"));
    assert_int_equal(count_sleepers(f), 1); /* It goes on: servers are started so. */
}

static void a_child_that_finishes_its_sentence_is_heard(void **state) {
    GUEST_OR_SKIP(state);
    AUTO_OUTPUT o = {0};
    struct sandbox_exec what = {.shell = "(sleep 0.2; echo late) & echo early"};
    assert_ok(guest_exec(&f->client, &what, &o, &err), &err);
    assert_string_equal(buf_cstr(&o.out), "early\nlate\n");
}

static void *throw_soon(void *cancel) {
    clock_sleep_ms(300);
    cancel_throw(cancel);
    return NULL;
}

static void a_cancelled_call_ends_its_command(void **state) {
    GUEST_OR_SKIP(state);
    AUTO_OUTPUT o = {0};
    struct cancel *cancel = NULL;
    assert_ok(cancel_new(&cancel, &err), &err);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, throw_soon, cancel), 0);
    struct sandbox_exec what = {.shell = DAEMONS "sleep $SLEEP", .cancel = cancel};
    assert_int_equal(guest_exec(&f->client, &what, &o, &err), ERR_CANCELLED);
    pthread_join(thread, NULL);
    cancel_free(cancel);
    deadline_ms until = deadline_in_s(10);
    while (count_sleepers(f) > 0 && !deadline_passed(until)) {
        clock_sleep_ms(20);
    }
    assert_int_equal(count_sleepers(f), 0);
}

static void a_started_command_writes_to_files_and_leaves_its_exit_code(void **state) {
    GUEST_OR_SKIP(state);
    AUTO_BUF struct buf out = {0};
    uint32_t job = 0;
    int code = -1;
    struct sandbox_exec what = {
        .shell = "echo out; echo err >&2; sleep 0.1; exit 7",
        .stdout_path = "out.log",
        .stderr_path = "out.log",
    };
    assert_ok(guest_start(&f->client, &what, &job, &err), &err);
    for (int i = 0; i < 2; i++) { /* Its record may be asked for again. */
        assert_ok(guest_wait(&f->client, job, deadline_in_s(10), NULL, &code, &err), &err);
        assert_int_equal(code, 7);
    }
    assert_ok(guest_read_file(&f->client, "out.log", 0, 100, &out, &err), &err);
    assert_string_equal(buf_cstr(&out), "out\nerr\n");
    assert_ok(guest_start(&f->client, &what, &job, &err), &err);
    assert_ok(guest_wait(&f->client, job, deadline_in_s(10), NULL, &code, &err), &err);
    buf_reset(&out);
    assert_ok(guest_read_file(&f->client, "out.log", 0, 100, &out, &err), &err);
    assert_string_equal(buf_cstr(&out), "out\nerr\nout\nerr\n");
}

static void a_started_command_out_of_time_says_so_in_its_file(void **state) {
    GUEST_OR_SKIP(state);
    AUTO_BUF struct buf out = {0};
    uint32_t job = 0;
    int code = -1;
    struct sandbox_exec what = {
        .shell = "printf part >&2; sleep $SLEEP", .stderr_path = "err.log", .timeout_s = 0.3};
    assert_ok(guest_start(&f->client, &what, &job, &err), &err);
    assert_ok(guest_wait(&f->client, job, deadline_in_s(10), NULL, &code, &err), &err);
    assert_int_equal(code, 124);
    assert_ok(guest_read_file(&f->client, "err.log", 0, 100, &out, &err), &err);
    assert_string_equal(buf_cstr(&out), "part\n[timed out after 0.3s]\n");
}

static void output_goes_to_no_link_and_no_pipe(void **state) {
    GUEST_OR_SKIP(state);
    AUTO_OUTPUT o = {0};
    uint32_t job = 0;
    struct sandbox_exec what = {.shell = "ln -s target link; mkfifo fifo; mkdir folder"};
    assert_ok(guest_exec(&f->client, &what, &o, &err), &err);
    static const char *const bad[] = {"link", "fifo", "folder", "/dev/null", "missing/x"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        what = (struct sandbox_exec){.shell = "echo x", .stdout_path = bad[i]};
        assert_true(guest_start(&f->client, &what, &job, &err) < 0);
        assert_non_null(strstr(err.msg, bad[i]));
    }
    assert_int_equal(guest_exists(&f->client, "target", &err), 0);
}

static void a_wait_ends_at_its_deadline_and_the_command_goes_on(void **state) {
    GUEST_OR_SKIP(state);
    uint32_t job = 0;
    int code = -1;
    struct sandbox_exec what = {.shell = "sleep $SLEEP"};
    assert_ok(guest_start(&f->client, &what, &job, &err), &err);
    assert_err(guest_wait(&f->client, job, deadline_in_ms(200), NULL, &code, &err), ERR_TIMEOUT,
               &err, "");
    assert_int_equal(count_sleepers(f), 1);
    assert_err(guest_wait(&f->client, 9999, deadline_in_s(5), NULL, &code, &err), ERR_LOST, &err,
               "job 9999 is gone");
}

static void a_killed_command_is_dead_with_all_below_it_when_the_call_returns(void **state) {
    GUEST_OR_SKIP(state);
    uint32_t job = 0;
    int code = -1;
    struct sandbox_exec what = {.shell = DAEMONS "touch started; sleep $SLEEP"};
    assert_ok(guest_start(&f->client, &what, &job, &err), &err);
    wait_for_file(f, "started");
    assert_ok(guest_kill(&f->client, job, &err), &err);
    assert_int_equal(count_sleepers(f), 0);
    assert_ok(guest_wait(&f->client, job, deadline_in_s(5), NULL, &code, &err), &err);
    assert_int_equal(code, 137);
    assert_ok(guest_kill(&f->client, job, &err), &err);
}

/* The agent's user may kill the process that keeps its command: the command is still found. */
static void a_command_whose_keeper_was_killed_is_still_waited_for_and_killed(void **state) {
    GUEST_OR_SKIP(state);
    uint32_t job = 0;
    int code = -1;
    struct sandbox_exec what = {.shell = "kill -9 $PPID; sleep 0.2; exit 9"};
    assert_ok(guest_start(&f->client, &what, &job, &err), &err);
    assert_ok(guest_wait(&f->client, job, deadline_in_s(10), NULL, &code, &err), &err);
    assert_int_equal(code, 9);
    for (int i = 0; i < 20; i++) { /* Its end may fall together with the keeper's. */
        const char *argv[] = {"sh", "-c", "kill -9 $PPID; exit 9", NULL};
        AUTO_OUTPUT o = {0};
        assert_ok(guest_exec(&f->client, &(struct sandbox_exec){.argv = argv}, &o, &err), &err);
        assert_int_equal(o.exit_code, 9);
    }
    what.shell = "kill -9 $PPID; sleep $SLEEP & touch lost; sleep $SLEEP";
    assert_ok(guest_start(&f->client, &what, &job, &err), &err);
    wait_for_file(f, "lost");
    assert_ok(guest_kill(&f->client, job, &err), &err);
    assert_int_equal(count_sleepers(f), 0);
    assert_ok(guest_wait(&f->client, job, deadline_in_s(5), NULL, &code, &err), &err);
    assert_int_equal(code, 137);
}

static const struct CMUnitTest tests[] = {
    guest_unit_test(a_command_gives_its_exit_code_and_both_streams),
    guest_unit_test(a_command_that_says_nothing_gives_empty_streams),
    guest_unit_test(a_command_that_a_signal_ended_gives_128_and_its_number),
    guest_unit_test(words_of_any_kind_arrive_as_they_are),
    guest_unit_test(shell_text_may_begin_with_a_dash_and_hold_lines),
    guest_unit_test(a_word_too_long_for_the_kernel_says_so),
    guest_unit_test(input_reaches_the_command_whole_and_ends),
    guest_unit_test(a_command_may_leave_its_input_unread),
    guest_unit_test(without_input_stdin_is_empty),
    guest_unit_test(much_output_is_counted_and_its_tail_kept),
    guest_unit_test(a_clean_environment_holds_three_variables_and_what_is_given),
    guest_unit_test(a_clean_home_is_empty_private_and_removed),
    guest_unit_test(profiles_and_startup_files_are_for_login_shells_only),
    guest_unit_test(a_folder_may_be_given_and_must_exist),
    guest_unit_test(a_program_that_is_not_there_is_named),
    guest_unit_test(a_command_out_of_time_is_killed_with_all_below_it_and_says_so),
    guest_unit_test(a_command_that_ignores_signals_is_still_out_of_time),
    guest_unit_test(a_daemon_that_holds_the_output_does_not_hold_the_call),
    guest_unit_test(a_child_that_finishes_its_sentence_is_heard),
    guest_unit_test(a_cancelled_call_ends_its_command),
    guest_unit_test(a_started_command_writes_to_files_and_leaves_its_exit_code),
    guest_unit_test(a_started_command_out_of_time_says_so_in_its_file),
    guest_unit_test(output_goes_to_no_link_and_no_pipe),
    guest_unit_test(a_wait_ends_at_its_deadline_and_the_command_goes_on),
    guest_unit_test(a_killed_command_is_dead_with_all_below_it_when_the_call_returns),
    guest_unit_test(a_command_whose_keeper_was_killed_is_still_waited_for_and_killed),
};

RUN_GUEST_TESTS(tests, /*only_init=*/0)
