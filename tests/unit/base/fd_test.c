/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/fd.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "tests/testing.h"

static void a_write_into_a_closed_peer_is_an_error_and_no_signal(void **state) {
    (void)state;
    struct err err = {0};
    int s[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, s), 0);
    close(s[1]);
    assert_int_equal(fd_write_all(s[0], "x", 1, deadline_in_s(5), NULL, &err), ERR_CLOSED);
    close(s[0]);
}

static void a_read_waits_no_longer_than_its_deadline(void **state) {
    (void)state;
    struct err err = {0};
    int s[2];
    char c;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, s), 0);
    assert_int_equal(fd_read_exact(s[0], &c, 1, deadline_in_ms(20), NULL, &err), ERR_TIMEOUT);
    assert_int_equal(write(s[1], "ab", 2), 2);
    assert_ok(fd_read_exact(s[0], &c, 1, deadline_in_s(5), NULL, &err), &err);
    assert_int_equal(c, 'a');
    close(s[1]);
    char two[2];
    assert_int_equal(fd_read_exact(s[0], two, 2, deadline_in_s(5), NULL, &err), ERR_CLOSED);
    close(s[0]);
}

static void a_socket_path_longer_than_the_address_holds_still_works(void **state) {
    (void)state;
    struct err err = {0};
    char root[] = "/tmp/snaffle-fd-test.XXXXXX";
    assert_non_null(mkdtemp(root));
    AUTO_FREE char *dir = mem_printf("%s/%0120d", root, 0);
    AUTO_FREE char *path = file_join(dir, "sock");
    assert_ok(file_mkdirs(dir, 0700, &err), &err);
    AUTO_CLOSE int listener = -1;
    AUTO_CLOSE int peer = -1;
    assert_ok(fd_listen_unix(path, 4, 0600, &listener, &err), &err);
    assert_ok(fd_connect_unix(path, &peer, &err), &err);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_ok(file_remove_tree(root, &err), &err);
}

static void a_connection_to_nobody_is_named(void **state) {
    (void)state;
    struct err err = {0};
    int fd = -1;
    assert_err(fd_connect_unix("/tmp/snaffle-no-such-socket", &fd, &err), ERR_CONNECT, &err,
               "'/tmp/snaffle-no-such-socket'");
    assert_int_equal(fd, -1);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_write_into_a_closed_peer_is_an_error_and_no_signal),
    cmocka_unit_test(a_read_waits_no_longer_than_its_deadline),
    cmocka_unit_test(a_socket_path_longer_than_the_address_holds_still_works),
    cmocka_unit_test(a_connection_to_nobody_is_named),
};

RUN_TESTS(tests)
