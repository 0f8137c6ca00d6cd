/* SPDX-License-Identifier: BSD-3-Clause */
#include "guest/conn.h"

#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "tests/unit/guest/guest_fixture.h"

/* Frames written and read by hand, as the host's client never would. */

static void send_bytes(int fd, struct sv bytes) {
    struct err err = {0};
    assert_ok(fd_write_all(fd, bytes.p, bytes.n, deadline_in_s(10), NULL, &err), &err);
}

static void add_hello(struct buf *b, uint64_t major) {
    struct protocol_out o = protocol_begin(b, PROTOCOL_HELLO, 0);
    protocol_add_u64(&o, PROTOCOL_MAJOR_VERSION, major);
    protocol_add(&o, 60, SV("a field of a later minor version"));
    assert_int_equal(protocol_end(&o), 0);
}

static void add_shell(struct buf *b, uint32_t id, const char *text) {
    struct protocol_out o = protocol_begin(b, PROTOCOL_START, id);
    protocol_add(&o, PROTOCOL_SHELL, sv_from(text));
    protocol_add(&o, 61, SV("unknown"));
    assert_int_equal(protocol_end(&o), 0);
}

/* The next frame; false at the end of the stream. */
static bool receive(int fd, struct protocol_in *in, struct protocol_frame *out) {
    struct err err = {0};
    for (;;) {
        int r = protocol_next(in, out, &err);
        assert_ok(r, &err);
        if (r > 0) {
            return true;
        }
        char bytes[65536];
        ssize_t n = fd_read_some(fd, bytes, sizeof bytes, deadline_in_s(10), NULL, &err);
        if (n == 0 || n == ERR_CLOSED) {
            return false;
        }
        assert_ok(n, &err);
        assert_int_equal(protocol_feed(in, bytes, (size_t)n), 0);
    }
}

static void check_error(const struct protocol_frame *f, uint32_t id, int code, const char *words) {
    struct sv message = SV("");
    assert_int_equal(f->type, PROTOCOL_ERROR);
    assert_int_equal(f->id, id);
    assert_int_equal(protocol_u64(f->fields, PROTOCOL_CODE, 0), -code);
    assert_true(protocol_find(f->fields, PROTOCOL_MESSAGE, &message));
    if (sv_find(message, sv_from(words)) == (size_t)-1) {
        fail_msg("'%.*s' does not say '%s'", SV_ARG(message), words);
    }
}

static void an_unknown_major_version_is_refused_with_both_versions(void **state) {
    GUEST_OR_SKIP(state);
    AUTO_CLOSE int fd = guest_fixture_connect(f);
    AUTO(protocol_in_deinit) struct protocol_in in = {0};
    AUTO_BUF struct buf b = {0};
    struct protocol_frame frame;
    add_hello(&b, 2);
    add_shell(&b, 1, "touch ran");
    send_bytes(fd, buf_sv(&b));
    assert_true(receive(fd, &in, &frame));
    check_error(&frame, 0, ERR_PROTOCOL, "version 2 of the guest protocol: this guest speaks 1");
    assert_false(receive(fd, &in, &frame));
    assert_int_equal(guest_exists(&f->client, "ran", &err), 0);
}

static void a_connection_that_does_not_begin_with_hello_is_refused(void **state) {
    GUEST_OR_SKIP(state);
    AUTO_CLOSE int fd = guest_fixture_connect(f);
    AUTO(protocol_in_deinit) struct protocol_in in = {0};
    AUTO_BUF struct buf b = {0};
    struct protocol_frame frame;
    add_shell(&b, 1, "true");
    send_bytes(fd, buf_sv(&b));
    assert_true(receive(fd, &in, &frame));
    check_error(&frame, 0, ERR_PROTOCOL, "must be a hello");
    assert_false(receive(fd, &in, &frame));
}

static void garbage_ends_its_own_connection_and_nothing_else(void **state) {
    GUEST_OR_SKIP(state);
    static const struct sv rows[] = {
        {"GET / HTTP/1.1\r\n\r\n", 18},
        {"\0\0\0\0", 4},
        {"\xff\xff\xff\xff\xff\xff\xff\xff", 8},
        {"\0\0\0\x09\1\0\0\0\0\x80\0\0\0", 13},
        {"\0\0\0\x0a\1\0\0\0\0\x07\xff\xff\xff\xff", 14},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        AUTO_CLOSE int fd = guest_fixture_connect(f);
        AUTO(protocol_in_deinit) struct protocol_in in = {0};
        struct protocol_frame frame;
        send_bytes(fd, rows[i]);
        shutdown(fd, SHUT_WR);
        while (receive(fd, &in, &frame)) {
            assert_int_equal(frame.type, PROTOCOL_ERROR);
        }
        assert_ok(guest_hello(&f->client, deadline_in_s(5), NULL, &err), &err);
    }
}

static void an_unknown_request_is_an_error_and_the_connection_goes_on(void **state) {
    GUEST_OR_SKIP(state);
    AUTO_CLOSE int fd = guest_fixture_connect(f);
    AUTO(protocol_in_deinit) struct protocol_in in = {0};
    AUTO_BUF struct buf b = {0};
    struct protocol_frame frame;
    add_hello(&b, 1);
    struct protocol_out o = protocol_begin(&b, 200, 5);
    assert_int_equal(protocol_end(&o), 0);
    o = protocol_begin(&b, PROTOCOL_EXISTS, 6);
    protocol_add(&o, PROTOCOL_PATH, SV("/"));
    assert_int_equal(protocol_end(&o), 0);
    send_bytes(fd, buf_sv(&b));
    assert_true(receive(fd, &in, &frame));
    assert_int_equal(frame.type, PROTOCOL_HELLO);
    assert_int_equal(protocol_u64(frame.fields, PROTOCOL_MAJOR_VERSION, 0), PROTOCOL_MAJOR);
    assert_true(receive(fd, &in, &frame));
    check_error(&frame, 5, ERR_UNSUPPORTED, "type 200");
    assert_true(receive(fd, &in, &frame));
    assert_int_equal(frame.type, PROTOCOL_DONE);
    assert_int_equal(frame.id, 6);
}

/* Sent at once, and cut into single bytes: the answers are the same. */
static void requests_one_behind_the_other_are_answered_in_order(void **state) {
    GUEST_OR_SKIP(state);
    for (int bytewise = 0; bytewise < 2; bytewise++) {
        AUTO_CLOSE int fd = guest_fixture_connect(f);
        AUTO(protocol_in_deinit) struct protocol_in in = {0};
        AUTO_BUF struct buf b = {0};
        struct protocol_frame frame;
        add_hello(&b, 1);
        for (uint32_t id = 1; id <= 5; id++) {
            struct protocol_out o = protocol_begin(&b, PROTOCOL_EXISTS, id);
            protocol_add(&o, PROTOCOL_PATH, SV("/"));
            assert_int_equal(protocol_end(&o), 0);
        }
        for (size_t i = 0; bytewise && i < b.len; i++) {
            send_bytes(fd, (struct sv){b.data + i, 1});
        }
        if (!bytewise) {
            send_bytes(fd, buf_sv(&b));
        }
        for (uint32_t id = 0; id <= 5; id++) {
            assert_true(receive(fd, &in, &frame));
            assert_int_equal(frame.id, id);
            assert_int_equal(frame.type, id ? PROTOCOL_DONE : PROTOCOL_HELLO);
        }
    }
}

static void a_request_within_another_is_refused(void **state) {
    GUEST_OR_SKIP(state);
    AUTO_CLOSE int fd = guest_fixture_connect(f);
    AUTO(protocol_in_deinit) struct protocol_in in = {0};
    AUTO_BUF struct buf b = {0};
    struct protocol_frame frame;
    add_hello(&b, 1);
    add_shell(&b, 1, "sleep 0.3; echo first");
    add_shell(&b, 2, "echo second");
    send_bytes(fd, buf_sv(&b));
    assert_true(receive(fd, &in, &frame));
    assert_true(receive(fd, &in, &frame));
    check_error(&frame, 2, ERR_STATE, "another request is open");
    assert_true(receive(fd, &in, &frame));
    assert_int_equal(frame.type, PROTOCOL_OUTPUT);
    assert_true(receive(fd, &in, &frame));
    assert_int_equal(frame.type, PROTOCOL_EXIT);
    assert_int_equal(frame.id, 1);
}

static void a_host_that_leaves_ends_its_command(void **state) {
    GUEST_OR_SKIP(state);
    {
        AUTO_CLOSE int fd = guest_fixture_connect(f);
        AUTO_BUF struct buf b = {0};
        add_hello(&b, 1);
        add_shell(&b, 1, "touch begun; sleep 0.5; touch ended");
        send_bytes(fd, buf_sv(&b));
        while (guest_exists(&f->client, "begun", &err) != 1) {
            clock_sleep_ms(5);
        }
    }
    clock_sleep_ms(1000);
    assert_int_equal(guest_exists(&f->client, "ended", &err), 0);
}

/* The command waits at its pipe; neither it nor the guest runs ahead. */
static void a_host_that_does_not_read_costs_no_memory(void **state) {
    GUEST_OR_SKIP(state);
    AUTO_CLOSE int fd = guest_fixture_connect(f);
    AUTO_BUF struct buf b = {0};
    long before = guest_fixture_resident_kb(f);
    add_hello(&b, 1);
    add_shell(&b, 1, "cat /dev/zero");
    send_bytes(fd, buf_sv(&b));
    clock_sleep_ms(1000);
    long grown = guest_fixture_resident_kb(f) - before;
    if (grown > GUEST_FIXTURE_SLACK_KB) {
        fail_msg("grew by %ld KB", grown);
    }
    assert_ok(guest_hello(&f->client, deadline_in_s(5), NULL, &err), &err);
}

/* The content of a file is refused at its head, and what is under way is passed over. */
static void after_a_refused_write_the_connection_goes_on(void **state) {
    GUEST_OR_SKIP(state);
    AUTO_CLOSE int fd = guest_fixture_connect(f);
    AUTO(protocol_in_deinit) struct protocol_in in = {0};
    AUTO_BUF struct buf b = {0};
    struct protocol_frame frame;
    add_hello(&b, 1);
    struct protocol_out o = protocol_begin(&b, PROTOCOL_WRITE, 1);
    protocol_add(&o, PROTOCOL_PATH, SV("/"));
    assert_int_equal(protocol_end(&o), 0);
    for (int i = 0; i < 3; i++) {
        o = protocol_begin(&b, PROTOCOL_INPUT, 1);
        protocol_add(&o, PROTOCOL_BYTES, SV("content"));
        protocol_add_u64(&o, PROTOCOL_END, i == 2);
        assert_int_equal(protocol_end(&o), 0);
    }
    add_shell(&b, 2, "exit 4");
    send_bytes(fd, buf_sv(&b));
    assert_true(receive(fd, &in, &frame));
    assert_true(receive(fd, &in, &frame));
    check_error(&frame, 1, ERR_INPUT, "names a folder");
    assert_true(receive(fd, &in, &frame));
    assert_int_equal(frame.type, PROTOCOL_EXIT);
    assert_int_equal(frame.id, 2);
    assert_int_equal(protocol_u64(frame.fields, PROTOCOL_EXIT_CODE, 0), 4);
}

static void a_write_cut_short_leaves_nothing(void **state) {
    GUEST_OR_SKIP(state);
    {
        AUTO_CLOSE int fd = guest_fixture_connect(f);
        AUTO(protocol_in_deinit) struct protocol_in in = {0};
        AUTO_BUF struct buf b = {0};
        struct protocol_frame frame;
        add_hello(&b, 1);
        struct protocol_out o = protocol_begin(&b, PROTOCOL_WRITE, 1);
        protocol_add(&o, PROTOCOL_PATH, SV("file"));
        assert_int_equal(protocol_end(&o), 0);
        o = protocol_begin(&b, PROTOCOL_INPUT, 1);
        protocol_add(&o, PROTOCOL_BYTES, SV("half"));
        assert_int_equal(protocol_end(&o), 0);
        send_bytes(fd, buf_sv(&b));
        assert_true(receive(fd, &in, &frame));
    }
    clock_sleep_ms(100);
    struct sandbox_output o = {0};
    assert_ok(guest_exec(&f->client, &(struct sandbox_exec){.shell = "ls -A"}, &o, &err), &err);
    assert_string_equal(buf_cstr(&o.out), "");
    buf_deinit(&o.out);
    buf_deinit(&o.err);
}

static void more_connections_than_are_served_at_once_wait_their_turn(void **state) {
    GUEST_OR_SKIP(state);
    int fds[SERVER_CONNS_MAX];
    for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
        fds[i] = guest_fixture_connect(f);
    }
    assert_err(guest_hello(&f->client, deadline_in_ms(300), NULL, &err), ERR_TIMEOUT, &err, "");
    for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
        close(fds[i]);
    }
    assert_ok(guest_hello(&f->client, deadline_in_s(5), NULL, &err), &err);
}

static const struct CMUnitTest tests[] = {
    guest_unit_test(an_unknown_major_version_is_refused_with_both_versions),
    guest_unit_test(a_connection_that_does_not_begin_with_hello_is_refused),
    guest_unit_test(garbage_ends_its_own_connection_and_nothing_else),
    guest_unit_test(an_unknown_request_is_an_error_and_the_connection_goes_on),
    guest_unit_test(requests_one_behind_the_other_are_answered_in_order),
    guest_unit_test(a_request_within_another_is_refused),
    guest_unit_test(a_host_that_leaves_ends_its_command),
    guest_unit_test(a_host_that_does_not_read_costs_no_memory),
    guest_unit_test(after_a_refused_write_the_connection_goes_on),
    guest_unit_test(a_write_cut_short_leaves_nothing),
    guest_unit_test(more_connections_than_are_served_at_once_wait_their_turn),
};

RUN_GUEST_TESTS(tests, /*only_init=*/0)
