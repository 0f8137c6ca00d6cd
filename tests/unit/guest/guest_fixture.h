/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_TESTS_GUEST_FIXTURE_H
#define SNAFFLE_TESTS_GUEST_FIXTURE_H

#include <stdbool.h>
#include <sys/types.h>

#include "sandbox/guest_client.h"
#include "tests/testing.h"

/*
 * A running guest for a test. The program is $SNAFFLE_GUEST. It is started either as pid 1 of a
 * bubblewrap sandbox or plainly, as an ordinary child; test programs get "pid1" or "plain" as their
 * argument and run the same cases for both. Commands find $SLEEP in their environment: a number of
 * seconds of this test program alone, by which its sleepers can be told from all others.
 */
struct guest_fixture {
    bool is_init;
    char dir[64]; /* Of the host: all below it goes at the end. */
    char program[80];
    char home[80];   /* The guest's own folder, seen from here. */
    char socket[80]; /* Where calls are made. */
    char model[80];  /* Where a test may listen as the model. */
    unsigned short model_port;
    int listen_fd;
    pid_t pid;
    struct guest_client client;
};

struct guest_fixture_options {
    bool with_model;        /* The relay listens. Plain: at a port of its own. */
    const char *silence_ms; /* NULL: the guest's default. */
    const char *processes;
};

/* False, with the reason told, when this machine cannot run it so. */
bool guest_fixture_start(struct guest_fixture *f, const struct guest_fixture_options *options);

/* The guest's own process, as the host knows it: as pid 1 it has bubblewrap for a parent. */
pid_t guest_fixture_guest_pid(const struct guest_fixture *f);
/* Memory, and how much more of it a test should not find: sanitizers keep what was freed. */
#ifdef __SANITIZE_ADDRESS__
#define GUEST_FIXTURE_SLACK_KB 65536
#else
#define GUEST_FIXTURE_SLACK_KB 1024
#endif
long guest_fixture_resident_kb(const struct guest_fixture *f);

/* The guest's exit status once it has ended: 128 + signal when killed. */
int guest_fixture_wait(struct guest_fixture *f);
void guest_fixture_stop(struct guest_fixture *f);

/* Makes a connection to the guest, for tests that write frames themselves. */
int guest_fixture_connect(struct guest_fixture *f);

/* For main: reads the argument. */
void guest_fixture_mode(int argc, char **argv);
bool guest_fixture_is_init(void);

int guest_fixture_setup(void **state);
int guest_fixture_teardown(void **state);

#define guest_unit_test(name)                                                                      \
    cmocka_unit_test_setup_teardown(name, guest_fixture_setup, guest_fixture_teardown)

#define GUEST_OR_SKIP(state)                                                                       \
    if (!*(state)) {                                                                               \
        skip_because("bubblewrap cannot make a sandbox on this machine");                          \
    }                                                                                              \
    struct guest_fixture *f = *(state);                                                            \
    struct err err = {0};                                                                          \
    (void)err

/* The last `only_init` of the tests hold for a guest as pid 1 and are not run for a plain one. */
#define RUN_GUEST_TESTS(tests, only_init)                                                          \
    int main(int argc, char **argv) {                                                              \
        guest_fixture_mode(argc, argv);                                                            \
        cmocka_set_message_output(CM_OUTPUT_TAP);                                                  \
        size_t n = sizeof(tests) / sizeof((tests)[0]);                                             \
        return _cmocka_run_group_tests(#tests, tests,                                              \
                                       guest_fixture_is_init() ? n : n - (only_init), NULL, NULL); \
    }

#endif
