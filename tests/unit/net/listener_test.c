/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/listener.h"

#include <sys/resource.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/mem.h"
#include "tests/unit/net/net_testing.h"

struct hall {
    struct loop *l;
    struct listener *listener;
    int accepted;
    bool is_unix;
};

static void on_accept(struct conn *c, void *arg) {
    struct hall *h = arg;
    h->accepted++;
    h->is_unix = conn_is_unix(c);
    conn_abort(c);
}

static bool accepted_some(void *arg) {
    return ((struct hall *)arg)->accepted > 0;
}

static void close_hall(struct hall *h) {
    listener_free(h->listener);
    loop_free(h->l);
}

static void port_0_gives_a_port_that_is_free_again_after(void **state) {
    (void)state;
    struct hall h = {.l = test_loop()};
    struct err err = {0};
    struct listener_options o = {.host = "localhost", .on_accept = on_accept, .arg = &h};
    assert_ok(listener_new(h.l, &o, &h.listener, &err), &err);
    o.port = listener_port(h.listener);
    assert_true(o.port > 0);
    struct listener *second = NULL;
    assert_err(listener_new(h.l, &o, &second, &err), ERR_EXISTS, &err, "port");
    listener_free(h.listener);
    assert_ok(listener_new(h.l, &o, &h.listener, &err), &err);
    close_hall(&h);
}

static void a_unix_path_is_served_with_its_mode_and_removed_after(void **state) {
    (void)state;
    char dir[] = "/tmp/snaffle-listener-XXXXXX";
    assert_non_null(mkdtemp(dir));
    AUTO_FREE char *path = mem_printf("%s/sock", dir);
    struct hall h = {.l = test_loop()};
    struct err err = {0};
    struct listener_options o = {.unix_path = path, .on_accept = on_accept, .arg = &h};
    struct stat st;
    int fd = -1;
    assert_ok(listener_new(h.l, &o, &h.listener, &err), &err);
    assert_int_equal(listener_port(h.listener), 0);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_ok(fd_connect_unix(path, &fd, &err), &err);
    assert_true(test_wait(h.l, accepted_some, &h));
    assert_true(h.is_unix);
    close(fd);
    close_hall(&h);
    assert_int_not_equal(access(path, F_OK), 0);
    rmdir(dir);
}

static void a_host_that_is_none_is_refused(void **state) {
    (void)state;
    struct hall h = {.l = test_loop()};
    struct err err = {0};
    struct listener_options o = {.host = "not a host", .on_accept = on_accept, .arg = &h};
    assert_err(listener_new(h.l, &o, &h.listener, &err), ERR_INPUT, &err, "'not a host'");
    loop_free(h.l);
}

static int64_t cpu_ms(void) {
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000 +
           (u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1000;
}

static void want_of_descriptors_refuses_a_client_and_does_not_spin(void **state) {
    (void)state;
    struct hall h = {.l = test_loop()};
    struct err err = {0};
    struct listener_options o = {.on_accept = on_accept, .arg = &h};
    assert_ok(listener_new(h.l, &o, &h.listener, &err), &err);
    struct rlimit before;
    getrlimit(RLIMIT_NOFILE, &before);
    struct rlimit low = {.rlim_cur = 256, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    int fds[256];
    int n = 0;
    int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    while ((fds[n] = dup(0)) >= 0) {
        n++;
    }
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(listener_port(h.listener))};
    struct timeval wait = {.tv_sec = TEST_WAIT_MS / 1000};
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
    assert_int_equal(connect(client, (struct sockaddr *)&a, sizeof a), 0);
    char byte;
    assert_int_equal(recv(client, &byte, 1, 0), 0); /* Closed, not left hanging. */
    int64_t cpu = cpu_ms();
    clock_sleep_ms(300);
    assert_true(cpu_ms() - cpu < 150); /* A spinning loop takes all of it. */
    close(client);
    while (n > 0) {
        close(fds[--n]);
    }
    setrlimit(RLIMIT_NOFILE, &before);
    assert_int_equal(h.accepted, 0);
    int fd = test_connect(listener_port(h.listener));
    assert_true(test_wait(h.l, accepted_some, &h));
    close(fd);
    close_hall(&h);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(port_0_gives_a_port_that_is_free_again_after),
    cmocka_unit_test(a_unix_path_is_served_with_its_mode_and_removed_after),
    cmocka_unit_test(a_host_that_is_none_is_refused),
    cmocka_unit_test(want_of_descriptors_refuses_a_client_and_does_not_spin),
};

RUN_TESTS(tests)
