/* SPDX-License-Identifier: BSD-3-Clause */
#include "sandbox/guest_client.h"

#include <signal.h>

#include "base/mem.h"
#include "sandbox/guest_client_call.h"

#define KILL_S 15.0           /* The guest itself gives up after 8. */
#define KILL_ALL_LATE_MS 2000 /* For its answer that the deadline has passed. */
#define BEAT_S 10.0           /* The next is due after 15. */

static struct protocol_out request(struct guest_call *c, enum protocol_type type) {
    return protocol_begin(&c->out, (uint8_t)type, GUEST_CALL_ID);
}

/* Ends and sends the request, and takes an answer that is one frame. */
static int ask(struct guest_call *c, struct protocol_out *o, enum protocol_type answer,
               struct protocol_frame *out, struct err *err) {
    int r = guest_call_add(o, err);
    return r < 0 ? r : guest_call_expect(c, answer, out, err);
}

/* The first hello opens every connection; the second is the request, to have an answer of its own.
 */
int guest_hello(const struct guest_client *g, deadline_ms until, const struct cancel *cancel,
                struct err *err) {
    AUTO(guest_call_deinit) struct guest_call c = {.fd = -1};
    struct protocol_frame f;
    int r = guest_call_begin(&c, g, until, cancel, err);
    if (r < 0) {
        return r;
    }
    struct protocol_out o = request(&c, PROTOCOL_HELLO);
    protocol_add_u64(&o, PROTOCOL_MAJOR_VERSION, PROTOCOL_MAJOR);
    return ask(&c, &o, PROTOCOL_HELLO, &f, err);
}

int guest_beat_send(struct guest_call *c, const struct guest_client *g, deadline_ms until,
                    struct err *err) {
    int r = guest_call_begin(c, g, until, NULL, err);
    if (r < 0) {
        return r;
    }
    struct protocol_out o = request(c, PROTOCOL_BEAT);
    r = guest_call_add(&o, err);
    return r < 0 ? r : guest_call_send(c, err);
}

int guest_beat_answer(struct guest_call *c, struct err *err) {
    struct protocol_frame f;
    return guest_call_expect(c, PROTOCOL_DONE, &f, err);
}

int guest_beat(const struct guest_client *g, struct err *err) {
    AUTO(guest_call_deinit) struct guest_call c = {.fd = -1};
    int r = guest_beat_send(&c, g, deadline_in_s(BEAT_S), err);
    return r < 0 ? r : guest_beat_answer(&c, err);
}

int guest_wait(const struct guest_client *g, uint32_t job, deadline_ms until,
               const struct cancel *cancel, int *exit_code, struct err *err) {
    AUTO(guest_call_deinit) struct guest_call c = {.fd = -1};
    struct protocol_frame f;
    int r = guest_call_begin(&c, g, until, cancel, err);
    if (r < 0) {
        return r;
    }
    c.waits_for_ever = until == DEADLINE_NEVER;
    struct protocol_out o = request(&c, PROTOCOL_WAIT);
    protocol_add_u64(&o, PROTOCOL_JOB, job);
    r = ask(&c, &o, PROTOCOL_EXIT, &f, err);
    if (r == ERR_NOT_FOUND) {
        return err_set(err, ERR_LOST, "job %u is gone (was the sandbox torn down?)", (unsigned)job);
    }
    if (r == 0) {
        r = guest_call_exit_code(&f, exit_code, err);
    }
    return r;
}

int guest_kill(const struct guest_client *g, uint32_t job, struct err *err) {
    AUTO(guest_call_deinit) struct guest_call c = {.fd = -1};
    struct protocol_frame f;
    int r = guest_call_begin(&c, g, deadline_in_s(KILL_S), NULL, err);
    if (r < 0) {
        return r;
    }
    struct protocol_out o = request(&c, PROTOCOL_SIGNAL);
    protocol_add_u64(&o, PROTOCOL_JOB, job);
    protocol_add_u64(&o, PROTOCOL_SIGNAL_NUMBER, SIGKILL);
    r = ask(&c, &o, PROTOCOL_DONE, &f, err);
    return r == ERR_NOT_FOUND ? 0 : r; /* Over so long ago that its record went. */
}

int guest_kill_all(const struct guest_client *g, deadline_ms until, struct err *err) {
    AUTO(guest_call_deinit) struct guest_call c = {.fd = -1};
    struct protocol_frame f;
    bool is_bounded = until < DEADLINE_NEVER - KILL_ALL_LATE_MS;
    int r = guest_call_begin(&c, g, is_bounded ? until + KILL_ALL_LATE_MS : until, NULL, err);
    if (r < 0) {
        return r;
    }
    struct protocol_out o = request(&c, PROTOCOL_KILL_ALL);
    if (is_bounded) {
        protocol_add_u64(&o, PROTOCOL_TIMEOUT_MS, (uint64_t)deadline_left_ms(until));
    }
    return ask(&c, &o, PROTOCOL_DONE, &f, err);
}

int guest_limits(const struct guest_client *g, deadline_ms until, uint64_t *out, struct err *err) {
    AUTO(guest_call_deinit) struct guest_call c = {.fd = -1};
    struct protocol_frame f;
    *out = 0;
    int r = guest_call_begin(&c, g, until, NULL, err);
    if (r < 0) {
        return r;
    }
    struct protocol_out o = request(&c, PROTOCOL_LIMITS);
    r = ask(&c, &o, PROTOCOL_DONE, &f, err);
    if (r == 0) {
        *out = protocol_u64(f.fields, PROTOCOL_COUNT, 0);
    }
    return r == ERR_UNSUPPORTED ? 0 : r;
}

int guest_exists(const struct guest_client *g, const char *path, struct err *err) {
    AUTO(guest_call_deinit) struct guest_call c = {.fd = -1};
    struct protocol_frame f;
    int r = guest_call_begin(&c, g, DEADLINE_NEVER, NULL, err);
    if (r < 0) {
        return r;
    }
    struct protocol_out o = request(&c, PROTOCOL_EXISTS);
    protocol_add(&o, PROTOCOL_PATH, sv_from(path));
    r = ask(&c, &o, PROTOCOL_DONE, &f, err);
    return r < 0 ? r : protocol_u64(f.fields, PROTOCOL_COUNT, 0) != 0;
}

int guest_read_file(const struct guest_client *g, const char *path, uint64_t offset, size_t length,
                    struct buf *out, struct err *err) {
    AUTO(guest_call_deinit) struct guest_call c = {.fd = -1};
    size_t before = out->len;
    int r = guest_call_begin(&c, g, DEADLINE_NEVER, NULL, err);
    if (r < 0) {
        return r;
    }
    struct protocol_out o = request(&c, PROTOCOL_READ);
    protocol_add(&o, PROTOCOL_PATH, sv_from(path));
    protocol_add_u64(&o, PROTOCOL_OFFSET, offset);
    protocol_add_u64(&o, PROTOCOL_LENGTH, length);
    r = guest_call_add(&o, err);
    struct protocol_frame f = {0};
    while (r == 0 && f.type != PROTOCOL_DONE) {
        r = guest_call_next(&c, &f, err);
        if (r > 0) {
            r = guest_call_take_bytes(&f, length - (out->len - before), out, err);
        }
    }
    if (r < 0 && out->len > before) { /* All that was asked for, or nothing. */
        out->len = before;
        out->data[before] = '\0';
    }
    return r;
}

int guest_write_file(const struct guest_client *g, const char *path, struct sv content,
                     unsigned mode, struct err *err) {
    AUTO(guest_call_deinit) struct guest_call c = {.fd = -1};
    int r = guest_call_begin(&c, g, DEADLINE_NEVER, NULL, err);
    if (r < 0) {
        return r;
    }
    struct protocol_out o = request(&c, PROTOCOL_WRITE);
    protocol_add(&o, PROTOCOL_PATH, sv_from(path));
    protocol_add_u64(&o, PROTOCOL_MODE, mode);
    r = guest_call_add(&o, err);
    c.input = content;
    c.has_input = true;
    struct protocol_frame f;
    return r < 0 ? r : guest_call_expect(&c, PROTOCOL_DONE, &f, err);
}
