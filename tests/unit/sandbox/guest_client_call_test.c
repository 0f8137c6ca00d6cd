/* SPDX-License-Identifier: BSD-3-Clause */
#include "sandbox/guest_client_call.h"

#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "tests/testing.h"

/* A guest that has written its answers before it was asked: what it says is foreign bytes. */
struct script {
    struct buf bytes;
    bool stays; /* It does not close its end. */
    int kept_fd;
    struct cancel *torn_down;
};

static int connect_script(void *arg, int *out_fd, struct err *err) {
    struct script *s = arg;
    int fds[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0) {
        return err_set(err, ERR_SYS, "no socket pair");
    }
    int r = fd_write_all(fds[1], s->bytes.data, s->bytes.len, deadline_in_s(5), NULL, err);
    shutdown(fds[1], s->stays ? SHUT_RD : SHUT_WR);
    s->kept_fd = fds[1];
    *out_fd = fds[0];
    return r;
}

static struct guest_client client_of(struct script *s) {
    s->kept_fd = -1;
    return (struct guest_client){.connect = connect_script, .arg = s, .torn_down = s->torn_down};
}

static void deinit(struct script *s) {
    buf_deinit(&s->bytes);
    mem_auto_close(&s->kept_fd);
    cancel_free(s->torn_down);
}

#define AUTO_SCRIPT AUTO(deinit) struct script

static void add_hello(struct buf *b, uint64_t major) {
    struct protocol_out o = protocol_begin(b, PROTOCOL_HELLO, 0);
    protocol_add_u64(&o, PROTOCOL_MAJOR_VERSION, major);
    assert_int_equal(protocol_end(&o), 0);
}

static void add_error(struct buf *b, uint64_t code, struct sv message) {
    struct protocol_out o = protocol_begin(b, PROTOCOL_ERROR, GUEST_CALL_ID);
    protocol_add_u64(&o, PROTOCOL_CODE, code);
    protocol_add(&o, PROTOCOL_MESSAGE, message);
    assert_int_equal(protocol_end(&o), 0);
}

static void add_bytes(struct buf *b, uint32_t id, uint64_t stream, struct sv bytes) {
    struct protocol_out o = protocol_begin(b, PROTOCOL_OUTPUT, id);
    if (stream) {
        protocol_add_u64(&o, PROTOCOL_STREAM, stream);
    }
    protocol_add(&o, PROTOCOL_BYTES, bytes);
    assert_int_equal(protocol_end(&o), 0);
}

static void add_exit(struct buf *b, uint64_t code) {
    struct protocol_out o = protocol_begin(b, PROTOCOL_EXIT, GUEST_CALL_ID);
    protocol_add_u64(&o, PROTOCOL_EXIT_CODE, code);
    assert_int_equal(protocol_end(&o), 0);
}

static int exec_script(struct script *s, struct sandbox_output *o, struct err *err) {
    struct guest_client g = client_of(s);
    return guest_exec(&g, &(struct sandbox_exec){.shell = "x", .timeout_s = 1}, o, err);
}

static void a_guest_of_another_version_is_refused(void **state) {
    (void)state;
    struct err err = {0};
    struct sandbox_output o = {0};
    AUTO_SCRIPT s = {0};
    add_hello(&s.bytes, 2);
    assert_err(exec_script(&s, &o, &err), ERR_PROTOCOL, &err, "version 2");
}

static void an_answer_that_breaks_the_protocol_is_named(void **state) {
    (void)state;
    static const struct sv rows[] = {
        {"HTTP/1.1 200 OK\r\n\r\n", 19},
        {"\0\0\0\1\1", 5},
        {"\0\0\0\x0b\1\0\0\0\0\x07\0\0\0\x09z", 15},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct err err = {0};
        struct sandbox_output o = {0};
        AUTO_SCRIPT s = {0};
        assert_int_equal(buf_add_sv(&s.bytes, rows[i]), 0);
        assert_int_equal(exec_script(&s, &o, &err), ERR_PROTOCOL);
    }
}

static void an_answer_out_of_place_is_refused(void **state) {
    (void)state;
    for (int i = 0; i < 6; i++) {
        struct err err = {0};
        struct sandbox_output o = {0};
        AUTO_SCRIPT s = {0};
        if (i != 0) {
            add_hello(&s.bytes, PROTOCOL_MAJOR);
        }
        switch (i) {
        case 0:
            add_exit(&s.bytes, 0);
            break;
        case 1:
            add_exit(&s.bytes, 256);
            break;
        case 2:
            add_bytes(&s.bytes, GUEST_CALL_ID, 3, SV("x"));
            break;
        case 3:
            add_bytes(&s.bytes, GUEST_CALL_ID, 0, SV("x"));
            break;
        case 4:
            add_bytes(&s.bytes, 99, 1, SV("x"));
            break;
        default:
            add_hello(&s.bytes, PROTOCOL_MAJOR);
            break;
        }
        assert_int_equal(exec_script(&s, &o, &err), ERR_PROTOCOL);
    }
}

static void a_guest_that_sends_more_of_a_file_than_was_asked_for_is_refused(void **state) {
    (void)state;
    struct err err = {0};
    AUTO_SCRIPT s = {0};
    AUTO_BUF struct buf out = {0};
    add_hello(&s.bytes, PROTOCOL_MAJOR);
    add_bytes(&s.bytes, GUEST_CALL_ID, 0, SV("12"));
    add_bytes(&s.bytes, GUEST_CALL_ID, 0, SV("345"));
    struct guest_client g = client_of(&s);
    assert_err(guest_read_file(&g, "x", 0, 4, &out, &err), ERR_PROTOCOL, &err, "more bytes");
    assert_int_equal(out.len, 0);
}

static void
the_guests_own_errors_keep_their_code_and_lose_what_a_terminal_would_obey(void **state) {
    (void)state;
    struct err err = {0};
    struct sandbox_output o = {0};
    AUTO_SCRIPT s = {0};
    add_hello(&s.bytes, PROTOCOL_MAJOR);
    add_error(&s.bytes, ERR_POS_FULL, SV("no\x1b[31m space\nleft"));
    assert_err(exec_script(&s, &o, &err), ERR_FULL, &err, "no?[31m space?left");
    deinit(&s);
    s = (struct script){0};
    add_hello(&s.bytes, PROTOCOL_MAJOR);
    add_error(&s.bytes, 9999, SV("of a later version"));
    assert_err(exec_script(&s, &o, &err), ERR_PROTOCOL, &err, "of a later version");
    deinit(&s);
    s = (struct script){0};
    AUTO_BUF struct buf longest = {0};
    while (longest.len < 100000) {
        assert_int_equal(buf_adds(&longest, "word "), 0);
    }
    add_hello(&s.bytes, PROTOCOL_MAJOR);
    add_error(&s.bytes, ERR_POS_INPUT, buf_sv(&longest));
    assert_err(exec_script(&s, &o, &err), ERR_INPUT, &err, "word ");
    assert_true(strlen(err.msg) < 600);
}

static void an_answer_cut_anywhere_is_a_lost_guest(void **state) {
    (void)state;
    AUTO_SCRIPT whole = {.kept_fd = -1};
    add_hello(&whole.bytes, PROTOCOL_MAJOR);
    add_bytes(&whole.bytes, GUEST_CALL_ID, 1, SV("output"));
    add_exit(&whole.bytes, 3);
    for (size_t cut = 0; cut <= whole.bytes.len; cut++) {
        struct err err = {0};
        struct sandbox_output o = {0};
        AUTO_SCRIPT s = {0};
        assert_int_equal(buf_add(&s.bytes, whole.bytes.data, cut), 0);
        int r = exec_script(&s, &o, &err);
        assert_int_equal(r, cut == whole.bytes.len ? 0 : ERR_LOST);
        if (r == 0) {
            assert_int_equal(o.exit_code, 3);
            assert_string_equal(buf_cstr(&o.out), "output");
        }
        buf_deinit(&o.out);
        buf_deinit(&o.err);
    }
}

static void a_silent_guest_is_waited_for_until_the_deadline(void **state) {
    (void)state;
    struct err err = {0};
    AUTO_SCRIPT s = {.stays = true};
    add_hello(&s.bytes, PROTOCOL_MAJOR);
    struct guest_client g = client_of(&s);
    assert_err(guest_hello(&g, deadline_in_ms(100), NULL, &err), ERR_TIMEOUT, &err, "in time");
}

static void a_sandbox_torn_down_ends_every_call_as_lost(void **state) {
    (void)state;
    struct err err = {0};
    AUTO_SCRIPT s = {.stays = true};
    assert_ok(cancel_new(&s.torn_down, &err), &err);
    add_hello(&s.bytes, PROTOCOL_MAJOR);
    struct guest_client g = client_of(&s);
    struct cancel *cancel = NULL;
    assert_ok(cancel_new(&cancel, &err), &err);
    cancel_throw(cancel);
    assert_int_equal(guest_hello(&g, deadline_in_s(10), cancel, &err), ERR_CANCELLED);
    close(s.kept_fd);
    cancel_throw(s.torn_down);
    assert_err(guest_hello(&g, deadline_in_s(10), cancel, &err), ERR_LOST, &err, "torn down");
    s.kept_fd = -1;
    cancel_free(cancel);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_guest_of_another_version_is_refused),
    cmocka_unit_test(an_answer_that_breaks_the_protocol_is_named),
    cmocka_unit_test(an_answer_out_of_place_is_refused),
    cmocka_unit_test(a_guest_that_sends_more_of_a_file_than_was_asked_for_is_refused),
    cmocka_unit_test(the_guests_own_errors_keep_their_code_and_lose_what_a_terminal_would_obey),
    cmocka_unit_test(an_answer_cut_anywhere_is_a_lost_guest),
    cmocka_unit_test(a_silent_guest_is_waited_for_until_the_deadline),
    cmocka_unit_test(a_sandbox_torn_down_ends_every_call_as_lost),
};

RUN_TESTS(tests)
