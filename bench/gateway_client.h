/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_BENCH_GATEWAY_CLIENT_H
#define SNAFFLE_BENCH_GATEWAY_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The smallest HTTP/1.1 client that reads streamed answers without waiting. It shares nothing with
 * the codec that it measures. */

#define CLIENT_HEAD_MAX 2048u
#define CLIENT_TAIL 32u

struct client {
    int fd;
    uint32_t watched; /* 0: not yet. */
    int state;
    size_t left; /* Of the chunk, or of the length. */
    bool is_chunked;
    bool until_close;
    bool closes;
    int status;
    size_t head_n;
    char head[CLIENT_HEAD_MAX];
    size_t payload_n;       /* So far. */
    bool differs;           /* For the caller's use. */
    char tail[CLIENT_TAIL]; /* The payload's last bytes. */
};

enum client_read { CLIENT_MORE, CLIENT_WHOLE, CLIENT_CLOSED };
typedef void client_payload_fn(void *arg, const char *bytes, size_t n);

extern uint16_t client_port;

void client_connect(struct client *c, int epoll_fd, void *owner);
void client_reconnect(struct client *c, int epoll_fd, void *owner);
void client_watch(struct client *c, int epoll_fd, uint32_t events, void *owner);
void client_begin_answer(struct client *c);
/* Reads once. The end of the answer must come with the bytes before it or alone. */
enum client_read client_read(struct client *c, client_payload_fn *fn, void *arg);
bool client_saw_done(const struct client *c); /* The payload ends in [DONE]. */
void client_die(const char *what) __attribute__((noreturn));

#endif
