/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/http1.h"

#define CONNECTIONS_MAX 1024 /* At once. */

struct engine {
    int fd;
    char url[64];
    engine_fn fn;
    void *arg;
    pthread_t acceptor;
    pthread_mutex_t mutex;
    unsigned requests;
    unsigned connections; /* So far. */
    pthread_cond_t ended;
    unsigned n_live;
    int fds[CONNECTIONS_MAX]; /* 0: free. */
};

struct link {
    struct engine *e;
    int fd;
    unsigned slot;
    unsigned number;
    unsigned requests;
    struct buf in;
};

/* One whole request from the connection; false at its end. */
static bool read_request(struct link *k, struct buf *head_bytes, struct buf *body) {
    struct http1_head_parser p = {.kind = HTTP1_REQUEST};
    struct http1_head head;
    struct http1_body b;
    bool has_head = false;
    bool whole = false;
    bool alive = true;
    buf_reset(head_bytes);
    buf_reset(body);
    while (alive && !whole) {
        char bytes[65536];
        if (k->in.len == 0) {
            ssize_t n = read(k->fd, bytes, sizeof bytes);
            if (n <= 0 || buf_add(&k->in, bytes, (size_t)n) < 0) {
                break;
            }
        }
        size_t used = 0;
        struct sv span;
        if (!has_head) {
            int rc = http1_head_feed(&p, buf_sv(&k->in), &used, &head, NULL);
            has_head = rc == 1;
            alive = rc >= 0;
            if (has_head) {
                alive = buf_add_sv(head_bytes, head.raw) == 0;
                http1_body_of_request(&b, &head);
            }
            buf_consume(&k->in, used);
        }
        while (has_head && alive && !whole) {
            int rc = http1_body_next(&b, buf_sv(&k->in), &used, &span, NULL);
            if (rc == HTTP1_DATA) {
                alive = buf_add_sv(body, span) == 0;
            }
            buf_consume(&k->in, used);
            whole = rc == HTTP1_END;
            alive = alive && rc >= 0;
            if (rc == HTTP1_MORE) {
                break;
            }
        }
    }
    http1_head_parser_deinit(&p);
    return whole;
}

static void reset_on_close(int fd) {
    struct linger now = {.l_onoff = 1, .l_linger = 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
}

static void *serve(void *arg) {
    struct link *k = arg;
    struct engine *e = k->e;
    struct buf head = {0};
    struct buf body = {0};
    bool open = true;
    while (open && read_request(k, &head, &body)) {
        pthread_mutex_lock(&e->mutex);
        unsigned number = ++e->requests;
        pthread_mutex_unlock(&e->mutex);
        struct engine_request r = {
            .fd = k->fd,
            .number = number,
            .connection = k->number,
            .on_connection = ++k->requests,
            .head = buf_sv(&head),
            .body = buf_sv(&body),
        };
        e->fn(&r, e->arg);
        open = !r.close && !r.reset;
        if (r.reset) {
            reset_on_close(k->fd);
        }
    }
    buf_deinit(&head);
    buf_deinit(&body);
    buf_deinit(&k->in);
    pthread_mutex_lock(&e->mutex);
    close(k->fd);
    e->fds[k->slot] = 0;
    e->n_live--;
    pthread_cond_signal(&e->ended);
    pthread_mutex_unlock(&e->mutex);
    free(k);
    return NULL;
}

/* Under the mutex; false when there are too many. */
static bool start_link(struct engine *e, struct link *k) {
    pthread_t thread;
    while (k->slot < CONNECTIONS_MAX && e->fds[k->slot]) {
        k->slot++;
    }
    if (k->slot == CONNECTIONS_MAX || pthread_create(&thread, NULL, serve, k) != 0) {
        return false;
    }
    pthread_detach(thread);
    e->fds[k->slot] = k->fd;
    e->n_live++;
    return true;
}

static void *accept_all(void *arg) {
    struct engine *e = arg;
    int fd;
    while ((fd = accept4(e->fd, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
        int one = 1;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        struct link *k = calloc(1, sizeof *k);
        if (!k) {
            abort();
        }
        pthread_mutex_lock(&e->mutex);
        *k = (struct link){.e = e, .fd = fd, .number = ++e->connections};
        bool started = start_link(e, k);
        pthread_mutex_unlock(&e->mutex);
        if (!started) {
            close(fd);
            free(k);
        }
    }
    return NULL;
}

struct engine *engine_start(engine_fn fn, void *arg) {
    struct engine *e = calloc(1, sizeof *e);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof at;
    if (!e) {
        abort();
    }
    e->fn = fn;
    e->arg = arg;
    e->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (e->fd < 0 || bind(e->fd, (struct sockaddr *)&at, sizeof at) < 0 || listen(e->fd, 512) < 0 ||
        getsockname(e->fd, (struct sockaddr *)&at, &n) < 0) {
        perror("engine");
        abort();
    }
    snprintf(e->url, sizeof e->url, "http://127.0.0.1:%d/v1", ntohs(at.sin_port));
    pthread_mutex_init(&e->mutex, NULL);
    pthread_cond_init(&e->ended, NULL);
    pthread_create(&e->acceptor, NULL, accept_all, e);
    return e;
}

const char *engine_url(const struct engine *e) {
    return e->url;
}

unsigned engine_requests(struct engine *e) {
    pthread_mutex_lock(&e->mutex);
    unsigned n = e->requests;
    pthread_mutex_unlock(&e->mutex);
    return n;
}

void engine_stop(struct engine *e) {
    shutdown(e->fd, SHUT_RDWR);
    pthread_join(e->acceptor, NULL);
    pthread_mutex_lock(&e->mutex);
    for (unsigned i = 0; i < CONNECTIONS_MAX; i++) {
        if (e->fds[i]) {
            shutdown(e->fds[i], SHUT_RDWR);
        }
    }
    while (e->n_live > 0) {
        pthread_cond_wait(&e->ended, &e->mutex);
    }
    pthread_mutex_unlock(&e->mutex);
    close(e->fd);
    pthread_cond_destroy(&e->ended);
    pthread_mutex_destroy(&e->mutex);
    free(e);
}

bool engine_write(struct engine_request *r, struct sv bytes) {
    while (bytes.n > 0) {
        ssize_t n = send(r->fd, bytes.p, bytes.n, MSG_NOSIGNAL);
        if (n <= 0) {
            return false;
        }
        bytes = sv_cut(bytes, (size_t)n);
    }
    return true;
}

bool engine_puts(struct engine_request *r, const char *text) {
    return engine_write(r, sv_from(text));
}

bool engine_chunk(struct engine_request *r, struct sv payload) {
    struct buf b = {0};
    char line[HTTP1_CHUNK_HEAD_MAX];
    bool ok = buf_add_sv(&b, http1_chunk_head(line, payload.n)) == 0 &&
              buf_add_sv(&b, payload) == 0 && buf_adds(&b, "\r\n") == 0 &&
              engine_write(r, buf_sv(&b));
    buf_deinit(&b);
    return ok;
}

bool engine_sse_head(struct engine_request *r) {
    return engine_puts(r, "HTTP/1.1 200 OK\r\nserver: uvicorn\r\nX-Request-Id: q1\r\n"
                          "Content-Type: text/event-stream; charset=utf-8\r\n"
                          "Transfer-Encoding: chunked\r\n\r\n");
}

bool engine_sse(struct engine_request *r, const char *body) {
    return engine_sse_head(r) && engine_chunk(r, sv_from(body)) && engine_puts(r, "0\r\n\r\n");
}

bool engine_json(struct engine_request *r, int status, const char *body) {
    char head[256];
    snprintf(head, sizeof head,
             "HTTP/1.1 %d Some Reason\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n"
             "\r\n",
             status, sv_from(body).n);
    return engine_puts(r, head) && engine_puts(r, body);
}

bool engine_peer_left(struct engine_request *r, int ms) {
    int64_t until = clock_ms() + ms;
    struct pollfd p = {.fd = r->fd, .events = POLLIN};
    while (clock_ms() < until) {
        if (poll(&p, 1, (int)(until - clock_ms())) > 0) {
            char byte;
            ssize_t n = recv(r->fd, &byte, 1, MSG_PEEK);
            return n <= 0;
        }
    }
    return false;
}
