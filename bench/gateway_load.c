/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The load maker of the gateway's bench: agents that each ask again as soon as they are answered,
 * and that compare every byte of their answers.
 *
 *     gateway_load PORT TOKEN CONNECTIONS SECONDS PROMPT_BYTES REQUEST ANSWER
 *
 * REQUEST: `asks` for log-probabilities and ids, or `plain`. ANSWER: `full`, `plain` (without those
 * fields), or `any` (only its end is looked for). Prints JSON.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gateway_answer.h"
#include "gateway_client.h"

#define WARM_UP_NS 200000000ll /* Connections made, caches filled; not counted. */
#define GRACE_NS 20000000000ll /* For the answers that are due at the end. */
#define CALLS_MAX (1u << 20)   /* Times kept of one run. */

struct agent {
    struct client client;
    size_t sent;
    bool is_counted; /* Began within the time that is measured. */
    long long asked_ns;
    long long first_ns;
};

static struct text request;
static struct answer expected;
static bool any_answer;
static int epoll_fd;
static long long measure_from, measure_to;
static unsigned begun, answered, wrong, under_way;
static unsigned counted;
static double *whole_us, *first_us;

static void ask(struct agent *a) {
    a->sent = 0;
    a->first_ns = 0;
    a->asked_ns = now_ns();
    a->is_counted = a->asked_ns >= measure_from;
    begun++;
    under_way++;
    client_begin_answer(&a->client);
}

/* Sends what the socket takes; asks for more room when it takes no more. */
static void send_on(struct agent *a) {
    while (a->sent < request.n) {
        ssize_t n = send(a->client.fd, request.p + a->sent, request.n - a->sent, MSG_NOSIGNAL);
        if (n < 0 && errno == EAGAIN) {
            client_watch(&a->client, epoll_fd, EPOLLIN | EPOLLOUT, a);
            return;
        }
        if (n < 0) {
            client_die("send");
        }
        a->sent += (size_t)n;
    }
    client_watch(&a->client, epoll_fd, EPOLLIN, a);
}

static bool is_right(const struct client *c) {
    if (any_answer) {
        return c->status == 200 && client_saw_done(c);
    }
    return c->status == 200 && !c->differs && c->payload_n == expected.all.n;
}

static void note_end(struct agent *a) {
    long long now = now_ns();
    under_way--;
    if (!is_right(&a->client)) {
        wrong++;
    } else {
        answered++;
    }
    if (a->is_counted && now <= measure_to && counted < CALLS_MAX) {
        whole_us[counted] = (double)(now - a->asked_ns) / 1e3;
        first_us[counted] = (double)(a->first_ns - a->asked_ns) / 1e3;
        counted++;
    }
}

static void on_payload(void *arg, const char *bytes, size_t n) {
    struct agent *a = arg;
    struct client *c = &a->client;
    if (a->first_ns == 0) {
        a->first_ns = now_ns();
    }
    if (!any_answer && (n > expected.all.n - c->payload_n ||
                        memcmp(expected.all.p + c->payload_n, bytes, n) != 0)) {
        c->differs = true;
        c->payload_n = 0; /* The bound above holds on. */
    }
}

static void on_ready(struct agent *a, uint32_t events) {
    if (events & EPOLLOUT) {
        send_on(a);
    }
    if (!(events & (EPOLLIN | EPOLLHUP | EPOLLERR))) {
        return;
    }
    enum client_read got = client_read(&a->client, on_payload, a);
    if (got == CLIENT_MORE) {
        return;
    }
    if (got == CLIENT_CLOSED) {
        a->client.status = 0; /* Cut off. */
    }
    note_end(a);
    if (got == CLIENT_CLOSED || a->client.closes) {
        client_reconnect(&a->client, epoll_fd, a);
    }
    if (now_ns() < measure_to) {
        ask(a);
        send_on(a);
    }
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static double share(double *values, double part) {
    return counted ? values[(size_t)(part * (counted - 1))] : 0;
}

static void report(double seconds) {
    qsort(whole_us, counted, sizeof *whole_us, by_size);
    qsort(first_us, counted, sizeof *first_us, by_size);
    printf("{\"begun\":%u,\"answered\":%u,\"wrong\":%u,\"unanswered\":%u,\"rps\":%.1f,"
           "\"p50_us\":%.1f,\"p99_us\":%.1f,\"ttft_p50_us\":%.1f,\"ttft_p99_us\":%.1f}\n",
           begun, answered, wrong, under_way, counted / seconds, share(whole_us, 0.5),
           share(whole_us, 0.99), share(first_us, 0.5), share(first_us, 0.99));
}

static struct text wire_request(const char *port, const char *token, const struct text *body) {
    struct text t = {.p = malloc(body->n + 512)};
    if (!t.p) {
        client_die("request");
    }
    int n = snprintf(t.p, 512,
                     "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:%s\r\n"
                     "Accept: application/json\r\nContent-Type: application/json\r\n"
                     "User-Agent: bench/1\r\nAuthorization: Bearer %s\r\n"
                     "Content-Length: %zu\r\n\r\n",
                     port, token, body->n);
    memcpy(t.p + n, body->p, body->n);
    t.n = (size_t)n + body->n;
    return t;
}

int main(int argc, char **argv) {
    if (argc != 8) {
        fprintf(stderr, "usage: gateway_load PORT TOKEN CONNECTIONS SECONDS PROMPT_BYTES "
                        "asks|plain full|plain|any\n");
        return 2;
    }
    unsigned n_agents = (unsigned)strtoul(argv[3], NULL, 10);
    double seconds = strtod(argv[4], NULL);
    size_t prompt = strtoul(argv[5], NULL, 10);
    struct text body = request_make(prompt, strcmp(argv[6], "asks") == 0);
    request = wire_request(argv[1], argv[2], &body);
    any_answer = strcmp(argv[7], "any") == 0;
    expected = answer_make(prompt, strcmp(argv[7], "full") == 0);
    struct agent *agents = calloc(n_agents, sizeof *agents);
    whole_us = calloc(CALLS_MAX, sizeof *whole_us);
    first_us = calloc(CALLS_MAX, sizeof *first_us);
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (!agents || !whole_us || !first_us || epoll_fd < 0) {
        client_die("start");
    }
    client_port = (uint16_t)strtoul(argv[1], NULL, 10);
    measure_from = now_ns() + WARM_UP_NS;
    measure_to = measure_from + (long long)(seconds * 1e9);
    for (unsigned i = 0; i < n_agents; i++) {
        client_connect(&agents[i].client, epoll_fd, &agents[i]);
        ask(&agents[i]);
        send_on(&agents[i]);
    }
    while (under_way > 0 && now_ns() < measure_to + GRACE_NS) {
        struct epoll_event ready[64];
        int n = epoll_wait(epoll_fd, ready, 64, 100);
        for (int i = 0; i < n; i++) {
            on_ready(ready[i].data.ptr, ready[i].events);
        }
    }
    report(seconds);
    return 0;
}
