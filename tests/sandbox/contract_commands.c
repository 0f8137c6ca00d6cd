/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/mem.h"
#include "tests/sandbox/contract.h"

static struct sandbox_output run(struct sandbox *s, const struct sandbox_exec *what) {
    struct sandbox_output out = {0};
    struct err err = {0};
    assert_ok(sandbox_exec(s, what, &out, &err), &err);
    return out;
}

static void a_command_gives_its_exit_code_and_both_streams(void **state) {
    (void)state;
    struct sandbox_output o =
        run(contract_shared(), &(struct sandbox_exec){.shell = "echo out; echo err >&2; exit 3"});
    assert_int_equal(o.exit_code, 3);
    assert_false(o.timed_out);
    assert_false(o.truncated);
    assert_string_equal(buf_cstr(&o.out), "out\n");
    assert_string_equal(buf_cstr(&o.err), "err\n");
    assert_int_equal(o.out_total, 4);
    assert_int_equal(o.err_total, 4);
    sandbox_output_deinit(&o);
}

static void shell_text_runs_in_a_login_shell(void **state) {
    (void)state;
    assert_string_equal(contract_says(contract_shared(), "shopt -q login_shell && echo login"),
                        "login\n");
}

static void words_reach_a_command_as_they_are(void **state) {
    (void)state;
    const char *argv[] = {"printf", "%s|", "two words", "$(id)", "-n", "it's \"quoted\"\n",
                          "",       NULL};
    struct sandbox_output o = run(contract_shared(), &(struct sandbox_exec){.argv = argv});
    assert_int_equal(o.exit_code, 0);
    assert_string_equal(buf_cstr(&o.out), "two words|$(id)|-n|it's \"quoted\"\n||");
    sandbox_output_deinit(&o);
}

static void a_program_that_is_missing_is_named(void **state) {
    (void)state;
    struct err err = {0};
    struct sandbox_output o = {0};
    const char *argv[] = {"/no/such/program", NULL};
    struct sandbox_exec what = {.argv = argv};
    assert_err(sandbox_exec(contract_shared(), &what, &o, &err), ERR_NOT_FOUND, &err,
               "/no/such/program");
    /* To a shell it is one more result. */
    o = run(contract_shared(), &(struct sandbox_exec){.shell = "/no/such/program"});
    assert_int_equal(o.exit_code, 127);
    sandbox_output_deinit(&o);
}

static void output_may_hold_any_byte(void **state) {
    (void)state;
    struct sandbox_output o =
        run(contract_shared(), &(struct sandbox_exec){.shell = "printf 'a\\0b\\377'"});
    assert_int_equal(o.out.len, 4);
    assert_memory_equal(o.out.data, "a\0b\xff", 4);
    sandbox_output_deinit(&o);
}

static void silence_is_empty_text(void **state) {
    (void)state;
    struct sandbox_output o = run(contract_shared(), &(struct sandbox_exec){.shell = "true"});
    assert_int_equal(o.exit_code, 0);
    assert_string_equal(buf_cstr(&o.out), "");
    assert_string_equal(buf_cstr(&o.err), "");
    sandbox_output_deinit(&o);
}

static void a_killed_command_gives_128_and_the_signal(void **state) {
    (void)state;
    struct sandbox_output o = run(contract_shared(), &(struct sandbox_exec){.shell = "kill -9 $$"});
    assert_int_equal(o.exit_code, 137);
    sandbox_output_deinit(&o);
    o = run(contract_shared(), &(struct sandbox_exec){.shell = "kill -TERM $$"});
    assert_int_equal(o.exit_code, 143);
    sandbox_output_deinit(&o);
}

static void a_command_out_of_time_is_killed_with_its_children_and_says_so(void **state) {
    (void)state;
    struct sandbox *s = contract_shared();
    struct sandbox_exec what = {
        .shell = "echo before; sleep 31337 & setsid sleep 31337 & sleep 31337", .timeout_s = 1};
    struct sandbox_output o = run(s, &what);
    assert_int_equal(o.exit_code, 124);
    assert_true(o.timed_out);
    assert_string_equal(buf_cstr(&o.out), "before\n");
    assert_true(sv_ends_with(sv_trim(buf_sv(&o.err)), SV("[timed out after 1s]\n")));
    sandbox_output_deinit(&o);
    assert_int_equal(contract_count(s, "31337"), 0);
}

static void a_command_that_ends_leaves_no_output_behind(void **state) {
    (void)state;
    /* A child that keeps the pipes open must not keep the answer back. */
    struct sandbox *s = contract_make(NULL);
    int64_t start = clock_ms();
    struct sandbox_output o =
        run(s, &(struct sandbox_exec){.shell = "sleep 31336 & echo done", .timeout_s = 300});
    assert_int_equal(o.exit_code, 0);
    assert_string_equal(buf_cstr(&o.out), "done\n");
    assert_true(clock_ms() - start < 200000);
    sandbox_output_deinit(&o);
    contract_end(s);
}

static void only_the_tail_of_long_output_is_kept(void **state) {
    (void)state;
    struct sandbox_output o =
        run(contract_shared(), &(struct sandbox_exec){.shell = "seq 1 100000", .output_max = 1000});
    assert_true(o.truncated);
    assert_true(o.out.len > 0 && o.out.len <= 1000);
    assert_int_equal(o.out_total, 588895);
    assert_true(sv_ends_with(buf_sv(&o.out), SV("99999\n100000\n")));
    sandbox_output_deinit(&o);
}

static void input_reaches_the_command_and_ends(void **state) {
    (void)state;
    AUTO_BUF struct buf big = {0};
    while (big.len < 300000) {
        assert_int_equal(buf_adds(&big, "0123456789abcde\n"), 0);
    }
    struct sandbox_output o =
        run(contract_shared(), &(struct sandbox_exec){.shell = "wc -c", .input = buf_sv(&big)});
    assert_int_equal(strtol(buf_cstr(&o.out), NULL, 10), (long)big.len);
    sandbox_output_deinit(&o);
    /* One that does not read it is no failure. */
    o = run(contract_shared(), &(struct sandbox_exec){.shell = "exit 5", .input = buf_sv(&big)});
    assert_int_equal(o.exit_code, 5);
    sandbox_output_deinit(&o);
}

static void without_input_there_is_nothing_to_read(void **state) {
    (void)state;
    assert_string_equal(contract_says(contract_shared(), "cat; readlink /proc/self/fd/0"),
                        "/dev/null\n");
}

static void a_command_runs_where_and_with_what_it_was_told(void **state) {
    (void)state;
    const char *env[] = {"COLOUR=blue and green", "EMPTY=", NULL};
    struct sandbox_output o =
        run(contract_shared(),
            &(struct sandbox_exec){
                .shell = "pwd; echo \"$COLOUR/${EMPTY-unset}\"", .cwd = "/usr/bin", .env = env});
    assert_string_equal(buf_cstr(&o.out), "/usr/bin\nblue and green/\n");
    sandbox_output_deinit(&o);
    assert_string_equal(contract_says(contract_shared(), "[ \"$PWD\" = \"$HOME\" ] && echo home"),
                        "home\n");
}

static void a_clean_command_has_nothing_of_the_agents(void **state) {
    (void)state;
    struct sandbox *s = contract_shared();
    struct err err = {0};
    assert_ok(sandbox_write_file(s, ".bash_profile", SV("echo profile\n"), 0644, &err), &err);
    assert_ok(sandbox_write_file(s, ".bashrc", SV("echo rc\n"), 0644, &err), &err);
    const char *env[] = {"GIVEN=1", NULL};
    struct sandbox_output o =
        run(s, &(struct sandbox_exec){
                   .shell =
                       "env | grep -v -e ^PWD= -e ^SHLVL= -e ^_= -e ^OLDPWD= | cut -d= -f1 | sort; "
                       "echo $PATH | tr : '\\n' | grep -v -e ^/usr -e ^/bin -e ^/sbin; "
                       "ls -A \"$HOME\"; shopt -q login_shell && echo login",
                   .clean = true,
                   .env = env});
    assert_string_equal(buf_cstr(&o.out), "GIVEN\nHOME\nLANG\nPATH\n");
    assert_string_equal(buf_cstr(&o.err), "");
    sandbox_output_deinit(&o);
    contract_says(s, "rm .bash_profile .bashrc");
}

static void a_command_is_cancelled_at_once(void **state) {
    (void)state;
    struct sandbox *s = contract_shared();
    struct cancel *cancel = NULL;
    struct err err = {0};
    struct sandbox_output o = {0};
    assert_ok(cancel_new(&cancel, &err), &err);
    cancel_throw(cancel);
    struct sandbox_exec what = {.shell = "sleep 31335", .timeout_s = 300, .cancel = cancel};
    assert_err(sandbox_exec(s, &what, &o, &err), ERR_CANCELLED, &err, "");
    sandbox_output_deinit(&o);
    cancel_free(cancel);
    deadline_ms until = deadline_in_s(PATIENCE_S);
    while (contract_count(s, "31335") > 0) {
        assert_false(deadline_passed(until));
        clock_sleep_ms(20);
    }
}

static void wrong_use_is_named(void **state) {
    (void)state;
    struct sandbox *s = contract_shared();
    struct err err = {0};
    struct sandbox_output o = {0};
    const char *argv[] = {"true", NULL};
    const char *env[] = {"no equals sign", NULL};
    assert_err(sandbox_exec(s, &(struct sandbox_exec){0}, &o, &err), ERR_INPUT, &err, "shell text");
    assert_err(sandbox_exec(s, &(struct sandbox_exec){.shell = "true", .argv = argv}, &o, &err),
               ERR_INPUT, &err, "shell text");
    assert_err(sandbox_exec(s, &(struct sandbox_exec){.shell = "true", .timeout_s = -1}, &o, &err),
               ERR_INPUT, &err, "-1 s");
    assert_err(sandbox_exec(s, &(struct sandbox_exec){.shell = "true", .env = env}, &o, &err),
               ERR_INPUT, &err, "NAME=");
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(a_command_gives_its_exit_code_and_both_streams),
    cmocka_unit_test(shell_text_runs_in_a_login_shell),
    cmocka_unit_test(words_reach_a_command_as_they_are),
    cmocka_unit_test(a_program_that_is_missing_is_named),
    cmocka_unit_test(output_may_hold_any_byte),
    cmocka_unit_test(silence_is_empty_text),
    cmocka_unit_test(a_killed_command_gives_128_and_the_signal),
    cmocka_unit_test(a_command_out_of_time_is_killed_with_its_children_and_says_so),
    cmocka_unit_test(a_command_that_ends_leaves_no_output_behind),
    cmocka_unit_test(only_the_tail_of_long_output_is_kept),
    cmocka_unit_test(input_reaches_the_command_and_ends),
    cmocka_unit_test(without_input_there_is_nothing_to_read),
    cmocka_unit_test(a_command_runs_where_and_with_what_it_was_told),
    cmocka_unit_test(a_clean_command_has_nothing_of_the_agents),
    cmocka_unit_test(a_command_is_cancelled_at_once),
    cmocka_unit_test(wrong_use_is_named),
};
const struct contract_cases contract_commands = {cases, ARRAY_LEN(cases)};
