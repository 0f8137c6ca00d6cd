/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Many slow streams at once: how late each stamped event of the engine comes.
 *
 *     gateway_paced PORT TOKEN STREAMS EVENTS PERIOD_MS PROMPT_BYTES asks|plain
 *
 * Streams are opened evenly over one period. Prints "open" once all have their first event, and
 * JSON at the end.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gateway_answer.h"
#include "gateway_client.h"

#define MARK_N (sizeof EVENT_MARK - 1)
#define CARRY_MAX (MARK_N + STAMP_DIGITS)
#define LATE_BUCKETS 100000u /* Of ten microseconds: a second in all. */
#define BUCKET_NS 10000
#define GRACE_NS 30000000000ll

struct stream {
    struct client client;
    char carry[CARRY_MAX * 2]; /* The end of the bytes before, where a mark may be cut. */
    size_t carry_n;
    unsigned events;
};

static int epoll_fd;
static struct text request;
static unsigned n_open, n_whole, n_cut;
static unsigned long long n_late, late[LATE_BUCKETS];
static long long latest_ns;

static void note_late(const char *digits, long long now) {
    char hex[STAMP_DIGITS + 1] = "";
    memcpy(hex, digits, STAMP_DIGITS);
    long long ns = now - (long long)strtoull(hex, NULL, 16);
    unsigned at = ns < 0 ? 0 : (unsigned)(ns / BUCKET_NS);
    late[at < LATE_BUCKETS ? at : LATE_BUCKETS - 1]++;
    latest_ns = ns > latest_ns ? ns : latest_ns;
    n_late++;
}

/* Finds whole stamps; gives how many bytes at the end must be looked at again. */
static size_t find_stamps(struct stream *s, const char *p, size_t n, long long now) {
    const char *end = p + n;
    for (;;) {
        const char *mark = memmem(p, (size_t)(end - p), EVENT_MARK, MARK_N);
        if (!mark) {
            size_t left = (size_t)(end - p);
            return left < MARK_N - 1 ? left : MARK_N - 1;
        }
        if ((size_t)(end - mark) < MARK_N + STAMP_DIGITS) {
            return (size_t)(end - mark);
        }
        note_late(mark + MARK_N, now);
        n_open += s->events++ == 0;
        p = mark + MARK_N + STAMP_DIGITS;
    }
}

static void on_payload(void *arg, const char *bytes, size_t n) {
    struct stream *s = arg;
    long long now = now_ns();
    if (s->carry_n > 0) { /* As much of the new bytes as a cut mark can need. */
        size_t more = n < CARRY_MAX ? n : CARRY_MAX;
        size_t before = s->carry_n;
        memcpy(s->carry + before, bytes, more);
        size_t left = find_stamps(s, s->carry, before + more, now);
        size_t used = before + more - left;
        if (used <= before) { /* Still cut, and all that came is in the carry. */
            memmove(s->carry, s->carry + used, left);
            s->carry_n = left < CARRY_MAX ? left : 0;
            return;
        }
        bytes += used - before;
        n -= used - before;
    }
    size_t left = find_stamps(s, bytes, n, now);
    memcpy(s->carry, bytes + n - left, left);
    s->carry_n = left;
}

static void finish(struct stream *s, bool is_whole) {
    close(s->client.fd);
    n_whole += is_whole;
    n_cut += !is_whole;
}

static void wait_some(int ms) {
    struct epoll_event ready[256];
    int n = epoll_wait(epoll_fd, ready, 256, ms);
    for (int i = 0; i < n; i++) {
        struct stream *s = ready[i].data.ptr;
        enum client_read got = client_read(&s->client, on_payload, s);
        if (got != CLIENT_MORE) {
            finish(s,
                   got == CLIENT_WHOLE && s->client.status == 200 && client_saw_done(&s->client));
        }
    }
}

static void open_stream(struct stream *s) {
    client_connect(&s->client, epoll_fd, s);
    client_begin_answer(&s->client);
    for (size_t sent = 0; sent < request.n;) {
        ssize_t n = send(s->client.fd, request.p + sent, request.n - sent, MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN) {
            client_die("send");
        }
        sent += n > 0 ? (size_t)n : 0;
        if (n < 0) {
            wait_some(1);
        }
    }
}

static double late_us(double part) {
    unsigned long long want = (unsigned long long)(part * (double)n_late);
    unsigned i = 0;
    for (unsigned long long seen = 0; i < LATE_BUCKETS - 1 && (seen += late[i]) <= want; i++) {
    }
    return (double)(i + 1) * BUCKET_NS / 1e3;
}

static void make_request(const char *token, size_t prompt_bytes, bool asks) {
    struct text body = request_make(prompt_bytes, asks);
    request.p = malloc(body.n + 512);
    if (!request.p) {
        client_die("request");
    }
    int n = snprintf(request.p, 512,
                     "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                     "Content-Type: application/json\r\nAuthorization: Bearer %s\r\n"
                     "Content-Length: %zu\r\n\r\n",
                     token, body.n);
    memcpy(request.p + n, body.p, body.n);
    request.n = (size_t)n + body.n;
}

int main(int argc, char **argv) {
    if (argc != 8) {
        fprintf(stderr, "usage: gateway_paced PORT TOKEN STREAMS EVENTS PERIOD_MS PROMPT_BYTES "
                        "asks|plain\n");
        return 2;
    }
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    unsigned n_streams = (unsigned)strtoul(argv[3], NULL, 10);
    long long events = strtoll(argv[4], NULL, 10);
    long long period_ns = strtoll(argv[5], NULL, 10) * 1000000;
    make_request(argv[2], strtoul(argv[6], NULL, 10), strcmp(argv[7], "asks") == 0);
    client_port = (uint16_t)strtoul(argv[1], NULL, 10);
    struct stream *streams = calloc(n_streams, sizeof *streams);
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (!streams || epoll_fd < 0) {
        client_die("start");
    }
    long long began = now_ns();
    for (unsigned i = 0; i < n_streams; i++) {
        while (now_ns() - began < period_ns / n_streams * i) {
            wait_some(1);
        }
        open_stream(&streams[i]);
    }
    long long until = now_ns() + period_ns * events + GRACE_NS;
    for (bool told = false; n_whole + n_cut < n_streams && now_ns() < until;) {
        if (!told && n_open == n_streams) {
            printf("open\n");
            fflush(stdout);
            told = true;
        }
        wait_some(100);
    }
    printf("{\"begun\":%u,\"answered\":%u,\"cut\":%u,\"events\":%llu,\"p50_us\":%.0f,"
           "\"p99_us\":%.0f,\"max_us\":%.0f}\n",
           n_streams, n_whole, n_cut, n_late, late_us(0.5), late_us(0.99), (double)latest_ns / 1e3);
    return 0;
}
