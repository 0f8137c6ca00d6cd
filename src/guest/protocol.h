/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_GUEST_PROTOCOL_H
#define SNAFFLE_GUEST_PROTOCOL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/sv.h"

/*
 * The guest protocol's frames (docs/internals/guest-protocol.md), without any I/O. A frame is
 * u32be length (of what follows it), u8 type, u32be id, fields; a field is u8 tag, u32be length,
 * value. Tags from PROTOCOL_INTEGER up hold a u64be. Unknown tags are skipped.
 *
 *     struct protocol_out o = protocol_begin(&buf, PROTOCOL_READ, 1);
 *     protocol_add(&o, PROTOCOL_PATH, sv_from("notes.txt"));
 *     protocol_add_u64(&o, PROTOCOL_LENGTH, 4096);
 *     r = protocol_end(&o);
 */

/* Another major version is refused. A minor one only adds types and fields that may be ignored. */
#define PROTOCOL_MAJOR 1
#define PROTOCOL_MINOR 0

/* A command's words and environment stand in one frame: the kernel takes 128 KiB a word, and a few
 * of that size must fit. It is also the most memory that a peer can make us hold for one frame. */
#define PROTOCOL_FRAME_MAX (1024 * 1024)

/* Bytes of content in one frame: what a pipe holds, so that one read makes one frame. */
#define PROTOCOL_BYTES_MAX (64 * 1024)

enum protocol_type {
    PROTOCOL_HELLO = 1, /* Both ways, the first frame of each. */
    PROTOCOL_START,     /* Host to guest: requests. */
    PROTOCOL_SIGNAL,
    PROTOCOL_WAIT,
    PROTOCOL_KILL_ALL,
    PROTOCOL_READ,
    PROTOCOL_WRITE,
    PROTOCOL_EXISTS,
    PROTOCOL_BEAT,
    PROTOCOL_INPUT,       /* Host to guest: bytes for the open request. */
    PROTOCOL_OUTPUT = 32, /* Guest to host: bytes of the open request. */
    PROTOCOL_EXIT,        /* Guest to host: the request's end. */
    PROTOCOL_DONE,
    PROTOCOL_ERROR,
};

enum protocol_tag {
    PROTOCOL_CWD = 1,
    PROTOCOL_ARGV, /* Repeated. */
    PROTOCOL_SHELL,
    PROTOCOL_ENV, /* Repeated, NAME=value. */
    PROTOCOL_STDOUT_PATH,
    PROTOCOL_STDERR_PATH,
    PROTOCOL_EXIT_PATH,
    PROTOCOL_BYTES,
    PROTOCOL_PATH,
    PROTOCOL_MESSAGE,
    PROTOCOL_PROGRAM, /* Name and version, for people. */
    PROTOCOL_INTEGER = 128,
    PROTOCOL_MAJOR_VERSION = PROTOCOL_INTEGER,
    PROTOCOL_MINOR_VERSION,
    PROTOCOL_CLEAN,
    PROTOCOL_DETACHED,
    PROTOCOL_HAS_INPUT,
    PROTOCOL_TIMEOUT_MS,
    PROTOCOL_END,
    PROTOCOL_STREAM, /* 1 or 2. */
    PROTOCOL_JOB,
    PROTOCOL_SIGNAL_NUMBER,
    PROTOCOL_EXIT_CODE,
    PROTOCOL_TIMED_OUT,
    PROTOCOL_OUT_TOTAL,
    PROTOCOL_ERR_TOTAL,
    PROTOCOL_OFFSET,
    PROTOCOL_LENGTH,
    PROTOCOL_MODE,
    PROTOCOL_COUNT,
    PROTOCOL_CODE, /* An error's: the position of its row in ERR_MAP, which is append-only. */
    PROTOCOL_PID,
};

struct protocol_frame {
    uint8_t type;
    uint32_t id;
    struct sv fields; /* Well formed. */
};

/* Bytes to frames. All zero is ready; release with protocol_in_deinit. */
struct protocol_in {
    struct buf buf;
    size_t at; /* Where the next frame begins in it. */
};

/* Takes any piece of the stream. Frames given before it are void. */
int protocol_feed(struct protocol_in *in, const void *bytes, size_t n) CHECK_RESULT;

/* 1 with the next frame, which borrows from `in` until the next feed; 0 when more bytes are needed;
 * ERR_PROTOCOL for what is no frame, for good. */
int protocol_next(struct protocol_in *in, struct protocol_frame *out, struct err *err) CHECK_RESULT;
void protocol_in_deinit(struct protocol_in *in);

/* 0 when `fields` is a row of well-formed fields. */
int protocol_check(struct sv fields, struct err *err) CHECK_RESULT;

/* Takes the next field off well-formed `rest`; false at its end. */
bool protocol_each(struct sv *rest, uint8_t *tag, struct sv *value);

/* The first field of that tag in well-formed `fields`; `fallback` when there is none. */
bool protocol_find(struct sv fields, uint8_t tag, struct sv *out);
uint64_t protocol_u64(struct sv fields, uint8_t tag, uint64_t fallback);

/* Frames to bytes, appended to a buffer. Failures (no memory, past the frame's or the buffer's
 * limit) stick and are given by protocol_end, which then leaves the buffer as it was. */
struct protocol_out {
    struct buf *buf;
    size_t start;
    int failed;
};

struct protocol_out protocol_begin(struct buf *buf, uint8_t type, uint32_t id);
void protocol_add(struct protocol_out *o, uint8_t tag, struct sv value);
void protocol_add_u64(struct protocol_out *o, uint8_t tag, uint64_t value);
int protocol_end(struct protocol_out *o) CHECK_RESULT;

/* Fields alone, without a frame's head: files hold them so. protocol_fields_end ends them. */
struct protocol_out protocol_fields_begin(struct buf *buf);
int protocol_fields_end(struct protocol_out *o) CHECK_RESULT;

#endif
