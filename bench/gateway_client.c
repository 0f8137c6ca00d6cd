/* SPDX-License-Identifier: BSD-3-Clause */
#include "gateway_client.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define READ_MAX (256u * 1024)

enum { IN_HEAD, IN_SIZE, IN_DATA, IN_DATA_END, IN_LAST, AT_END };

uint16_t client_port;
static char read_buffer[READ_MAX];

void client_die(const char *what) {
    fprintf(stderr, "gateway bench: %s: %s\n", what, strerror(errno));
    exit(1);
}

void client_connect(struct client *c, int epoll_fd, void *owner) {
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons(client_port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int one = 1;
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (c->fd < 0 || connect(c->fd, (struct sockaddr *)&at, sizeof at) < 0 ||
        setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) < 0 ||
        fcntl(c->fd, F_SETFL, O_NONBLOCK) < 0) {
        client_die("connect");
    }
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = owner};
    c->watched = EPOLLIN;
    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, c->fd, &e) < 0) {
        client_die("epoll");
    }
}

void client_reconnect(struct client *c, int epoll_fd, void *owner) {
    close(c->fd);
    client_connect(c, epoll_fd, owner);
}

void client_watch(struct client *c, int epoll_fd, uint32_t events, void *owner) {
    struct epoll_event e = {.events = events, .data.ptr = owner};
    if (c->watched != events && epoll_ctl(epoll_fd, EPOLL_CTL_MOD, c->fd, &e) < 0) {
        client_die("epoll");
    }
    c->watched = events;
}

void client_begin_answer(struct client *c) {
    c->state = IN_HEAD;
    c->head_n = c->payload_n = c->left = 0;
    c->status = 0;
    c->differs = c->closes = c->is_chunked = c->until_close = false;
    memset(c->tail, 0, sizeof c->tail);
}

bool client_saw_done(const struct client *c) {
    return memmem(c->tail, sizeof c->tail, "[DONE]", 6) != NULL;
}

static void read_head(struct client *c) {
    const char *length = strcasestr(c->head, "\r\ncontent-length:");
    c->status = c->head_n > 12 ? (int)strtol(c->head + 9, NULL, 10) : 0;
    c->closes = strcasestr(c->head, "\r\nconnection: close") != NULL;
    c->is_chunked = strcasestr(c->head, "\r\ntransfer-encoding: chunked") != NULL;
    c->until_close = !c->is_chunked && !length;
    c->left = length ? strtoul(length + sizeof "\r\ncontent-length:" - 1, NULL, 10) : 0;
    c->state = c->is_chunked ? IN_SIZE : c->until_close || c->left > 0 ? IN_DATA : AT_END;
}

/* How many of the bytes belong to the head. */
static size_t take_head(struct client *c, const char *in, size_t n) {
    size_t room = CLIENT_HEAD_MAX - 1 - c->head_n;
    size_t took = n < room ? n : room;
    memcpy(c->head + c->head_n, in, took);
    c->head[c->head_n + took] = '\0';
    const char *end = strstr(c->head, "\r\n\r\n");
    if (end) {
        size_t whole = (size_t)(end + 4 - c->head);
        took = whole - c->head_n;
        c->head[whole] = '\0';
    }
    c->head_n += took;
    if (end) {
        read_head(c);
    }
    return took;
}

static size_t take_data(struct client *c, const char *in, size_t n, client_payload_fn *fn,
                        void *arg) {
    size_t took = c->until_close || n < c->left ? n : c->left;
    fn(arg, in, took);
    c->payload_n += took;
    size_t kept = took < CLIENT_TAIL ? took : CLIENT_TAIL;
    memmove(c->tail, c->tail + kept, CLIENT_TAIL - kept);
    memcpy(c->tail + CLIENT_TAIL - kept, in + took - kept, kept);
    c->left -= c->until_close ? 0 : took;
    if (c->left == 0 && !c->until_close) {
        c->state = c->is_chunked ? IN_DATA_END : AT_END;
    }
    return took;
}

static void take_framing(struct client *c, char byte) {
    if (c->state == IN_SIZE && byte == '\n') {
        c->state = c->left > 0 ? IN_DATA : IN_LAST;
    } else if (c->state == IN_SIZE && byte != '\r') {
        int digit = byte <= '9' ? byte - '0' : (byte | 0x20) - 'a' + 10;
        c->left = c->left * 16 + (size_t)digit;
    } else if (byte == '\n') {
        c->state = c->state == IN_DATA_END ? IN_SIZE : AT_END;
    }
}

enum client_read client_read(struct client *c, client_payload_fn *fn, void *arg) {
    ssize_t got = recv(c->fd, read_buffer, sizeof read_buffer, 0);
    if (got < 0 && errno == EAGAIN) {
        return CLIENT_MORE;
    }
    if (got <= 0) {
        return got == 0 && c->until_close && c->state == IN_DATA ? CLIENT_WHOLE : CLIENT_CLOSED;
    }
    const char *in = read_buffer;
    size_t n = (size_t)got;
    while (n > 0 && c->state != AT_END) {
        size_t took = 1;
        if (c->state == IN_HEAD) {
            took = take_head(c, in, n);
        } else if (c->state == IN_DATA) {
            took = take_data(c, in, n, fn, arg);
        } else {
            take_framing(c, *in);
        }
        in += took;
        n -= took;
    }
    return c->state == AT_END ? CLIENT_WHOLE : CLIENT_MORE;
}
