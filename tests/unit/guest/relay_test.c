/* SPDX-License-Identifier: BSD-3-Clause */
#include "guest/relay.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "tests/unit/guest/guest_fixture.h"

/* The test stands at both ends: it connects as the agent would, and listens as the model does. */

struct ends {
    struct guest_fixture guest;
    int listen_fd;
};

static int setup(void **state) {
    struct ends *e = calloc(1, sizeof *e);
    struct err err = {0};
    *state = NULL;
    if (e) {
        e->listen_fd = -1;
    }
    if (!e ||
        !guest_fixture_start(&e->guest, &(struct guest_fixture_options){.with_model = true})) {
        free(e);
        return 0;
    }
    assert_ok(fd_listen_unix(e->guest.model, 128, 0666, &e->listen_fd, &err), &err);
    *state = e;
    return 0;
}

static int teardown(void **state) {
    struct ends *e = *state;
    if (e) {
        mem_auto_close(&e->listen_fd);
        guest_fixture_stop(&e->guest);
        free(e);
    }
    return 0;
}

static int agent_connect(const struct ends *e) {
    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_port = htons(e->guest.model_port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

static int model_accept(const struct ends *e) {
    struct pollfd p = {.fd = e->listen_fd, .events = POLLIN};
    assert_int_equal(poll(&p, 1, 10000), 1);
    int fd = accept4(e->listen_fd, NULL, NULL, SOCK_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

static void say(int fd, const char *text) {
    struct err err = {0};
    assert_ok(fd_write_all(fd, text, strlen(text), deadline_in_s(10), NULL, &err), &err);
}

static void hear(int fd, const char *text) {
    struct err err = {0};
    char got[256] = {0};
    assert_true(strlen(text) < sizeof got);
    assert_ok(fd_read_exact(fd, got, strlen(text), deadline_in_s(10), NULL, &err), &err);
    assert_string_equal(got, text);
}

static void hear_end(int fd) {
    struct err err = {0};
    char byte;
    assert_int_equal(fd_read_some(fd, &byte, 1, deadline_in_s(10), NULL, &err), 0);
}

static void hear_reset(int fd) {
    struct err err = {0};
    char byte;
    assert_int_equal(fd_read_some(fd, &byte, 1, deadline_in_s(10), NULL, &err), ERR_CLOSED);
    assert_int_equal(err.sys, ECONNRESET);
}

/* Whether a unix socket's peer closed whole; by half it would show no hang-up. */
static bool is_hung_up(int fd, int wait_ms) {
    struct pollfd p = {.fd = fd};
    return poll(&p, 1, wait_ms) == 1 && (p.revents & POLLHUP);
}

static void reset(int fd) {
    struct linger now = {.l_onoff = 1};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close(fd);
}

#define ENDS_OR_SKIP(state)                                                                        \
    if (!*(state)) {                                                                               \
        skip_because("bubblewrap cannot make a sandbox on this machine");                          \
    }                                                                                              \
    struct ends *e = *(state)

static void each_way_is_closed_by_itself(void **state) {
    ENDS_OR_SKIP(state);
    AUTO_CLOSE int agent = agent_connect(e);
    AUTO_CLOSE int model = model_accept(e);
    say(agent, "question");
    hear(model, "question");
    say(model, "part ");
    hear(agent, "part ");
    shutdown(agent, SHUT_WR);
    hear_end(model);
    assert_false(is_hung_up(model, 200));
    say(model, "answer");
    hear(agent, "answer");
    shutdown(model, SHUT_WR);
    hear_end(agent);
    assert_true(is_hung_up(model, 10000));
}

static void the_model_may_close_its_half_first(void **state) {
    ENDS_OR_SKIP(state);
    AUTO_CLOSE int agent = agent_connect(e);
    AUTO_CLOSE int model = model_accept(e);
    say(model, "answer");
    shutdown(model, SHUT_WR);
    hear(agent, "answer");
    hear_end(agent);
    say(agent, "still here");
    hear(model, "still here");
    shutdown(agent, SHUT_WR);
    hear_end(model);
}

static void a_model_that_closed_by_half_and_then_leaves_made_a_clean_end(void **state) {
    ENDS_OR_SKIP(state);
    AUTO_CLOSE int agent = agent_connect(e);
    int model = model_accept(e);
    say(model, "answer");
    shutdown(model, SHUT_WR);
    hear(agent, "answer");
    hear_end(agent);
    close(model);
    clock_sleep_ms(50);
    say(agent, "into the void");
    hear_end(agent);
}

static void a_reset_from_inside_is_no_clean_end_outside(void **state) {
    ENDS_OR_SKIP(state);
    for (int i = 0; i < 2; i++) {
        int agent = agent_connect(e);
        AUTO_CLOSE int model = model_accept(e);
        say(agent, "question");
        hear(model, "question");
        if (i == 1) { /* Bytes that the relay has not delivered turn it into a reset here too. */
            say(model, "answer");
            clock_sleep_ms(50);
        }
        reset(agent);
        assert_true(is_hung_up(model, 10000));
    }
}

static void a_model_that_breaks_off_resets_the_agent_after_what_it_sent(void **state) {
    ENDS_OR_SKIP(state);
    AUTO_CLOSE int agent = agent_connect(e);
    int model = model_accept(e);
    say(agent, "question");
    hear(model, "question");
    say(model, "half an answ");
    close(model);
    hear(agent, "half an answ");
    hear_reset(agent);
}

static void a_model_that_resets_resets_the_agent(void **state) {
    ENDS_OR_SKIP(state);
    AUTO_CLOSE int agent = agent_connect(e);
    int model = model_accept(e);
    say(agent, "never read");
    clock_sleep_ms(100);
    close(model); /* With unread bytes: the kernel's reset. */
    hear_reset(agent);
}

static void without_a_model_the_agent_is_reset(void **state) {
    ENDS_OR_SKIP(state);
    close(e->listen_fd);
    e->listen_fd = -1;
    for (int i = 0; i < 2; i++) {
        AUTO_CLOSE int agent = agent_connect(e);
        hear_reset(agent);
        unlink(e->guest.model);
    }
    struct err err = {0};
    assert_ok(fd_listen_unix(e->guest.model, 128, 0666, &e->listen_fd, &err), &err);
    AUTO_CLOSE int agent = agent_connect(e);
    AUTO_CLOSE int model = model_accept(e); /* A model that comes later is found. */
    say(agent, "there");
    hear(model, "there");
}

static void a_model_that_is_slow_to_accept_is_waited_for(void **state) {
    ENDS_OR_SKIP(state);
    int agents[12];
    assert_int_equal(listen(e->listen_fd, 1), 0);
    for (size_t i = 0; i < ARRAY_LEN(agents); i++) {
        agents[i] = agent_connect(e);
        say(agents[i], "x");
    }
    clock_sleep_ms(200);
    for (size_t i = 0; i < ARRAY_LEN(agents); i++) {
        AUTO_CLOSE int model = model_accept(e);
        hear(model, "x");
        shutdown(model, SHUT_WR);
        clock_sleep_ms(1);
    }
    for (size_t i = 0; i < ARRAY_LEN(agents); i++) {
        close(agents[i]);
    }
}

/* The byte at a place of a stream that no shift or loss leaves alike. */
static char pattern(size_t at) {
    return (char)(at * 2654435761u >> 13);
}

#define BULK (24u * 1024 * 1024)

static void *write_bulk(void *arg) {
    int fd = *(int *)arg;
    static char piece[65536];
    char *copy = malloc(sizeof piece);
    for (size_t at = 0; copy && at < BULK; at += sizeof piece) {
        for (size_t i = 0; i < sizeof piece; i++) {
            copy[i] = pattern(at + i);
        }
        if (fd_write_all(fd, copy, sizeof piece, deadline_in_s(30), NULL, NULL) < 0) {
            break;
        }
    }
    free(copy);
    shutdown(fd, SHUT_WR);
    return NULL;
}

static void *read_bulk(void *arg) {
    int fd = *(int *)arg;
    char piece[50000];
    size_t at = 0;
    ssize_t n;
    while ((n = fd_read_some(fd, piece, sizeof piece, deadline_in_s(30), NULL, NULL)) > 0) {
        for (ssize_t i = 0; i < n; i++) {
            if (piece[i] != pattern(at++)) {
                return (void *)1;
            }
        }
    }
    return n == 0 && at == BULK ? NULL : (void *)2;
}

static void much_goes_both_ways_at_once_unchanged(void **state) {
    ENDS_OR_SKIP(state);
    AUTO_CLOSE int agent = agent_connect(e);
    AUTO_CLOSE int model = model_accept(e);
    pthread_t threads[4];
    assert_int_equal(pthread_create(&threads[0], NULL, write_bulk, &agent), 0);
    assert_int_equal(pthread_create(&threads[1], NULL, write_bulk, &model), 0);
    assert_int_equal(pthread_create(&threads[2], NULL, read_bulk, &agent), 0);
    assert_int_equal(pthread_create(&threads[3], NULL, read_bulk, &model), 0);
    for (size_t i = 0; i < ARRAY_LEN(threads); i++) {
        void *fault = NULL;
        pthread_join(threads[i], &fault);
        assert_null(fault);
    }
}

static void a_reader_that_stalls_holds_the_writer_back_and_loses_nothing(void **state) {
    ENDS_OR_SKIP(state);
    AUTO_CLOSE int agent = agent_connect(e);
    AUTO_CLOSE int model = model_accept(e);
    long before = guest_fixture_resident_kb(&e->guest);
    struct err err = {0};
    assert_ok(fd_set_nonblocking(model, &err), &err);
    size_t sent = 0;
    char piece[4096];
    for (int idle = 0; idle < 20;) {
        for (size_t i = 0; i < sizeof piece; i++) {
            piece[i] = pattern(sent + i);
        }
        ssize_t n = write(model, piece, sizeof piece);
        idle = n < 0 ? idle + 1 : 0;
        sent += n > 0 ? (size_t)n : 0;
        clock_sleep_ms(n < 0 ? 10 : 0);
    }
    assert_true(sent < 32u * 1024 * 1024); /* The kernel's socket buffers take some megabytes. */
    long grown = guest_fixture_resident_kb(&e->guest) - before;
    if (grown > GUEST_FIXTURE_SLACK_KB) {
        fail_msg("grew by %ld KB", grown);
    }
    AUTO_CLOSE int other = agent_connect(e); /* Others are not held back. */
    AUTO_CLOSE int other_model = model_accept(e);
    say(other, "x");
    hear(other_model, "x");
    for (size_t at = 0; at < sent;) {
        ssize_t n = fd_read_some(agent, piece, sizeof piece, deadline_in_s(10), NULL, &err);
        assert_true(n > 0);
        for (ssize_t i = 0; i < n; i++) {
            assert_true(piece[i] == pattern(at++));
        }
    }
}

static void *echo(void *arg) {
    int fd = (int)(intptr_t)arg;
    char piece[1000];
    ssize_t n;
    while ((n = fd_read_some(fd, piece, sizeof piece, deadline_in_s(30), NULL, NULL)) > 0 &&
           fd_write_all(fd, piece, (size_t)n, deadline_in_s(30), NULL, NULL) == 0) {
    }
    shutdown(fd, SHUT_WR);
    char byte;
    while (read(fd, &byte, 1) > 0) {
    }
    close(fd);
    return NULL;
}

#define PARALLEL 64

static void connections_side_by_side_keep_their_own_bytes(void **state) {
    ENDS_OR_SKIP(state);
    int agents[PARALLEL];
    pthread_t threads[PARALLEL];
    for (size_t i = 0; i < PARALLEL; i++) {
        agents[i] = agent_connect(e);
        intptr_t model = model_accept(e);
        assert_int_equal(pthread_create(&threads[i], NULL, echo, (void *)model), 0);
    }
    for (int round = 0; round < 20; round++) {
        char text[64];
        for (size_t i = 0; i < PARALLEL; i++) {
            snprintf(text, sizeof text, "<%zu in round %d>", i, round);
            say(agents[i], text);
        }
        for (size_t i = PARALLEL; i-- > 0;) {
            snprintf(text, sizeof text, "<%zu in round %d>", i, round);
            hear(agents[i], text);
        }
    }
    for (size_t i = 0; i < PARALLEL; i++) {
        shutdown(agents[i], SHUT_WR);
        hear_end(agents[i]);
        close(agents[i]);
        pthread_join(threads[i], NULL);
    }
}

static void connections_that_come_and_go_leave_nothing(void **state) {
    ENDS_OR_SKIP(state);
    long before = guest_fixture_resident_kb(&e->guest);
    for (int i = 0; i < 1500; i++) {
        int agent = agent_connect(e);
        int model = model_accept(e);
        if (i % 3 == 0) {
            reset(agent);
            close(model);
        } else if (i % 3 == 1) {
            close(model);
            close(agent);
        } else {
            close(agent);
            hear_end(model);
            close(model);
        }
    }
    assert_true(guest_fixture_resident_kb(&e->guest) - before < GUEST_FIXTURE_SLACK_KB);
    clock_sleep_ms(100);
    AUTO_FREE char *path = mem_printf("/proc/%d/fd", (int)e->guest.pid);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    if (st.st_size > 0) { /* Kernels from 6.2 on count open files there. */
        assert_true(st.st_size < 20);
    }
}

#define relay_unit_test(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static const struct CMUnitTest tests[] = {
    relay_unit_test(each_way_is_closed_by_itself),
    relay_unit_test(the_model_may_close_its_half_first),
    relay_unit_test(a_model_that_closed_by_half_and_then_leaves_made_a_clean_end),
    relay_unit_test(a_reset_from_inside_is_no_clean_end_outside),
    relay_unit_test(a_model_that_breaks_off_resets_the_agent_after_what_it_sent),
    relay_unit_test(a_model_that_resets_resets_the_agent),
    relay_unit_test(without_a_model_the_agent_is_reset),
    relay_unit_test(a_model_that_is_slow_to_accept_is_waited_for),
    relay_unit_test(much_goes_both_ways_at_once_unchanged),
    relay_unit_test(a_reader_that_stalls_holds_the_writer_back_and_loses_nothing),
    relay_unit_test(connections_side_by_side_keep_their_own_bytes),
    relay_unit_test(connections_that_come_and_go_leave_nothing),
};

RUN_GUEST_TESTS(tests, /*only_init=*/0)
