/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The engine of the gateway's bench: answers each request from memory.
 *
 *     gateway_engine                              whole answers, at once
 *     gateway_engine PERIOD_MS EVENTS             one event each PERIOD_MS, stamped with the time
 *
 * Prints its port, and serves until its standard input ends. One thread, epoll.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "gateway_answer.h"

#define READ_MAX (256u * 1024)
#define HEAD_MAX 8192u
#define BACKLOG 4096
#define BATCH 256

/* Prompts come in a few sizes; requests within the same size get the same answer. */
static const size_t sizes[] = {4u << 10, 100u << 10, 1u << 20};
#define N_SIZES (sizeof sizes / sizeof sizes[0])

struct peer {
    int fd;
    char head[HEAD_MAX]; /* Of the request; body bytes are only counted. */
    size_t head_n;
    bool in_body;
    size_t left;
    const struct text *out; /* The answer that is being sent. */
    size_t sent;
    bool waits; /* For room in the socket. */
    /* Paced streams, in the order in which they are due. */
    struct peer *next;
    bool is_paced;
    bool is_gone;
    long long due_ns;
    long events_left;
};

static int epoll_fd;
static struct text answers[N_SIZES];
static long long period_ns;
static long n_events;
static struct peer *first_due;
static struct peer **last_due = &first_due;
static char read_buffer[READ_MAX];

static void die(const char *what) {
    fprintf(stderr, "gateway_engine: %s: %s\n", what, strerror(errno));
    exit(1);
}

static const struct text *answer_for(size_t request_bytes) {
    size_t i = 0;
    while (i + 1 < N_SIZES && request_bytes >= sizes[i]) {
        i++;
    }
    return &answers[i];
}

static void append(struct text *t, const char *bytes, size_t n) {
    t->p = realloc(t->p, t->n + n);
    if (!t->p) {
        die("answers");
    }
    memcpy(t->p + t->n, bytes, n);
    t->n += n;
}

/* With head and chunks: one an event, as uvicorn writes them. */
static void make_answers(void) {
    static const char head[] = "HTTP/1.1 200 OK\r\ndate: Mon, 30 Nov 2026 05:00:00 GMT\r\n"
                               "server: uvicorn\r\n"
                               "content-type: text/event-stream; charset=utf-8\r\n"
                               "transfer-encoding: chunked\r\n\r\n";
    static const size_t prompts[N_SIZES] = {1000, 30000, 300000};
    for (size_t i = 0; i < N_SIZES; i++) {
        struct answer a = answer_make(prompts[i], true);
        append(&answers[i], head, sizeof head - 1);
        for (size_t e = 0, at = 0; e < ANSWER_EVENTS; at = a.ends[e++]) {
            char line[32];
            int n = snprintf(line, sizeof line, "%zx\r\n", a.ends[e] - at);
            append(&answers[i], line, (size_t)n);
            append(&answers[i], a.all.p + at, a.ends[e] - at);
            append(&answers[i], "\r\n", 2);
        }
        append(&answers[i], "0\r\n\r\n", 5);
        free(a.all.p);
    }
}

static void watch(struct peer *p, uint32_t events) {
    struct epoll_event e = {.events = events, .data.ptr = p};
    if (epoll_ctl(epoll_fd, EPOLL_CTL_MOD, p->fd, &e) < 0) {
        die("epoll");
    }
}

/* A paced stream is freed when its turn comes. */
static void drop(struct peer *p) {
    close(p->fd);
    if (p->is_paced) {
        p->is_gone = true;
    } else {
        free(p);
    }
}

/* false: the peer is gone. */
static bool send_on(struct peer *p) {
    while (p->out) {
        ssize_t n = send(p->fd, p->out->p + p->sent, p->out->n - p->sent, MSG_NOSIGNAL);
        if (n < 0 && errno == EAGAIN) {
            if (!p->waits) {
                p->waits = true;
                watch(p, EPOLLIN | EPOLLOUT);
            }
            return true;
        }
        if (n < 0) {
            drop(p);
            return false;
        }
        p->sent += (size_t)n;
        if (p->sent == p->out->n) {
            p->out = NULL;
        }
    }
    if (p->waits) {
        p->waits = false;
        watch(p, EPOLLIN);
    }
    return true;
}

static void put_due(struct peer *p) {
    p->next = NULL;
    *last_due = p;
    last_due = &p->next;
}

/* One stamped event as a chunk; an idle bench has some bytes in flight, never a full socket. */
static bool send_event(struct peer *p, const char *front) {
    char event[EVENT_MAX];
    char out[EVENT_MAX + 512];
    bool is_last = --p->events_left == 0;
    size_t n = event_make(event, now_ns(), is_last);
    int m = snprintf(out, sizeof out, "%s%zx\r\n%.*s\r\n%s", front, n, (int)n, event,
                     is_last ? "0\r\n\r\n" : "");
    return send(p->fd, out, (size_t)m, MSG_NOSIGNAL) == m;
}

static void start_pacing(struct peer *p) {
    p->events_left = n_events;
    p->due_ns = now_ns() + period_ns;
    p->is_paced = true;
    if (!send_event(p, "HTTP/1.1 200 OK\r\nserver: uvicorn\r\n"
                       "content-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")) {
        drop(p);
    }
    put_due(p);
}

/* Sends what is due, and waits for the next or for the network. */
static int wait_ready(struct epoll_event *ready) {
    long long now = now_ns();
    while (first_due && first_due->due_ns <= now) {
        struct peer *p = first_due;
        first_due = p->next;
        last_due = first_due ? last_due : &first_due;
        if (p->is_gone) {
            free(p);
        } else if (p->events_left == 0) {
            p->is_paced = false; /* Another request may come. */
        } else {
            p->due_ns += period_ns;
            if (!send_event(p, "")) {
                drop(p);
            }
            put_due(p);
        }
        now = now_ns();
    }
    long long left = first_due ? first_due->due_ns - now : 0;
    struct timespec wait = {left / 1000000000, left % 1000000000};
    return epoll_pwait2(epoll_fd, ready, BATCH, first_due ? &wait : NULL, NULL);
}

/* The value of Content-Length in a whole head; 0 without. */
static size_t content_length(const char *head) {
    const char *at = strcasestr(head, "\r\ncontent-length:");
    return at ? strtoul(at + sizeof "\r\ncontent-length:" - 1, NULL, 10) : 0;
}

/* Takes bytes of a head; how many of them belong to it. */
static size_t take_head(struct peer *p, const char *in, size_t n) {
    size_t room = HEAD_MAX - 1 - p->head_n;
    size_t took = n < room ? n : room;
    memcpy(p->head + p->head_n, in, took);
    p->head[p->head_n + took] = '\0';
    size_t from = p->head_n > 3 ? p->head_n - 3 : 0;
    const char *end = strstr(p->head + from, "\r\n\r\n");
    if (!end) {
        p->head_n += took;
        return took;
    }
    size_t whole = (size_t)(end + 4 - p->head);
    took = whole - p->head_n;
    p->head[whole] = '\0';
    p->head_n = whole;
    p->in_body = true;
    p->left = content_length(p->head);
    return took;
}

/* false: the peer is gone. */
static bool take(struct peer *p, const char *in, size_t n) {
    while (n > 0 || (p->in_body && p->left == 0)) {
        if (!p->in_body) {
            size_t took = take_head(p, in, n);
            in += took;
            n -= took;
            continue;
        }
        size_t took = n < p->left ? n : p->left;
        in += took;
        n -= took;
        p->left -= took;
        if (p->left > 0) {
            continue;
        }
        p->in_body = false;
        size_t body = content_length(p->head);
        p->head_n = 0;
        if (period_ns > 0) {
            start_pacing(p);
            return !p->is_gone;
        }
        p->out = answer_for(body);
        p->sent = 0;
        if (!send_on(p)) {
            return false;
        }
    }
    return true;
}

static void on_ready(struct peer *p, uint32_t events) {
    if (p->is_gone || ((events & EPOLLOUT) && !send_on(p))) {
        return;
    }
    if (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
        ssize_t n = recv(p->fd, read_buffer, sizeof read_buffer, 0);
        if (n > 0 && take(p, read_buffer, (size_t)n) && p->in_body) {
            /* More is to come: without this a sender that lets small writes wait for the
             * acknowledgement (nginx, a body from a file) would stall for 40 ms. */
            int one = 1;
            (void)setsockopt(p->fd, IPPROTO_TCP, TCP_QUICKACK, &one, sizeof one);
        } else if (n == 0 || (n < 0 && errno != EAGAIN)) {
            drop(p);
        }
    }
}

static void accept_all(int listener) {
    int fd;
    while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        int one = 1;
        struct peer *p = calloc(1, sizeof *p);
        struct epoll_event e = {.events = EPOLLIN, .data.ptr = p};
        if (!p || setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) < 0 ||
            epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &e) < 0) {
            die("accept");
        }
        p->fd = fd;
    }
}

static int listen_any(void) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&at, n) < 0 || listen(fd, BACKLOG) < 0 ||
        getsockname(fd, (struct sockaddr *)&at, &n) < 0) {
        die("listen");
    }
    printf("%u\n", ntohs(at.sin_port));
    fflush(stdout);
    return fd;
}

int main(int argc, char **argv) {
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    if (argc == 3) {
        period_ns = strtoll(argv[1], NULL, 10) * 1000000;
        n_events = strtol(argv[2], NULL, 10);
    }
    make_answers();
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    int listener = listen_any();
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = &listener};
    struct epoll_event in = {.events = EPOLLIN | EPOLLHUP, .data.ptr = NULL};
    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, listener, &e) < 0 ||
        epoll_ctl(epoll_fd, EPOLL_CTL_ADD, STDIN_FILENO, &in) < 0) {
        die("epoll");
    }
    for (;;) {
        struct epoll_event ready[BATCH];
        int n = wait_ready(ready);
        for (int i = 0; i < n; i++) {
            if (!ready[i].data.ptr) {
                return 0;
            }
            if (ready[i].data.ptr == &listener) {
                accept_all(listener);
            } else {
                on_ready(ready[i].data.ptr, ready[i].events);
            }
        }
    }
}
