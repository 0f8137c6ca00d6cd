/* SPDX-License-Identifier: BSD-3-Clause */
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "tests/sandbox/contract.h"
#include "tests/sandbox/greeter.h"
#include "tests/sandbox/local_world.h"

/* The three kinds of network, against servers of the host that say a word to whoever comes. */

/* What a server at host:port says to a program inside; "" when it can't be reached. */
static const char *heard(struct sandbox *s, const char *host, unsigned port) {
    AUTO_FREE char *shell = mem_printf(
        "timeout 2 bash -c 'exec 3<>/dev/tcp/%s/%u && cat <&3' 2>/dev/null; true", host, port);
    return contract_says(s, shell);
}

static int bind_model(struct sandbox *s) {
    struct err err = {0};
    int fd = -1;
    assert_non_null(sandbox_model_socket(s));
    assert_ok(fd_listen_unix(sandbox_model_socket(s), 16, 0666, &fd, &err), &err);
    return fd;
}

static void the_model_answers_at_its_port_and_only_where_asked(void **state) {
    (void)state;
    struct sandbox_spec spec = {
        .owner = "test", .run = CONTRACT_RUN, .rollout = "net", .network = SANDBOX_NETWORK_MODEL};
    struct sandbox *s = contract_make(&spec);
    struct err err = {0};
    assert_string_equal(heard(s, "127.0.0.1", SANDBOX_MODEL_PORT), "");
    /* Bound after the start. */
    struct greeter model = {.fd = bind_model(s), .word = "model"};
    greeter_begin(&model);
    assert_string_equal(heard(s, "127.0.0.1", SANDBOX_MODEL_PORT), "model");
    /* Before the restart. */
    assert_ok(sandbox_restart(s, &spec, deadline_in_s(PATIENCE_S), NULL, &err), &err);
    assert_string_equal(heard(s, "127.0.0.1", SANDBOX_MODEL_PORT), "model");
    spec.network = SANDBOX_NETWORK_NONE;
    assert_ok(sandbox_restart(s, &spec, deadline_in_s(PATIENCE_S), NULL, &err), &err);
    assert_string_equal(heard(s, "127.0.0.1", SANDBOX_MODEL_PORT), "");
    assert_string_equal(contract_says(s, "ls /run/snaffle 2>/dev/null; echo end"), "end\n");
    greeter_end(&model);
    contract_end(s);
}

static void a_place_without_network_reaches_nothing_of_the_host(void **state) {
    (void)state;
    unsigned port = 0;
    struct in_addr loopback = {htonl(INADDR_LOOPBACK)};
    struct greeter local = {.fd = greeter_listen(loopback, &port), .word = "host"};
    greeter_begin(&local);
    struct sandbox *s = contract_shared();
    assert_string_equal(heard(s, "127.0.0.1", port), "");
    assert_string_equal(contract_says(s, "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '"),
                        "lo\n");
    assert_string_equal(
        contract_says(s, "cat /proc/net/unix | grep -c '@'; wc -l </proc/net/route"), "0\n1\n");
    greeter_end(&local);
}

/* An address of this machine that is not loopback; false when it has none. */
static bool outer_address(struct in_addr *out) {
    struct ifaddrs *all = NULL;
    bool found = false;
    if (getifaddrs(&all) < 0) {
        return false;
    }
    for (struct ifaddrs *a = all; a && !found; a = a->ifa_next) {
        if (a->ifa_addr && a->ifa_addr->sa_family == AF_INET && (a->ifa_flags & IFF_UP) &&
            !(a->ifa_flags & IFF_LOOPBACK)) {
            *out = ((struct sockaddr_in *)(void *)a->ifa_addr)->sin_addr;
            found = true;
        }
    }
    freeifaddrs(all);
    return found;
}

static void a_full_network_reaches_out_but_never_the_hosts_loopback(void **state) {
    (void)state;
    struct sandbox_spec spec = {
        .owner = "test", .run = CONTRACT_RUN, .rollout = "net", .network = SANDBOX_NETWORK_FULL};
    struct sandbox *s = NULL;
    struct err err = {0};
    contract_shared();
    int r = sandbox_create(contract_backend, &spec, deadline_in_s(PATIENCE_S), NULL, &s, &err);
    if (r == ERR_ENVIRONMENT) {
        skip_because("%s", err.msg);
    }
    assert_ok(r, &err);
    unsigned port = 0;
    struct in_addr loopback = {htonl(INADDR_LOOPBACK)};
    struct greeter local = {.fd = greeter_listen(loopback, &port), .word = "host"};
    greeter_begin(&local);
    static const char *const ways[] = {"127.0.0.1", "10.0.2.2", "10.0.2.3", "10.0.2.100",
                                       "127.0.0.2"};
    for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
        assert_string_equal(heard(s, ways[i], port), "");
    }
    struct in_addr outer;
    if (outer_address(&outer)) {
        char text[INET_ADDRSTRLEN];
        unsigned outer_port = 0;
        inet_ntop(AF_INET, &outer, text, sizeof text);
        struct greeter outside = {.fd = greeter_listen(outer, &outer_port), .word = "outside"};
        greeter_begin(&outside);
        assert_string_equal(heard(s, text, outer_port), "outside");
        assert_string_equal(heard(s, text, port), "");
        greeter_end(&outside);
    }
    struct greeter model = {.fd = bind_model(s), .word = "model"};
    greeter_begin(&model);
    assert_string_equal(heard(s, "127.0.0.1", SANDBOX_MODEL_PORT), "model");
    greeter_end(&model);
    greeter_end(&local);
    assert_true(world_children_named("/proc/self/fd/4") > 0);
    contract_end(s);
    assert_int_equal(world_children_named("/proc/self/fd/4"), 0);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(the_model_answers_at_its_port_and_only_where_asked),
    cmocka_unit_test(a_place_without_network_reaches_nothing_of_the_host),
    cmocka_unit_test(a_full_network_reaches_out_but_never_the_hosts_loopback),
};

int main(int argc, char **argv) {
    world_enter(argc > 1 && strcmp(argv[1], "--as-user") == 0);
    int failed = contract_run_cases(&sandbox_local, cases, ARRAY_LEN(cases));
    return world_leave() ? failed : 1;
}
