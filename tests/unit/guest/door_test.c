/* SPDX-License-Identifier: BSD-3-Clause */
#include "guest/door.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/proc.h"
#include "guest/parcel.h"
#include "guest/protocol.h"
#include "tests/testing.h"

/* A provider with commands and files: each test writes a spec and runs the program. */

static int setup(void **state) {
    char *dir = mem_strdup("/tmp/guest-run-test-XXXXXX");
    if (!dir || !mkdtemp(dir)) {
        return -1;
    }
    *state = dir;
    return chdir(dir);
}

static int teardown(void **state) {
    struct err err = {0};
    int r = chdir("/") < 0 ? -1 : file_remove_tree(*state, &err);
    free(*state);
    return r;
}

static void add_spec(struct protocol_out *o, struct buf *b) {
    *o = protocol_fields_begin(b);
    protocol_add_u64(o, PROTOCOL_MAJOR_VERSION, PROTOCOL_MAJOR);
    protocol_add(o, PROTOCOL_STDOUT_PATH, SV("1/out"));
    protocol_add(o, PROTOCOL_STDERR_PATH, SV("1/err"));
}

/* Asks the program; gives its exit code, and what it says and tells. */
static int ask(const char *const *more, struct buf *said, struct buf *told) {
    struct err err = {0};
    struct proc_result r = {0};
    const char *argv[16] = {getenv("SNAFFLE_GUEST"), "run", "--dir", "1"};
    for (size_t i = 4; *more && i < ARRAY_LEN(argv) - 1; i++) {
        argv[i] = *more++;
    }
    assert_non_null(argv[0]);
    assert_ok(
        proc_run(&(struct proc_options){.argv = argv, .deadline = deadline_in_s(120)}, &r, &err),
        &err);
    buf_reset(said);
    buf_reset(told);
    assert_int_equal(buf_add_sv(said, buf_sv(&r.err)), 0);
    if (r.out.len > 0) {
        assert_ok(parcel_read(buf_sv(&r.out), told, &err), &err);
        assert_ok(protocol_check(buf_sv(told), &err), &err);
    }
    int code = r.exit_code;
    proc_result_deinit(&r);
    return code;
}

/* Writes the spec and starts it; gives the program's exit code and its stderr. */
static int start(struct protocol_out *o, struct buf *b, struct buf *said) {
    struct err err = {0};
    AUTO_BUF struct buf told = {0};
    assert_int_equal(protocol_fields_end(o), 0);
    if (file_exists("1")) { /* Another spec. */
        assert_ok(file_remove_tree("1", &err), &err);
    }
    assert_int_equal(mkdir("1", 0700), 0);
    assert_ok(file_write("1/spec", buf_sv(b), 0644, &err), &err);
    return ask((const char *const[]){NULL}, said, &told);
}

static int start_shell(const char *text, uint64_t timeout_ms, struct buf *said) {
    AUTO_BUF struct buf b = {0};
    struct protocol_out o;
    add_spec(&o, &b);
    protocol_add(&o, PROTOCOL_SHELL, sv_from(text));
    protocol_add_u64(&o, PROTOCOL_CLEAN, 1); /* This machine's profiles are its own affair. */
    protocol_add_u64(&o, PROTOCOL_TIMEOUT_MS, timeout_ms);
    return start(&o, &b, said);
}

static void read_record(struct buf *out) {
    struct err err = {0};
    buf_reset(out);
    assert_ok(file_read("1/exit", 65536, out, &err), &err);
    assert_ok(protocol_check(buf_sv(out), &err), &err);
    assert_int_equal(protocol_u64(buf_sv(out), PROTOCOL_MAJOR_VERSION, 0), PROTOCOL_MAJOR);
}

/* Waits for the command's end, and gives its exit code. */
static uint64_t wait_record(struct buf *record) {
    deadline_ms until = deadline_in_s(20);
    for (;;) {
        read_record(record);
        uint64_t code = protocol_u64(buf_sv(record), PROTOCOL_EXIT_CODE, UINT64_MAX);
        if (code != UINT64_MAX) {
            return code;
        }
        assert_false(deadline_passed(until));
        clock_sleep_ms(10);
    }
}

static void check_file(const char *path, const char *want) {
    struct err err = {0};
    AUTO_BUF struct buf got = {0};
    assert_ok(file_read(path, 65536, &got, &err), &err);
    assert_string_equal(buf_cstr(&got), want);
}

static void a_command_runs_on_by_itself_and_leaves_files(void **state) {
    (void)state;
    AUTO_BUF struct buf said = {0};
    AUTO_BUF struct buf record = {0};
    int64_t begun = clock_ms();
    assert_int_equal(start_shell("echo out; echo err >&2; sleep 0.5; exit 6", 0, &said), 0);
    assert_string_equal(buf_cstr(&said), "");
    read_record(&record);
    if (clock_ms() - begun < 400) { /* On a busy machine it may have ended meanwhile. */
        assert_true(protocol_u64(buf_sv(&record), PROTOCOL_EXIT_CODE, 99) == 99);
    }
    assert_int_equal(wait_record(&record), 6);
    check_file("1/out", "out\n");
    check_file("1/err", "err\n");
}

static void a_command_out_of_time_is_recorded_as_such(void **state) {
    (void)state;
    AUTO_BUF struct buf said = {0};
    AUTO_BUF struct buf record = {0};
    assert_int_equal(start_shell("(setsid sleep 3401 &); sleep 3401", 300, &said), 0);
    assert_int_equal(wait_record(&record), 124);
    assert_int_equal(protocol_u64(buf_sv(&record), PROTOCOL_TIMED_OUT, 0), 1);
    check_file("1/err", "[timed out after 0.3s]\n");
}

static void a_signal_to_the_process_that_stayed_ends_the_command(void **state) {
    (void)state;
    AUTO_BUF struct buf said = {0};
    AUTO_BUF struct buf record = {0};
    assert_int_equal(start_shell("trap '' TERM; setsid sleep 3402 & sleep 3402", 0, &said), 0);
    read_record(&record);
    pid_t pid = (pid_t)protocol_u64(buf_sv(&record), PROTOCOL_PID, 0);
    assert_true(pid > 1);
    assert_int_equal(kill(pid, SIGTERM), 0);
    assert_int_equal(wait_record(&record), 137);
}

static void check_failure(struct protocol_out *o, struct buf *b, uint64_t code, const char *words) {
    AUTO_BUF struct buf said = {0};
    AUTO_BUF struct buf record = {0};
    struct sv message = {0};
    assert_int_equal(start(o, b, &said), 0);
    assert_string_equal(buf_cstr(&said), "");
    read_record(&record);
    assert_int_equal(protocol_u64(buf_sv(&record), PROTOCOL_CODE, 0), code);
    assert_true(protocol_find(buf_sv(&record), PROTOCOL_MESSAGE, &message));
    assert_true(sv_find(message, sv_from(words)) != (size_t)-1);
}

static void what_cannot_run_says_why(void **state) {
    (void)state;
    AUTO_BUF struct buf b = {0};
    struct protocol_out o;
    add_spec(&o, &b);
    protocol_add(&o, PROTOCOL_ARGV, SV("no-such-program"));
    check_failure(&o, &b, ERR_POS_NOT_FOUND,
                  "cannot run 'no-such-program': No such file or directory");
    buf_reset(&b);
    add_spec(&o, &b);
    check_failure(&o, &b, ERR_POS_INPUT, "arguments or shell text");
    buf_reset(&b);
    o = protocol_fields_begin(&b);
    protocol_add_u64(&o, PROTOCOL_MAJOR_VERSION, 9);
    check_failure(&o, &b, ERR_POS_PROTOCOL, "version 9");
}

static void input_comes_from_a_file_and_ends(void **state) {
    (void)state;
    AUTO_BUF struct buf said = {0};
    AUTO_BUF struct buf record = {0};
    AUTO_BUF struct buf b = {0};
    struct err err = {0};
    struct protocol_out o;
    assert_ok(file_write("in", SV("typed"), 0600, &err), &err);
    add_spec(&o, &b);
    protocol_add(&o, PROTOCOL_SHELL, SV("cat; echo .; cat"));
    protocol_add(&o, PROTOCOL_PATH, SV("in"));
    protocol_add_u64(&o, PROTOCOL_CLEAN, 1);
    assert_int_equal(start(&o, &b, &said), 0);
    assert_int_equal(wait_record(&record), 0);
    check_file("1/out", "typed.\n");
}

static void a_command_of_another_user_can_gain_nothing(void **state) {
    (void)state;
    AUTO_BUF struct buf said = {0};
    AUTO_BUF struct buf record = {0};
    AUTO_BUF struct buf b = {0};
    struct protocol_out o;
    if (geteuid() != 0) {
        skip_because("only root can become another user");
    }
    add_spec(&o, &b);
    protocol_add(&o, PROTOCOL_SHELL,
                 SV("id -u; id -g; id -G; grep NoNewPrivs /proc/self/status | tr '\t' ' '"));
    protocol_add_u64(&o, PROTOCOL_USER, 1234);
    protocol_add_u64(&o, PROTOCOL_CLEAN, 1);
    assert_int_equal(start(&o, &b, &said), 0);
    assert_int_equal(wait_record(&record), 0);
    check_file("1/out", "1234\n1234\n1234\nNoNewPrivs: 1\n");
}

static int run_guest(const char *const *argv, struct buf *said) {
    struct err err = {0};
    struct proc_result result = {0};
    assert_ok(proc_run(&(struct proc_options){.argv = argv}, &result, &err), &err);
    int code = result.exit_code;
    buf_reset(said);
    assert_int_equal(buf_add_sv(said, buf_sv(&result.err)), 0);
    proc_result_deinit(&result);
    return code;
}

static void what_was_uploaded_is_put_in_place_or_not_at_all(void **state) {
    (void)state;
    AUTO_BUF struct buf said = {0};
    struct err err = {0};
    assert_ok(file_write("upload", SV("new"), 0600, &err), &err);
    assert_int_equal(mkdir("folder", 0755), 0);
    AUTO_FREE char *here = getcwd(NULL, 0);
    AUTO_FREE char *to = file_join(here, "deep/er/file");
    const char *good[] = {
        getenv("SNAFFLE_GUEST"), "put", "--from", "upload", "--to", to, "--mode", "640", NULL};
    assert_int_equal(run_guest(good, &said), 0);
    check_file("deep/er/file", "new");
    assert_int_equal(file_exists("upload"), 0);
    assert_int_equal(run_guest(good, &said), PROTOCOL_EXIT_ERR + ERR_POS_NOT_FOUND);
    assert_ok(file_write("upload", SV("new"), 0600, &err), &err);
    const char *bad[] = {
        getenv("SNAFFLE_GUEST"), "put", "--from", "upload", "--to", "folder", NULL};
    assert_true(run_guest(bad, &said) > PROTOCOL_EXIT_ERR);
    assert_non_null(strstr(buf_cstr(&said), "folder"));
    assert_int_equal(rmdir("folder"), 0);
}

static int put_as(const char *user, const char *to, struct buf *said) {
    const char *argv[] = {
        getenv("SNAFFLE_GUEST"), "put", "--from", "upload", "--to", to, "--user", user, NULL};
    struct err err = {0};
    assert_ok(file_write("upload", SV("new"), 0600, &err), &err);
    return run_guest(argv, said);
}

static void an_upload_is_moved_and_only_copied_to_another_file_system(void **state) {
    (void)state;
    AUTO_BUF struct buf said = {0};
    AUTO_FREE char *here = getcwd(NULL, 0);
    AUTO_FREE char *to = file_join(here, "moved");
    AUTO_FREE char *far = mem_printf("/dev/shm/put-test-%d", (int)getpid());
    struct stat before;
    struct stat after;
    struct err err = {0};
    const char *argv[] = {
        getenv("SNAFFLE_GUEST"), "put", "--from", "upload", "--to", to, "--mode", "751", NULL};
    assert_ok(file_write("upload", SV("new"), 0600, &err), &err);
    assert_int_equal(stat("upload", &before), 0);
    assert_int_equal(run_guest(argv, &said), 0);
    assert_int_equal(stat("moved", &after), 0);
    assert_int_equal(after.st_mode & 07777, 0751);
    assert_true(before.st_ino == after.st_ino && after.st_nlink == 1);
    check_file("moved", "new");
    assert_int_equal(file_exists("upload"), 0);
    assert_int_equal(put_as("0", far, &said), 0);
    check_file(far, "new");
    assert_int_equal(unlink(far), 0);
    assert_int_equal(file_exists("upload"), 0);
}

static void a_user_puts_only_where_it_may(void **state) {
    (void)state;
    AUTO_BUF struct buf said = {0};
    AUTO_FREE char *here = getcwd(NULL, 0);
    AUTO_FREE char *own = file_join(here, "own/file");
    AUTO_FREE char *root = file_join(here, "root/file");
    struct stat st;
    if (geteuid() != 0) {
        skip_because("only root can become another user");
    }
    assert_int_equal(chmod(here, 0711), 0);
    assert_int_equal(mkdir("own", 0700), 0);
    assert_int_equal(mkdir("root", 0755), 0);
    assert_int_equal(chown("own", 1234, 1234), 0);
    assert_int_equal(put_as("1234", own, &said), 0);
    check_file("own/file", "new");
    assert_int_equal(stat("own/file", &st), 0);
    assert_int_equal(st.st_uid, 1234);
    assert_int_equal(put_as("1234", root, &said), PROTOCOL_EXIT_ERR + ERR_POS_DENIED);
    assert_int_equal(file_exists("root/file") + file_exists("upload"), 0);
}

static void who_asks_again_changes_nothing(void **state) {
    (void)state;
    AUTO_BUF struct buf said = {0};
    AUTO_BUF struct buf told = {0};
    assert_int_equal(start_shell("echo x >>ran; sleep 0.3; echo whole; exit 3", 0, &said), 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(
            ask((const char *const[]){"--wait-ms", "9000", "--output", "99", NULL}, &said, &told),
            0);
        assert_int_equal(protocol_u64(buf_sv(&told), PROTOCOL_EXIT_CODE, 99), 3);
        assert_int_equal(protocol_u64(buf_sv(&told), PROTOCOL_OUT_TOTAL, 99), 6);
        struct sv out = {0};
        assert_true(protocol_find(buf_sv(&told), PROTOCOL_BYTES, &out));
        assert_true(sv_eq(out, SV("whole\n")));
    }
    check_file("ran", "x\n");
}

static void of_outputs_the_tails_are_told_whatever_their_bytes(void **state) {
    (void)state;
    AUTO_BUF struct buf said = {0};
    AUTO_BUF struct buf told = {0};
    assert_int_equal(start_shell("printf 'abc\\000\\377\\303'; echo error >&2", 0, &said), 0);
    assert_int_equal(
        ask((const char *const[]){"--wait-ms", "9000", "--output", "4", NULL}, &said, &told), 0);
    struct sv rest = buf_sv(&told);
    struct sv value;
    uint8_t tag;
    struct sv tails[2] = {{0}};
    size_t n = 0;
    while (protocol_each(&rest, &tag, &value)) {
        if (tag == PROTOCOL_BYTES && n < 2) {
            tails[n++] = value;
        }
    }
    assert_true(sv_eq(tails[0], SV("c\0\377\303")));
    assert_true(sv_eq(tails[1], SV("ror\n")));
    assert_int_equal(protocol_u64(buf_sv(&told), PROTOCOL_OUT_TOTAL, 0), 6);
    assert_int_equal(protocol_u64(buf_sv(&told), PROTOCOL_ERR_TOTAL, 0), 6);
}

static void who_waits_is_told_the_end_at_once_or_that_it_goes_on(void **state) {
    struct err err = {0};
    AUTO_BUF struct buf said = {0};
    AUTO_BUF struct buf told = {0};
    AUTO_FREE char *go = mem_printf("%s/go", (const char *)*state);
    AUTO_FREE char *text = mem_printf("until [ -e %s ]; do sleep 0.05; done", go);
    assert_int_equal(start_shell(text, 0, &said), 0);
    assert_int_equal(ask((const char *const[]){"--wait-ms", "200", NULL}, &said, &told), 0);
    assert_true(protocol_u64(buf_sv(&told), PROTOCOL_PID, 0) > 1);
    assert_int_equal(protocol_u64(buf_sv(&told), PROTOCOL_EXIT_CODE, 99), 99);
    int64_t begun = clock_ms();
    assert_ok(file_write(go, SV(""), 0644, &err), &err);
    assert_int_equal(ask((const char *const[]){"--wait-ms", "90000", NULL}, &said, &told), 0);
    assert_int_equal(protocol_u64(buf_sv(&told), PROTOCOL_EXIT_CODE, 99), 0);
    assert_true(clock_ms() - begun < 80000);
}

static void a_command_whose_keeper_is_killed_ended_with_137(void **state) {
    (void)state;
    AUTO_BUF struct buf said = {0};
    AUTO_BUF struct buf told = {0};
    AUTO_BUF struct buf record = {0};
    assert_int_equal(start_shell("sleep 3403", 0, &said), 0);
    read_record(&record);
    assert_int_equal(kill((pid_t)protocol_u64(buf_sv(&record), PROTOCOL_PID, 0), SIGKILL), 0);
    assert_int_equal(ask((const char *const[]){"--wait-ms", "9000", NULL}, &said, &told), 0);
    assert_int_equal(protocol_u64(buf_sv(&told), PROTOCOL_EXIT_CODE, 0), 137);
    read_record(&record);
    assert_int_equal(protocol_u64(buf_sv(&record), PROTOCOL_EXIT_CODE, 0), 137);
}

static void a_stop_ends_a_command_or_lets_it_never_begin(void **state) {
    (void)state;
    static const char *const stop[] = {"--stop", "--wait-ms", "9000", NULL};
    struct err err = {0};
    AUTO_BUF struct buf said = {0};
    AUTO_BUF struct buf told = {0};
    assert_int_equal(start_shell("sleep 3404", 0, &said), 0);
    assert_int_equal(ask(stop, &said, &told), 0);
    assert_int_equal(protocol_u64(buf_sv(&told), PROTOCOL_EXIT_CODE, 0), 137);
    assert_ok(file_remove_tree("1", &err), &err);
    assert_int_equal(ask(stop, &said, &told), 0);
    assert_int_equal(protocol_u64(buf_sv(&told), PROTOCOL_CODE, 0), ERR_POS_CANCELLED);
    AUTO_BUF struct buf b = {0}; /* The start comes too late. */
    struct protocol_out o;
    add_spec(&o, &b);
    protocol_add(&o, PROTOCOL_SHELL, SV("echo x >ran"));
    assert_int_equal(protocol_fields_end(&o), 0);
    assert_ok(file_write("1/spec", buf_sv(&b), 0644, &err), &err);
    assert_int_equal(ask((const char *const[]){"--wait-ms", "9000", NULL}, &said, &told), 0);
    assert_int_equal(protocol_u64(buf_sv(&told), PROTOCOL_CODE, 0), ERR_POS_CANCELLED);
    assert_int_equal(file_exists("ran"), 0);
}

static void what_is_of_no_more_use_is_forgotten(void **state) {
    (void)state;
    struct err err = {0};
    AUTO_BUF struct buf said = {0};
    AUTO_BUF struct buf told = {0};
    AUTO_FREE char *here = getcwd(NULL, 0);
    AUTO_FREE char *dir = file_join(here, "9");
    assert_int_equal(start_shell("true", 0, &said), 0);
    assert_int_equal(mkdir("2", 0700), 0);
    assert_ok(file_write("2/out", SV("x"), 0644, &err), &err);
    assert_ok(file_write("kept", SV("x"), 0644, &err), &err);
    struct proc_result r = {0};
    const char *argv[] = {getenv("SNAFFLE_GUEST"), "run", "--dir", dir, "--stop", "--forget",
                          "2,../kept,5,x",         NULL};
    assert_ok(proc_run(&(struct proc_options){.argv = argv}, &r, &err), &err);
    assert_int_equal(r.exit_code, 0);
    proc_result_deinit(&r);
    assert_int_equal(file_exists("2"), 0);
    assert_int_equal(file_exists("kept"), 1);
    assert_int_equal(file_exists("1/exit"), 1);
}

static void a_spec_is_a_regular_file_of_fields(void **state) {
    (void)state;
    AUTO_BUF struct buf b = {0};
    AUTO_BUF struct buf said = {0};
    AUTO_BUF struct buf told = {0};
    assert_int_equal(buf_adds(&b, "#!/bin/sh\n"), 0);
    struct protocol_out o = {.buf = &b};
    check_failure(&o, &b, ERR_POS_PROTOCOL, "field 35 runs past");
    assert_int_equal(unlink("1/spec"), 0);
    assert_int_equal(unlink("1/begun"), 0);
    assert_int_equal(symlink("other", "1/spec"), 0);
    assert_int_equal(ask((const char *const[]){NULL}, &said, &told), 1);
    assert_non_null(strstr(buf_cstr(&said), "it is a link"));
    assert_int_equal(file_exists("1/begun"), 0);
}

static void a_wrong_command_line_gives_the_usage(void **state) {
    (void)state;
    static const char *const rows[][4] = {
        {NULL},
        {"run", NULL},
        {"run", "--dir", NULL},
        {"run", "--dir", "1", "x"},
        {"run", "--wait-ms", "x", NULL},
        {"serve", NULL},
        {"serve", "--listen-fd", "x", NULL},
        {"serve", "--listen-fd", "1", NULL},
        {"serve", "--nonsense", NULL},
        {"fly", NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const char *argv[7] = {getenv("SNAFFLE_GUEST")};
        struct err err = {0};
        struct proc_result r = {0};
        memcpy(argv + 1, rows[i], sizeof rows[i]);
        assert_ok(proc_run(&(struct proc_options){.argv = argv}, &r, &err), &err);
        assert_int_equal(r.exit_code, 2);
        assert_non_null(strstr(buf_cstr(&r.err), "usage: snaffle-guest"));
        proc_result_deinit(&r);
    }
}

#define run_unit_test(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static const struct CMUnitTest tests[] = {
    run_unit_test(a_command_runs_on_by_itself_and_leaves_files),
    run_unit_test(a_command_out_of_time_is_recorded_as_such),
    run_unit_test(a_signal_to_the_process_that_stayed_ends_the_command),
    run_unit_test(what_cannot_run_says_why),
    run_unit_test(input_comes_from_a_file_and_ends),
    run_unit_test(a_command_of_another_user_can_gain_nothing),
    run_unit_test(what_was_uploaded_is_put_in_place_or_not_at_all),
    run_unit_test(an_upload_is_moved_and_only_copied_to_another_file_system),
    run_unit_test(a_user_puts_only_where_it_may),
    run_unit_test(who_asks_again_changes_nothing),
    run_unit_test(of_outputs_the_tails_are_told_whatever_their_bytes),
    run_unit_test(who_waits_is_told_the_end_at_once_or_that_it_goes_on),
    run_unit_test(a_command_whose_keeper_is_killed_ended_with_137),
    run_unit_test(a_stop_ends_a_command_or_lets_it_never_begin),
    run_unit_test(what_is_of_no_more_use_is_forgotten),
    run_unit_test(a_spec_is_a_regular_file_of_fields),
    run_unit_test(a_wrong_command_line_gives_the_usage),
};

RUN_TESTS(tests)
