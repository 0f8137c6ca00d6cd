/* SPDX-License-Identifier: BSD-3-Clause */
#include "guest/relay_pair.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define PIECE 65536         /* What one way may hold back; nothing is held while it flows. */
#define PIECES_A_TURN 4     /* Then the others get theirs. */
#define CONNECT_AGAIN_MS 2  /* A unix socket whose queue is full says so at once. */
#define CONNECT_MAX_MS 5000 /* A gateway that takes no call for so long is not there. */
#define LINGER_MS 5000      /* For a client that does not close after its peer did. */
#define DRAIN_AGAIN_MS 5
#define DRAIN_MAX_MS 30000 /* What the gateway sent before it broke off reaches a slow reader. */

/* One way. */
struct flow {
    char *kept; /* Bytes that the other side did not take yet, or NULL. */
    size_t at;
    size_t end;
    bool has_ended;  /* The source sent its end. */
    bool is_closed;  /* The end was passed on. */
    bool is_ignored; /* Nobody is there to take it: read and dropped. */
};

enum pair_state { PAIR_CONNECTING, PAIR_OPEN, PAIR_RESETTING };

struct relay_pair {
    struct relay *relay;
    struct relay_pair *next;
    struct relay_pair **self;
    enum pair_state state;
    int tcp_fd;
    int unix_fd; /* -1: closed, or not there yet. */
    struct loop_watch tcp_watch;
    struct loop_watch unix_watch;
    struct loop_timer timer;
    deadline_ms until;
    struct flow up; /* From inside to the model. */
    struct flow down;
};

static char scratch[PIECE]; /* Shared: what stays is copied. */

static void free_pair(struct relay_pair *pair) {
    struct relay *relay = pair->relay;
    *pair->self = pair->next;
    if (pair->next) {
        pair->next->self = pair->self;
    }
    relay->n--;
    loop_drop(relay->loop, &pair->tcp_watch);
    loop_drop(relay->loop, &pair->unix_watch);
    loop_disarm(relay->loop, &pair->timer);
    close(pair->tcp_fd);
    if (pair->unix_fd >= 0) {
        close(pair->unix_fd);
    }
    free(pair->up.kept);
    free(pair->down.kept);
    free(pair);
    relay_pair_gone(relay);
}

void relay_pair_reset(struct relay_pair *pair) {
    struct linger now = {.l_onoff = 1, .l_linger = 0};
    setsockopt(pair->tcp_fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    free_pair(pair);
}

static void close_unix(struct relay_pair *pair) {
    if (pair->unix_fd >= 0) {
        loop_drop(pair->relay->loop, &pair->unix_watch);
        close(pair->unix_fd);
        pair->unix_fd = -1;
    }
}

static void reset_when_drained(struct relay_pair *pair) {
    int unsent = 0;
    if (ioctl(pair->tcp_fd, TIOCOUTQ, &unsent) < 0 || unsent == 0 || deadline_passed(pair->until)) {
        relay_pair_reset(pair);
        return;
    }
    loop_arm(pair->relay->loop, &pair->timer, deadline_in_ms(DRAIN_AGAIN_MS));
}

/* The model's side broke off. What it sent before goes first: a reset drops what is unsent. */
static void begin_reset(struct relay_pair *pair) {
    close_unix(pair);
    pair->state = PAIR_RESETTING;
    pair->until = deadline_in_ms(DRAIN_MAX_MS);
    loop_want(pair->relay->loop, &pair->tcp_watch, 0);
    reset_when_drained(pair);
}

enum moved { MOVED_IDLE, MOVED_MORE, MOVED_BLOCKED, MOVED_ENDED, MOVED_READ_FAILED, MOVED_REFUSED };

/* Writes what was kept. */
static enum moved push_kept(struct flow *flow, int to) {
    while (flow->at < flow->end) {
        ssize_t n = send(to, flow->kept + flow->at, flow->end - flow->at, MSG_NOSIGNAL);
        if (n < 0) {
            return errno == EAGAIN || errno == EINTR ? MOVED_BLOCKED : MOVED_REFUSED;
        }
        flow->at += (size_t)n;
    }
    free(flow->kept);
    flow->kept = NULL;
    flow->at = flow->end = 0;
    return MOVED_IDLE;
}

static enum moved push(struct flow *flow, const char *bytes, size_t n, int to) {
    ssize_t sent = send(to, bytes, n, MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN && errno != EINTR) {
        return MOVED_REFUSED;
    }
    size_t done = sent > 0 ? (size_t)sent : 0;
    if (done == n) {
        return MOVED_MORE;
    }
    flow->kept = malloc(n - done);
    if (!flow->kept) {
        return MOVED_REFUSED;
    }
    memcpy(flow->kept, bytes + done, n - done);
    flow->at = 0;
    flow->end = n - done;
    return MOVED_BLOCKED;
}

static enum moved move_piece(struct flow *flow, int from, int to) {
    ssize_t n = recv(from, scratch, sizeof scratch, 0);
    if (n < 0) {
        return errno == EAGAIN || errno == EINTR ? MOVED_IDLE : MOVED_READ_FAILED;
    }
    if (n == 0) {
        flow->has_ended = true;
        return MOVED_ENDED;
    }
    if (flow->is_ignored) {
        return MOVED_MORE;
    }
    enum moved m = push(flow, scratch, (size_t)n, to);
    return m == MOVED_MORE && (size_t)n < sizeof scratch ? MOVED_IDLE : m;
}

static enum moved move(struct flow *flow, int from, int to) {
    enum moved m = flow->kept ? push_kept(flow, to) : MOVED_IDLE;
    if (m != MOVED_IDLE || flow->has_ended) {
        return m;
    }
    m = MOVED_MORE;
    for (int i = 0; i < PIECES_A_TURN && m == MOVED_MORE; i++) {
        m = move_piece(flow, from, to);
    }
    return m;
}

/* The model's side takes no more. What it said before is still read. */
static void ignore_up(struct relay_pair *pair) {
    free(pair->up.kept);
    pair->up.kept = NULL;
    pair->up.at = pair->up.end = 0;
    pair->up.is_ignored = true;
}

/* False when the pair is gone. */
static bool move_up(struct relay_pair *pair) {
    enum moved m = move(&pair->up, pair->tcp_fd, pair->unix_fd);
    if (m == MOVED_READ_FAILED) {
        relay_pair_reset(pair); /* Closes the unix socket whole. */
        return false;
    }
    if (m == MOVED_REFUSED) {
        ignore_up(pair);
    }
    if (pair->up.has_ended && !pair->up.kept && !pair->up.is_closed) {
        pair->up.is_closed = true;
        if (pair->unix_fd >= 0) {
            shutdown(pair->unix_fd, SHUT_WR);
        }
    }
    return true;
}

/* Whether a unix socket whose end was read is closed whole and not by half. Once we have closed our
 * half the two look the same, and it is the clean end that is common. */
static bool is_broken_off(const struct relay_pair *pair) {
    struct pollfd p = {.fd = pair->unix_fd};
    return !pair->up.is_closed && poll(&p, 1, 0) > 0 && (p.revents & (POLLHUP | POLLERR));
}

static bool move_down(struct relay_pair *pair) {
    struct flow *down = &pair->down;
    enum moved m = move(down, pair->unix_fd, pair->tcp_fd);
    if (m == MOVED_REFUSED) { /* The client is gone, and with it the pair. */
        relay_pair_reset(pair);
        return false;
    }
    if (m == MOVED_READ_FAILED || (m == MOVED_ENDED && is_broken_off(pair))) {
        begin_reset(pair);
        return false;
    }
    if (down->has_ended && !down->kept && !down->is_closed) {
        down->is_closed = true;
        shutdown(pair->tcp_fd, SHUT_WR);
    }
    return true;
}

static short interest(const struct flow *in, const struct flow *out) {
    bool reads = !in->has_ended && !in->kept;
    return (short)((reads ? POLLIN : 0) | (out->kept ? POLLOUT : 0));
}

static void watch(struct loop *loop, struct loop_watch *w, short wants, bool hears_hangup) {
    if (wants || hears_hangup) {
        loop_want(loop, w, wants);
    } else {
        loop_mute(loop, w);
    }
}

/* A hang-up is reported for ever: it is heard only where it means something new. On the inner side
 * that is until the end was sent there, on the model's side after its end was read. */
static void update_events(struct relay_pair *pair) {
    struct loop *loop = pair->relay->loop;
    watch(loop, &pair->tcp_watch, interest(&pair->up, &pair->down), !pair->down.is_closed);
    watch(loop, &pair->unix_watch, interest(&pair->down, &pair->up), pair->down.has_ended);
}

static void advance(struct relay_pair *pair, bool up, bool down) {
    if (up && !pair->up.is_closed && !move_up(pair)) {
        return;
    }
    if (down && !pair->down.is_closed && !move_down(pair)) {
        return;
    }
    if (pair->up.is_closed && pair->down.is_closed) {
        free_pair(pair);
        return;
    }
    update_events(pair);
}

static void on_tcp(struct loop_watch *w, short events) {
    struct relay_pair *pair = LOOP_OWNER(w, struct relay_pair, tcp_watch);
    if (pair->state != PAIR_OPEN || (events & (POLLERR | POLLNVAL))) {
        relay_pair_reset(pair); /* Reset from inside. Watched without events in other states. */
        return;
    }
    advance(pair, events & (POLLIN | POLLHUP), events & POLLOUT);
}

static void on_unix(struct loop_watch *w, short events) {
    struct relay_pair *pair = LOOP_OWNER(w, struct relay_pair, unix_watch);
    if ((events & POLLHUP) && pair->down.has_ended) {
        close_unix(pair); /* It had closed its half before: nobody takes the other half now. */
        ignore_up(pair);
        loop_arm(pair->relay->loop, &pair->timer, deadline_in_ms(LINGER_MS));
        update_events(pair);
        return;
    }
    advance(pair, events & (POLLOUT | POLLHUP | POLLERR), events & (POLLIN | POLLHUP | POLLERR));
}

static void connect_unix(struct relay_pair *pair) {
    struct relay *relay = pair->relay;
    if (connect(pair->unix_fd, (struct sockaddr *)&relay->target, sizeof relay->target) == 0) {
        pair->state = PAIR_OPEN;
        if (loop_add(relay->loop, &pair->unix_watch, pair->unix_fd, POLLIN) < 0) {
            relay_pair_reset(pair);
            return;
        }
        loop_want(relay->loop, &pair->tcp_watch, POLLIN);
    } else if (errno == EAGAIN && !deadline_passed(pair->until)) {
        loop_arm(relay->loop, &pair->timer, deadline_in_ms(CONNECT_AGAIN_MS));
    } else {
        relay_pair_reset(pair);
    }
}

static void on_time(struct loop_timer *t) {
    struct relay_pair *pair = LOOP_OWNER(t, struct relay_pair, timer);
    switch (pair->state) {
    case PAIR_CONNECTING:
        connect_unix(pair);
        break;
    case PAIR_RESETTING:
        reset_when_drained(pair);
        break;
    case PAIR_OPEN:
        free_pair(pair);
        break;
    }
}

void relay_pair_open(struct relay *relay, int tcp_fd) {
    struct relay_pair *pair = calloc(1, sizeof *pair);
    if (!pair) {
        close(tcp_fd);
        return;
    }
    *pair = (struct relay_pair){.relay = relay, .tcp_fd = tcp_fd, .next = relay->first};
    pair->tcp_watch.on_ready = on_tcp;
    pair->unix_watch.on_ready = on_unix;
    pair->timer.on_time = on_time;
    pair->until = deadline_in_ms(CONNECT_MAX_MS);
    pair->self = &relay->first;
    if (pair->next) {
        pair->next->self = &pair->next;
    }
    relay->first = pair;
    relay->n++;
    int on = 1;
    setsockopt(tcp_fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    pair->unix_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (pair->unix_fd < 0 || loop_add(relay->loop, &pair->tcp_watch, tcp_fd, 0) < 0) {
        relay_pair_reset(pair);
        return;
    }
    connect_unix(pair);
}
