/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The load maker of the server's bench: clients that send one request again and again, each as soon
 * as it is answered, over connections that are kept.
 *
 *     server_load PORT CONNECTIONS SECONDS <REQUEST
 *
 * Every answer has to be a 200 with as many bytes as the first had. Prints JSON.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "gateway_answer.h"
#include "gateway_client.h"

#define REQUEST_MAX 65536u
#define WARM_UP_NS 200000000ll /* Connections made, caches filled; not counted. */
#define GRACE_NS 10000000000ll /* For the answers that are due at the end. */
#define CALLS_MAX (1u << 22)   /* Times kept of one run. */

struct asker {
    struct client client;
    long long asked_ns;
};

static char request[REQUEST_MAX];
static size_t request_n, answer_n;
static int epoll_fd;
static long long measure_from, measure_to;
static unsigned answered, wrong, under_way, counted;
static double *took_us;

/* A socket's buffer takes a whole request. */
static void ask(struct asker *a) {
    client_begin_answer(&a->client);
    a->asked_ns = now_ns();
    under_way++;
    if (send(a->client.fd, request, request_n, MSG_NOSIGNAL) != (ssize_t)request_n) {
        client_die("send");
    }
}

static void on_payload(void *arg, const char *bytes, size_t n) {
    (void)arg;
    (void)bytes;
    (void)n;
}

static void note(struct asker *a, bool is_whole) {
    long long now = now_ns();
    under_way--;
    answer_n = answer_n ? answer_n : a->client.payload_n;
    bool is_right = is_whole && a->client.status == 200 && a->client.payload_n == answer_n;
    answered += is_right;
    wrong += !is_right;
    if (a->asked_ns >= measure_from && now <= measure_to && counted < CALLS_MAX) {
        took_us[counted++] = (double)(now - a->asked_ns) / 1e3;
    }
}

static void on_ready(struct asker *a) {
    enum client_read got = client_read(&a->client, on_payload, a);
    if (got == CLIENT_MORE) {
        return;
    }
    note(a, got == CLIENT_WHOLE);
    if (got == CLIENT_CLOSED || a->client.closes) {
        client_reconnect(&a->client, epoll_fd, a);
    }
    if (now_ns() < measure_to) {
        ask(a);
    }
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static double share(double part) {
    return counted ? took_us[(size_t)(part * (counted - 1))] : 0;
}

int main(int argc, char **argv) {
    if (argc != 4) {
        fprintf(stderr, "usage: server_load PORT CONNECTIONS SECONDS <REQUEST\n");
        return 2;
    }
    unsigned n = (unsigned)strtoul(argv[2], NULL, 10);
    double seconds = strtod(argv[3], NULL);
    struct asker *askers = calloc(n, sizeof *askers);
    took_us = calloc(CALLS_MAX, sizeof *took_us);
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    request_n = fread(request, 1, sizeof request, stdin);
    if (!askers || !took_us || epoll_fd < 0 || request_n == 0 || request_n == sizeof request) {
        client_die("start");
    }
    client_port = (uint16_t)strtoul(argv[1], NULL, 10);
    measure_from = now_ns() + WARM_UP_NS;
    measure_to = measure_from + (long long)(seconds * 1e9);
    for (unsigned i = 0; i < n; i++) {
        client_connect(&askers[i].client, epoll_fd, &askers[i]);
        ask(&askers[i]);
    }
    while (under_way > 0 && now_ns() < measure_to + GRACE_NS) {
        struct epoll_event ready[64];
        int got = epoll_wait(epoll_fd, ready, 64, 100);
        for (int i = 0; i < got; i++) {
            on_ready(ready[i].data.ptr);
        }
    }
    qsort(took_us, counted, sizeof *took_us, by_size);
    printf("{\"answered\":%u,\"wrong\":%u,\"unanswered\":%u,\"rps\":%.1f,\"p50_us\":%.1f,"
           "\"p99_us\":%.1f}\n",
           answered, wrong, under_way, counted / seconds, share(0.5), share(0.99));
    return 0;
}
