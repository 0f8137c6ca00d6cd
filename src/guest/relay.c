/* SPDX-License-Identifier: BSD-3-Clause */
#include "guest/relay.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "guest/relay_pair.h"

#define BACKLOG 128
#define SHORT_OF_MS 10 /* Out of descriptors or memory: the queue keeps the caller meanwhile. */

static bool is_shortage(int reason) {
    return reason == EMFILE || reason == ENFILE || reason == ENOBUFS || reason == ENOMEM;
}

static void on_accept(struct loop_watch *w, short events) {
    (void)events;
    struct relay *relay = LOOP_OWNER(w, struct relay, listen_watch);
    int fd = accept4(relay->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) {
        clock_sleep_ms(is_shortage(errno) ? SHORT_OF_MS : 0);
        return;
    }
    relay_pair_open(relay, fd);
    if (relay->n >= relay->max) {
        loop_mute(relay->loop, w);
    }
}

void relay_pair_gone(struct relay *relay) {
    loop_want(relay->loop, &relay->listen_watch, POLLIN);
}

static int set_target(struct relay *relay, const char *path, struct err *err) {
    size_t n = strlen(path);
    if (n == 0 || n >= sizeof relay->target.sun_path) {
        return err_set(err, ERR_INPUT, "the model's socket path must have 1 to %zu bytes: '%s'",
                       sizeof relay->target.sun_path - 1, path);
    }
    relay->target.sun_family = AF_UNIX;
    memcpy(relay->target.sun_path, path, n + 1);
    return 0;
}

static int listen_at(struct relay *relay, uint16_t port, struct err *err) {
    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_port = htons(port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    int on = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return err_sys(err, ERR_SYS, errno, "cannot make a socket");
    }
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, (struct sockaddr *)&address, sizeof address) < 0 || listen(fd, BACKLOG) < 0) {
        int reason = errno;
        close(fd);
        return err_sys(err, ERR_SYS, reason, "cannot listen at 127.0.0.1:%u", port);
    }
    relay->listen_fd = fd;
    return 0;
}

int relay_open(struct relay *relay, struct loop *loop, const struct relay_options *options,
               struct err *err) {
    *relay = (struct relay){.loop = loop, .listen_fd = -1, .max = options->max};
    relay->max = relay->max ? relay->max : RELAY_PAIRS_MAX;
    relay->listen_watch.on_ready = on_accept;
    int r = set_target(relay, options->socket_path, err);
    if (r == 0) {
        r = listen_at(relay, options->port, err);
    }
    if (r == 0 && loop_add(loop, &relay->listen_watch, relay->listen_fd, POLLIN) < 0) {
        close(relay->listen_fd);
        r = err_set(err, ERR_NOMEM, "out of memory");
    }
    return r;
}

void relay_close(struct relay *relay) {
    loop_drop(relay->loop, &relay->listen_watch);
    close(relay->listen_fd);
    while (relay->first) {
        relay_pair_reset(relay->first);
    }
}
