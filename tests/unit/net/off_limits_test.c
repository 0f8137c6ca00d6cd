/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/off_limits.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include "tests/testing.h"

static bool judged(const char *text) {
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    if (inet_pton(AF_INET, text, &v4.sin_addr) == 1) {
        return address_is_off_limits((const struct sockaddr *)&v4);
    }
    assert_int_equal(inet_pton(AF_INET6, text, &v6.sin6_addr), 1);
    return address_is_off_limits((const struct sockaddr *)&v6);
}

static void link_local_addresses_and_those_of_clouds_are(void **state) {
    static const char *const bad[] = {
        "169.254.0.0", "169.254.169.254", "169.254.255.255", "100.100.100.200", "168.63.129.16",
        "192.0.0.192", "fe80::1",         "febf:ffff::1",    "fd00:ec2::254",   "fd20:ce::254",
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (!judged(bad[i])) {
            fail_msg("%s was let through", bad[i]);
        }
    }
}

static void so_are_those_that_carry_one(void **state) {
    static const char *const bad[] = {
        "::ffff:169.254.169.254", "::ffff:0:169.254.1.1", "::169.254.1.1",
        "64:ff9b::a9fe:a9fe",     "64:ff9b:1::a9fe:a9fe", "2002:a9fe:a9fe::1",
        "::ffff:100.100.100.200", "64:ff9b::6464:64c8",   "2002:a83f:8110::1",
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (!judged(bad[i])) {
            fail_msg("%s was let through", bad[i]);
        }
    }
}

static void neighbours_are_not(void **state) {
    static const char *const good[] = {
        "127.0.0.1",
        "10.0.0.1",
        "169.253.255.255",
        "169.255.0.0",
        "100.100.100.1",
        "168.63.129.17",
        "0.0.0.0",
        "255.255.255.255",
        "::1",
        "::",
        "fec0::1",
        "fe00::1",
        "fd00:ec3::254",
        "::ffff:169.255.0.1",
        "2002:a9ff::1",
        "64:ff9b::808:808",
        "2001:db8::a9fe:a9fe",
    };
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        if (judged(good[i])) {
            fail_msg("%s was refused", good[i]);
        }
    }
}

static void a_socket_of_another_kind_is_not(void **state) {
    struct sockaddr a = {.sa_family = AF_UNIX};
    (void)state;
    assert_false(address_is_off_limits(&a));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(link_local_addresses_and_those_of_clouds_are),
    cmocka_unit_test(so_are_those_that_carry_one),
    cmocka_unit_test(neighbours_are_not),
    cmocka_unit_test(a_socket_of_another_kind_is_not),
};

RUN_TESTS(tests)
