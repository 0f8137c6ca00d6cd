/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_SANDBOX_GUEST_CLIENT_CALL_H
#define SNAFFLE_SANDBOX_GUEST_CLIENT_CALL_H

#include "guest/protocol.h"
#include "sandbox/guest_client.h"

/*
 * One call of the guest client: a connection, what is still to be sent on it, and what has come.
 * guest_call_begin puts the hello in `out`; the caller adds its request behind it and takes the
 * answers. Release with guest_call_deinit.
 */
struct guest_call {
    const struct guest_client *client;
    const struct cancel *cancel;
    deadline_ms until;   /* DEADLINE_NEVER: GUEST_CALL_STALL_S without a byte is the end. */
    bool waits_for_ever; /* Or it is not, since the guest has nothing to say yet. */
    int fd;
    struct buf out;
    struct sv input; /* Content to be sent behind the request, borrowed, ... */
    bool has_input;  /* ... while this is set: also empty content has an end. */
    struct protocol_in in;
    bool was_greeted;
};

#define GUEST_CALL_ID 1 /* A connection has one request. */

/* A guest that neither takes nor sends a byte for so long is taken for stuck. */
#define GUEST_CALL_STALL_S 30

int guest_call_begin(struct guest_call *c, const struct guest_client *client, deadline_ms until,
                     const struct cancel *cancel, struct err *err) CHECK_RESULT;
void guest_call_deinit(struct guest_call *c);

/* Ends a frame begun in c->out; ERR_LIMIT when it is too long to be sent. */
int guest_call_add(struct protocol_out *frame, struct err *err) CHECK_RESULT;

/* Sends, and receives up to the request's next frame: 1 with it, which borrows from the call until
 * the next call of this. The guest's error frame becomes this call's error. */
int guest_call_next(struct guest_call *c, struct protocol_frame *out, struct err *err) CHECK_RESULT;

/* Sends what can be sent at once. */
int guest_call_send(struct guest_call *c, struct err *err) CHECK_RESULT;

/* A beat in two steps, so that one who beats many need not wait for each in turn: begins the call
 * and sends; takes the answer. The call is released by guest_call_deinit in every case. */
int guest_beat_send(struct guest_call *c, const struct guest_client *g, deadline_ms until,
                    struct err *err) CHECK_RESULT;
int guest_beat_answer(struct guest_call *c, struct err *err) CHECK_RESULT;

/* The next frame must be of that type, and there is one. */
int guest_call_expect(struct guest_call *c, enum protocol_type type, struct protocol_frame *out,
                      struct err *err) CHECK_RESULT;

/* Takes a frame of content, of `max` bytes at most; 0 also for the frame that ends it. */
int guest_call_take_bytes(const struct protocol_frame *f, size_t max, struct buf *out,
                          struct err *err) CHECK_RESULT;
int guest_call_exit_code(const struct protocol_frame *f, int *out, struct err *err) CHECK_RESULT;

/* ERR_PROTOCOL, and says what came. */
int guest_call_unexpected(const struct protocol_frame *f, struct err *err);

#endif
