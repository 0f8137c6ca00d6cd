/* SPDX-License-Identifier: BSD-3-Clause */
/* A socket belongs to the network that its thread was in when it was made: a thread of its own
 * goes there, makes it and ends. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "tests/doubles/hub/hub.h"

#define BACKLOG 256
#define UP_MS 10000

struct visit {
    pid_t pid;
    uint16_t port;
    bool listens;
    int fd;
    int failed; /* errno */
};

static int make(const struct visit *v) {
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons(v->port),
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    AUTO_CLOSE int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int one = 1;
    if (fd < 0) {
        return -1;
    }
    if (v->listens) {
        if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) < 0 ||
            bind(fd, (struct sockaddr *)&a, sizeof a) < 0 || listen(fd, BACKLOG) < 0) {
            return -1;
        }
    } else if (connect(fd, (struct sockaddr *)&a, sizeof a) < 0) {
        return -1;
    }
    return TAKE_FD(fd);
}

/* A network just made has no loopback address until whoever made it says so. */
static int make_when_up(const struct visit *v) {
    deadline_ms until = deadline_in_ms(UP_MS);
    int fd = make(v);
    while (fd < 0 && errno == EADDRNOTAVAIL && !deadline_passed(until)) {
        clock_sleep_ms(1);
        fd = make(v);
    }
    return fd;
}

static void *go(void *arg) {
    struct visit *v = arg;
    AUTO_FREE char *path = mem_printf("/proc/%d/ns/net", (int)v->pid);
    AUTO_CLOSE int ns = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    v->fd = ns < 0 || setns(ns, CLONE_NEWNET) < 0 ? -1 : make_when_up(v);
    v->failed = v->fd < 0 ? errno : 0;
    return NULL;
}

static int visit(pid_t pid, uint16_t port, bool listens, int *out_fd, struct err *err) {
    struct visit v = {.pid = pid, .port = port, .listens = listens, .fd = -1};
    pthread_t thread;
    int failed = pthread_create(&thread, NULL, go, &v);
    if (failed) {
        return err_sys(err, ERR_SYS, failed, "cannot start a thread");
    }
    pthread_join(thread, NULL);
    if (v.fd < 0) {
        return err_sys(err, ERR_CONNECT, v.failed, "port %u of the job", port);
    }
    int r = fd_set_nonblocking(v.fd, err);
    if (r < 0) {
        close(v.fd);
        return r;
    }
    *out_fd = v.fd;
    return 0;
}

int netns_listen(pid_t pid, uint16_t port, int *out_fd, struct err *err) {
    return visit(pid, port, true, out_fd, err);
}

int netns_dial(pid_t pid, uint16_t port, int *out_fd, struct err *err) {
    return visit(pid, port, false, out_fd, err);
}
