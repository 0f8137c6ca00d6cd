/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_GUEST_CONN_H
#define SNAFFLE_GUEST_CONN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "guest/files.h"
#include "guest/job.h"
#include "guest/loop.h"
#include "guest/protocol.h"
#include "guest/server.h"

/* Above so much unsent output a connection takes no more of any source, so that a slow host costs
 * this, one frame of it, and no more. */
#define CONN_OUT_HIGH PROTOCOL_BYTES_MAX

/* One request at a time on a connection; this one is open. */
enum conn_request {
    CONN_NONE,
    CONN_EXEC,
    CONN_START,
    CONN_WAIT,
    CONN_KILL,
    CONN_KILL_ALL,
    CONN_READ,
    CONN_WRITE,
    CONN_WRITE_FAILED, /* Its error is sent; the rest of its content is dropped. */
};

struct conn {
    struct server *server;
    struct conn *next;
    int fd;
    struct loop_watch watch;
    struct loop_timer soon; /* Closes it, or looks at waiting frames, with a clean stack. */
    struct protocol_in in;
    struct buf out;
    int dir_fd; /* What paths count from. */
    bool said_hello;
    bool is_closing; /* After what is in `out`. */

    enum conn_request request;
    uint32_t id;
    struct job *job;          /* EXEC and START. */
    uint32_t job_number;      /* WAIT and KILL. */
    struct loop_timer expiry; /* WAIT and KILL_ALL. */
    int file_fd;              /* READ. */
    uint64_t offset;
    uint64_t left;
    struct files_write write; /* WRITE. */
};

/* Takes `fd`, non-blocking. */
int conn_new(struct server *server, int fd, struct err *err) CHECK_RESULT;
void conn_free(struct conn *c); /* Also ends what it asked for. */

/* Something that a connection may wait for has happened. */
void conn_job_changed(struct conn *c);
void conn_kill_all_ended(struct conn *c, int left);

/* What conn.c and conn_requests.c share. All of these may be called from a job's events. */
void conn_send(struct conn *c, struct protocol_out *frame); /* Ends the frame, and sends. */
void conn_send_error(struct conn *c, uint32_t id, const struct err *err);
void conn_end_request(struct conn *c);
void conn_fail(struct conn *c);   /* Closes it soon. */
void conn_resume(struct conn *c); /* Frames that wait are looked at again soon. */
bool conn_has_room(const struct conn *c);

void conn_handle(struct conn *c, const struct protocol_frame *f);
void conn_read_more(struct conn *c);         /* CONN_READ: fills `out` up to its mark. */
bool conn_takes_frame(const struct conn *c); /* Or else it has to wait for the open request. */

#endif
