/* SPDX-License-Identifier: BSD-3-Clause */
#include "guest/serve.h"

#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/file.h"
#include "base/mem.h"
#include "tests/unit/guest/guest_fixture.h"

static char *shell(struct guest_fixture *f, const char *text) {
    struct err err = {0};
    struct sandbox_output o = {0};
    assert_ok(guest_exec(&f->client, &(struct sandbox_exec){.shell = text}, &o, &err), &err);
    buf_deinit(&o.err);
    return buf_take(&o.out);
}

static void check_shell(struct guest_fixture *f, const char *text, const char *want) {
    AUTO_FREE char *got = shell(f, text);
    assert_string_equal(got, want);
}

static void a_command_starts_with_plain_signals_and_three_descriptors(void **state) {
    GUEST_OR_SKIP(state);
    check_shell(f, "exec sed -n '/^Sig[BI]/p' /proc/self/status",
                "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
    struct sandbox_output o = {0};
    const char *argv[] = {"ls", "/proc/self/fd", NULL};
    assert_ok(guest_exec(&f->client, &(struct sandbox_exec){.argv = argv}, &o, &err), &err);
    assert_string_equal(buf_cstr(&o.out), "0\n1\n2\n3\n"); /* The last is its own. */
    buf_deinit(&o.out);
    buf_deinit(&o.err);
    check_shell(f, "ps -o sid=,pgid=,pid= $$ | awk '{print $1==$3, $2==$3}'", "1 1\n");
    check_shell(f, "ulimit -c; ulimit -n | grep -c .", "0\n1\n");
}

/* A build with sanitizers catches it, and says so. */
#ifdef __SANITIZE_ADDRESS__
#define FAULT ""
#else
#define FAULT "SEGV "
#endif

static void the_guest_cannot_be_read_traced_or_killed_from_inside(void **state) {
    GUEST_OR_SKIP(state);
    check_shell(f,
                "cat /proc/1/environ /proc/1/maps /proc/1/mem 2>&1 | grep -c 'Permission denied'; "
                "ls /proc/1/fd 2>&1 | grep -c 'Permission denied'",
                "3\n1\n");
    check_shell(f,
                "for s in KILL TERM INT HUP STOP " FAULT "USR1 CHLD 34; do kill -$s 1; done; "
                "kill -TERM -1; echo alive",
                "alive\n");
    clock_sleep_ms(100);
    assert_ok(guest_hello(&f->client, deadline_in_s(5), NULL, &err), &err);
    check_shell(f, "cat /proc/$PPID/environ 2>&1 | grep -c 'Permission denied'", "1\n");
}

static void processes_are_limited_and_the_guest_goes_on(void **state) {
    (void)state;
    struct guest_fixture fixture;
    struct guest_fixture *f = &fixture;
    struct err err = {0};
    if (!guest_fixture_start(f, &(struct guest_fixture_options){.processes = "24"})) {
        skip_because("bubblewrap cannot make a sandbox on this machine");
    }
    struct sandbox_exec what = {.shell = "for i in $(seq 40); do sleep 100 & done; wait"};
    uint32_t job;
    assert_ok(guest_start(&f->client, &what, &job, &err), &err);
    clock_sleep_ms(500);
    struct sandbox_output o = {0};
    struct sandbox_exec one = {.shell = "true"};
    assert_err(guest_exec(&f->client, &one, &o, &err), ERR_LIMIT, &err, "process");
    assert_ok(guest_kill_all(&f->client, deadline_in_s(10), &err), &err);
    check_shell(f, "echo again", "again\n");
    guest_fixture_stop(f);
}

static void a_guest_whose_host_falls_silent_kills_all_and_ends(void **state) {
    (void)state;
    struct guest_fixture fixture;
    struct guest_fixture *f = &fixture;
    struct err err = {0};
    if (!guest_fixture_start(f, &(struct guest_fixture_options){.silence_ms = "700"})) {
        skip_because("bubblewrap cannot make a sandbox on this machine");
    }
    clock_sleep_ms(900); /* No heart was ever there to stop. */
    assert_ok(guest_beat(&f->client, &err), &err);
    uint32_t job;
    assert_ok(guest_start(&f->client, &(struct sandbox_exec){.shell = "sleep $SLEEP"}, &job, &err),
              &err);
    for (int i = 0; i < 4; i++) {
        clock_sleep_ms(300);
        assert_ok(guest_beat(&f->client, &err), &err);
    }
    int64_t start = clock_ms();
    assert_int_equal(guest_fixture_wait(f), 4);
    assert_true(clock_ms() - start >= 500);
    assert_int_equal(guest_hello(&f->client, deadline_in_s(5), NULL, &err), ERR_LOST);
    guest_fixture_stop(f);
}

static void a_guest_told_to_end_kills_all_and_ends_well(void **state) {
    GUEST_OR_SKIP(state);
    uint32_t job;
    struct sandbox_exec what = {.shell = "until [ -e stop ]; do echo $((++n)) >count; done"};
    assert_ok(guest_start(&f->client, &what, &job, &err), &err);
    while (guest_exists(&f->client, "count", &err) != 1) {
        clock_sleep_ms(5);
    }
    assert_int_equal(kill(guest_fixture_guest_pid(f), SIGTERM), 0);
    assert_int_equal(guest_fixture_wait(f), 0);
    AUTO_FREE char *path = mem_printf("%s/count", f->home);
    AUTO_BUF struct buf before = {0};
    AUTO_BUF struct buf after = {0};
    assert_ok(file_read(path, 100, &before, &err), &err);
    clock_sleep_ms(100);
    assert_ok(file_read(path, 100, &after, &err), &err);
    assert_true(sv_eq(buf_sv(&before), buf_sv(&after)));
}

static void the_models_port_answers_only_where_there_is_a_model(void **state) {
    (void)state;
    struct err err = {0};
    for (int with_model = 0; with_model < 2; with_model++) {
        struct guest_fixture fixture;
        struct guest_fixture *f = &fixture;
        if (!guest_fixture_start(f, &(struct guest_fixture_options){.with_model = with_model})) {
            skip_because("bubblewrap cannot make a sandbox on this machine");
        }
        AUTO_CLOSE int listen_fd = -1;
        assert_ok(fd_listen_unix(f->model, 8, 0666, &listen_fd, &err), &err);
        uint32_t job;
        struct sandbox_exec what = {
            .shell = "exec 3<>/dev/tcp/127.0.0.1/7000 && echo question >&3 && cat <&3",
            .stdout_path = "out"};
        assert_ok(guest_start(&f->client, &what, &job, &err), &err);
        if (with_model) {
            char question[9];
            AUTO_CLOSE int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC);
            assert_ok(fd_read_exact(fd, question, 9, deadline_in_s(10), NULL, &err), &err);
            assert_ok(fd_write_all(fd, "answer", 6, deadline_in_s(10), NULL, &err), &err);
            shutdown(fd, SHUT_WR); /* Closed whole before the other side's end it were a reset. */
            assert_int_equal(fd_read_some(fd, question, 1, deadline_in_s(10), NULL, &err), 0);
        }
        int code;
        assert_ok(guest_wait(&f->client, job, deadline_in_s(10), NULL, &code, &err), &err);
        assert_int_equal(code, with_model ? 0 : 1);
        check_shell(f, "cat out", with_model ? "answer" : "");
        guest_fixture_stop(f);
    }
}

static const struct CMUnitTest tests[] = {
    guest_unit_test(a_command_starts_with_plain_signals_and_three_descriptors),
    cmocka_unit_test(a_guest_whose_host_falls_silent_kills_all_and_ends),
    guest_unit_test(a_guest_told_to_end_kills_all_and_ends_well),
    /* Only as pid 1: there the agent has no way to it, and the namespaces are the guest's own. */
    guest_unit_test(the_guest_cannot_be_read_traced_or_killed_from_inside),
    cmocka_unit_test(processes_are_limited_and_the_guest_goes_on),
    cmocka_unit_test(the_models_port_answers_only_where_there_is_a_model),
};

RUN_GUEST_TESTS(tests, /*only_init=*/3)
