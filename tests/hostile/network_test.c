/* SPDX-License-Identifier: BSD-3-Clause */
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <unistd.h>

#include "tests/hostile/hostile.h"
#include "tests/sandbox/greeter.h"

/* Agents that knock at the host's doors, in each kind of network. */

/* The host's doors: loopback of both families, an abstract unix socket, and an outer address. */
struct doors {
    struct greeter four, six, abstract, outer;
    unsigned four_port, six_port, outer_port;
    char name[64];
    char outer_address[INET_ADDRSTRLEN]; /* "": the machine has none. */
};

static void find_outer(char out[INET_ADDRSTRLEN]) {
    struct ifaddrs *all = NULL;
    out[0] = '\0';
    assert_int_equal(getifaddrs(&all), 0);
    for (struct ifaddrs *a = all; a && !out[0]; a = a->ifa_next) {
        if (a->ifa_addr && a->ifa_addr->sa_family == AF_INET && (a->ifa_flags & IFF_UP) &&
            !(a->ifa_flags & IFF_LOOPBACK)) {
            inet_ntop(AF_INET, &((struct sockaddr_in *)(void *)a->ifa_addr)->sin_addr, out,
                      INET_ADDRSTRLEN);
        }
    }
    freeifaddrs(all);
}

static void open_doors(struct doors *d) {
    struct in_addr loopback = {htonl(INADDR_LOOPBACK)}, outer;
    snprintf(d->name, sizeof d->name, "snaffle-hostile-%d", (int)getpid());
    d->four.fd = greeter_listen(loopback, &d->four_port);
    d->six.fd = greeter_listen_6("::1", &d->six_port);
    d->abstract.fd = greeter_listen_abstract(d->name);
    find_outer(d->outer_address);
    d->outer.fd = -1;
    if (inet_pton(AF_INET, d->outer_address, &outer) == 1) {
        d->outer.fd = greeter_listen(outer, &d->outer_port);
    }
    struct greeter *const all[] = {&d->four, &d->six, &d->abstract, &d->outer};
    static const char *const words[] = {"loopback", "loopback-6", "abstract", "outside"};
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        all[i]->word = words[i];
        if (all[i]->fd >= 0) {
            greeter_begin(all[i]);
        }
    }
}

static void close_doors(struct doors *d) {
    struct greeter *const all[] = {&d->four, &d->six, &d->abstract, &d->outer};
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        if (all[i]->fd >= 0) {
            greeter_end(all[i]);
        }
    }
}

/* Every way that leads, or might lead, to a door. */
static char *knocking(const struct doors *d) {
    const char *o = d->outer_address[0] ? d->outer_address : "127.0.0.1";
    return mem_printf("export TARGETS='127.0.0.1:%u 127.0.0.2:%u 0.0.0.0:%u ::ffff:127.0.0.1:%u "
                      "10.0.2.2:%u 10.0.2.3:%u 10.0.2.100:%u %s:%u ::1:%u :::%u fe80::1:%u "
                      "localhost:%u @%s %s:%u 127.0.0.1:7000'",
                      d->four_port, d->four_port, d->four_port, d->four_port, d->four_port,
                      d->four_port, d->four_port, o, d->four_port, d->six_port, d->six_port,
                      d->six_port, d->six_port, d->name, o, d->outer_port);
}

static void knock(struct ground *g, const char *network, const char *expect_outside) {
    struct doors d = {0};
    struct rollout_result r = {0};
    open_doors(&d);
    AUTO_FREE char *vars = knocking(&d);
    AUTO_FREE char *task =
        mem_printf("{'network': {'agent': '%s'}, 'limits': {'agent_s': 120}}", network);
    hostile_roll(g, "network_probe.py", vars, task, NULL, &r);
    close_doors(&d);
    hostile_assert_ok(&r, network);
    AUTO_FREE char *want =
        expect_outside && d.outer.fd >= 0
            ? mem_printf("%s:%u %s\n", d.outer_address, d.outer_port, expect_outside)
            : mem_strdup("");
    assert_string_equal(hostile_file(&r, "reached"), want);
    rollout_result_deinit(&r);
}

static void with_no_network_no_door_of_the_host_opens(void **state) {
    NEED_SANDBOX();
    knock(*state, "none", NULL);
}

static void with_the_model_alone_no_other_door_of_the_host_opens(void **state) {
    NEED_SANDBOX();
    knock(*state, "model", NULL);
}

static bool has_full(struct ground *g) {
    struct rollout_result r = {0};
    ground_roll(g, "{'instruction': 'true', 'network': {'agent': 'full'}}", NULL, &r);
    bool has = strcmp(r.status, "ok") == 0;
    if (!has) {
        print_message("# %s\n", r.error ? r.error : "");
    }
    rollout_result_deinit(&r);
    return has;
}

static void with_a_full_network_the_hosts_loopback_stays_shut(void **state) {
    NEED_SANDBOX();
    if (!has_full(*state)) {
        skip_because("this machine gives no full network");
    }
    knock(*state, "full", "outside");
}

struct twin {
    struct ground *g;
    const char *vars;
    char wrong[16];
};

static void *roll_twin(void *arg) {
    struct twin *t = arg;
    struct rollout_result r = {0};
    struct task task = {0};
    struct err err = {0};
    hostile_task("network_twins.py", t->vars,
                 "{'network': {'agent': 'full'}, 'limits': {'agent_s': 60}}", &task);
    if (rollout_run(ground_factory(t->g), &task, NULL, NULL, &r, &err) == 0) {
        snprintf(t->wrong, sizeof t->wrong, "%s", hostile_file(&r, "wrong"));
    }
    rollout_result_deinit(&r);
    task_deinit(&task);
    return NULL;
}

static void two_full_networks_at_once_do_not_collide(void **state) {
    NEED_SANDBOX();
    if (!has_full(*state)) {
        skip_because("this machine gives no full network");
    }
    char outer[INET_ADDRSTRLEN];
    find_outer(outer);
    AUTO_FREE char *vars = mem_printf("export OUTER='%s 10.0.2.2'", outer);
    struct twin twins[2] = {{.g = *state, .vars = vars}, {.g = *state, .vars = vars}};
    pthread_t threads[2];
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, roll_twin, &twins[i]), 0);
    }
    for (size_t i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        assert_string_equal(twins[i].wrong, "0\n");
    }
    assert_int_equal(ground_sandboxes(), 0);
}

static const struct CMUnitTest tests[] = {
    HOSTILE_CASE(with_no_network_no_door_of_the_host_opens),
    HOSTILE_CASE(with_the_model_alone_no_other_door_of_the_host_opens),
    HOSTILE_CASE(with_a_full_network_the_hosts_loopback_stays_shut),
    HOSTILE_CASE(two_full_networks_at_once_do_not_collide),
};

HOSTILE_MAIN(tests)
