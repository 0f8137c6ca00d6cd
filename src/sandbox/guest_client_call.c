/* SPDX-License-Identifier: BSD-3-Clause */
#include "sandbox/guest_client_call.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"

#define READ_BYTES (PROTOCOL_BYTES_MAX + 1024) /* A full frame of content and its head. */
#define MESSAGE_MAX 512                        /* Of the guest's own words in an error. */

int guest_call_add(struct protocol_out *frame, struct err *err) {
    int r = protocol_end(frame);
    if (r == ERR_LIMIT) {
        return err_set(err, r,
                       "a command with its arguments and environment, or a path, is too "
                       "long: the guest takes %d bytes",
                       PROTOCOL_FRAME_MAX);
    }
    return r < 0 ? err_set(err, r, "out of memory") : 0;
}

int guest_call_begin(struct guest_call *c, const struct guest_client *client, deadline_ms until,
                     const struct cancel *cancel, struct err *err) {
    *c = (struct guest_call){.client = client, .cancel = cancel, .until = until, .fd = -1};
    if (cancel_thrown(client->torn_down)) {
        return err_set(err, ERR_LOST, "the sandbox was torn down");
    }
    int r = client->connect(client->arg, &c->fd, err);
    if (r < 0) {
        c->fd = -1;
        return r;
    }
    r = fd_set_nonblocking(c->fd, err);
    if (r < 0) {
        return r;
    }
    struct protocol_out o = protocol_begin(&c->out, PROTOCOL_HELLO, 0);
    protocol_add_u64(&o, PROTOCOL_MAJOR_VERSION, PROTOCOL_MAJOR);
    protocol_add_u64(&o, PROTOCOL_MINOR_VERSION, PROTOCOL_MINOR);
    return guest_call_add(&o, err);
}

void guest_call_deinit(struct guest_call *c) {
    mem_auto_close(&c->fd);
    c->fd = -1;
    buf_deinit(&c->out);
    protocol_in_deinit(&c->in);
}

static int lost(struct err *err) {
    return err_set(err, ERR_LOST, "the guest ended its connection (was the sandbox torn down?)");
}

/* Waits until the connection can go on. */
static int wait_ready(const struct guest_call *c, struct err *err) {
    deadline_ms until = c->until;
    if (until == DEADLINE_NEVER && !c->waits_for_ever) {
        until = deadline_in_s(GUEST_CALL_STALL_S);
    }
    for (;;) {
        struct pollfd p[3] = {
            {.fd = cancel_fd(c->cancel), .events = POLLIN},
            {.fd = cancel_fd(c->client->torn_down), .events = POLLIN},
            {.fd = c->fd, .events = (short)(POLLIN | (c->out.len ? POLLOUT : 0))},
        };
        if (poll(p, ARRAY_LEN(p), deadline_poll_ms(until)) < 0 && errno != EINTR) {
            return err_sys(err, ERR_SYS, errno, "cannot wait for the guest");
        }
        if (cancel_thrown(c->client->torn_down)) {
            return err_set(err, ERR_LOST, "the sandbox was torn down");
        }
        if (cancel_thrown(c->cancel)) {
            return err_set(err, ERR_CANCELLED, "cancelled");
        }
        if (p[2].revents) {
            return 0;
        }
        if (deadline_passed(until)) {
            return err_set(err, ERR_TIMEOUT, "the guest did not answer in time");
        }
    }
}

static ssize_t send_or_write(int fd, const void *bytes, size_t n) {
    ssize_t sent = send(fd, bytes, n, MSG_NOSIGNAL);
    return sent < 0 && errno == ENOTSOCK ? write(fd, bytes, n) : sent;
}

static int send_some(struct guest_call *c, struct err *err) {
    ssize_t n = send_or_write(c->fd, c->out.data, c->out.len);
    if (n >= 0) {
        buf_consume(&c->out, (size_t)n);
    } else if (errno == EPIPE || errno == ECONNRESET) {
        buf_reset(&c->out); /* Its reason may stand among what it sent before. */
        c->has_input = false;
    } else if (errno != EAGAIN && errno != EINTR) {
        return err_sys(err, ERR_SYS, errno, "cannot send to the guest");
    }
    return 0;
}

static int receive_some(struct guest_call *c, struct err *err) {
    char bytes[READ_BYTES];
    ssize_t n = read(c->fd, bytes, sizeof bytes);
    if (n > 0) {
        return protocol_feed(&c->in, bytes, (size_t)n) < 0
                   ? err_set(err, ERR_NOMEM, "out of memory")
                   : 0;
    }
    if (n == 0 || errno == ECONNRESET || errno == EPIPE) {
        return lost(err);
    }
    if (errno != EAGAIN && errno != EINTR) {
        return err_sys(err, ERR_SYS, errno, "cannot receive from the guest");
    }
    return 0;
}

/* The guest's words go into our own messages: one line, and not too long. */
static int guest_error(const struct protocol_frame *f, struct err *err) {
    struct sv words;
    if (!protocol_find(f->fields, PROTOCOL_MESSAGE, &words) || words.n == 0) {
        words = SV("no reason given");
    }
    char text[MESSAGE_MAX + 1];
    size_t n = words.n < MESSAGE_MAX ? words.n : MESSAGE_MAX;
    for (size_t i = 0; i < n; i++) {
        unsigned char byte = (unsigned char)words.p[i];
        text[i] = byte < 0x20 || byte == 0x7f ? '?' : words.p[i];
    }
    text[n] = '\0';
    uint64_t code = protocol_u64(f->fields, PROTOCOL_CODE, 0);
    if (code == 0 || code >= ERR_POS_COUNT_) {
        return err_set(err, ERR_PROTOCOL, "the guest failed: %s", text);
    }
    return err_set(err, -(int)code, "%s", text);
}

int guest_call_take_bytes(const struct protocol_frame *f, size_t max, struct buf *out,
                          struct err *err) {
    struct sv bytes = SV("");
    if (f->type == PROTOCOL_DONE) {
        return 0;
    }
    if (f->type != PROTOCOL_OUTPUT || !protocol_find(f->fields, PROTOCOL_BYTES, &bytes)) {
        return guest_call_unexpected(f, err);
    }
    if (bytes.n > max) {
        return err_set(err, ERR_PROTOCOL, "the guest sent more bytes than were asked for");
    }
    int r = buf_add_sv(out, bytes);
    return r < 0 ? err_set(err, r, "no room for the file's bytes") : 0;
}

int guest_call_exit_code(const struct protocol_frame *f, int *out, struct err *err) {
    uint64_t code = protocol_u64(f->fields, PROTOCOL_EXIT_CODE, UINT64_MAX);
    if (code > 255) {
        return err_set(err, ERR_PROTOCOL, "the guest sent an end without an exit code");
    }
    *out = (int)code;
    return 0;
}

int guest_call_unexpected(const struct protocol_frame *f, struct err *err) {
    return err_set(err, ERR_PROTOCOL, "the guest sent a frame of type %u for request %u there",
                   f->type, (unsigned)f->id);
}

static int take_hello(struct guest_call *c, const struct protocol_frame *f, struct err *err) {
    uint64_t major = protocol_u64(f->fields, PROTOCOL_MAJOR_VERSION, 0);
    if (f->type != PROTOCOL_HELLO) {
        return guest_call_unexpected(f, err);
    }
    if (major != PROTOCOL_MAJOR) {
        return err_set(
            err, ERR_PROTOCOL,
            "the guest speaks version %llu of its protocol, this program %d: use a guest "
            "of the same release",
            (unsigned long long)major, PROTOCOL_MAJOR);
    }
    c->was_greeted = true;
    return 0;
}

/* 1 with a frame of the request, 0 when there is none yet. */
static int next_buffered(struct guest_call *c, struct protocol_frame *out, struct err *err) {
    for (;;) {
        int r = protocol_next(&c->in, out, err);
        if (r <= 0) {
            return r;
        }
        if (out->type == PROTOCOL_ERROR) {
            return guest_error(out, err);
        }
        if (c->was_greeted) {
            return out->id == GUEST_CALL_ID ? 1 : guest_call_unexpected(out, err);
        }
        r = take_hello(c, out, err);
        if (r < 0) {
            return r;
        }
    }
}

/* The next piece of the content, the last one with its end. */
static int add_input(struct guest_call *c, struct err *err) {
    size_t n = c->input.n < PROTOCOL_BYTES_MAX ? c->input.n : PROTOCOL_BYTES_MAX;
    c->has_input = n < c->input.n;
    struct protocol_out o = protocol_begin(&c->out, PROTOCOL_INPUT, GUEST_CALL_ID);
    protocol_add(&o, PROTOCOL_BYTES, (struct sv){c->input.p, n});
    if (!c->has_input) {
        protocol_add_u64(&o, PROTOCOL_END, 1);
    }
    c->input = sv_cut(c->input, n);
    return guest_call_add(&o, err);
}

int guest_call_send(struct guest_call *c, struct err *err) {
    return send_some(c, err);
}

int guest_call_next(struct guest_call *c, struct protocol_frame *out, struct err *err) {
    for (;;) {
        int r = next_buffered(c, out, err);
        if (r != 0) {
            return r;
        }
        if (c->has_input && c->out.len == 0) {
            r = add_input(c, err);
        }
        if (r == 0) {
            r = wait_ready(c, err);
        }
        if (r == 0 && c->out.len > 0) {
            r = send_some(c, err);
        }
        if (r == 0) {
            r = receive_some(c, err);
        }
        if (r < 0) {
            return r;
        }
    }
}

int guest_call_expect(struct guest_call *c, enum protocol_type type, struct protocol_frame *out,
                      struct err *err) {
    int r = guest_call_next(c, out, err);
    if (r < 0) {
        return r;
    }
    return out->type == type ? 0 : guest_call_unexpected(out, err);
}
