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
#define PROTOCOL_MINOR 2

/* A command's words and environment stand in one frame: the kernel takes 128 KiB a word, and a few
 * of that size must fit. It is also the most memory that a peer can make us hold for one frame. */
#define PROTOCOL_FRAME_MAX (1024 * 1024)

/* Bytes of content in one frame: what a pipe holds, so that one read makes one frame. */
#define PROTOCOL_BYTES_MAX (64 * 1024)

/* The numbers are the wire's: they never change, and new ones are appended. */
enum protocol_type {
    PROTOCOL_HELLO = 1, /* Both ways, the first frame of each. */
    PROTOCOL_START = 2, /* Host to guest: requests. */
    PROTOCOL_SIGNAL = 3,
    PROTOCOL_WAIT = 4,
    PROTOCOL_KILL_ALL = 5,
    PROTOCOL_READ = 6,
    PROTOCOL_WRITE = 7,
    PROTOCOL_EXISTS = 8,
    PROTOCOL_BEAT = 9,
    PROTOCOL_INPUT = 10,  /* Host to guest: bytes for the open request. */
    PROTOCOL_LIMITS = 11, /* Host to guest: which limits were hit? */
    PROTOCOL_OUTPUT = 32, /* Guest to host: bytes of the open request. */
    PROTOCOL_EXIT = 33,   /* Guest to host: the request's end. */
    PROTOCOL_DONE = 34,
    PROTOCOL_ERROR = 35,
};

enum protocol_tag {
    PROTOCOL_CWD = 1,
    PROTOCOL_ARGV = 2, /* Repeated. */
    PROTOCOL_SHELL = 3,
    PROTOCOL_ENV = 4, /* Repeated, NAME=value. */
    PROTOCOL_STDOUT_PATH = 5,
    PROTOCOL_STDERR_PATH = 6,
    PROTOCOL_EXIT_PATH = 7,
    PROTOCOL_BYTES = 8,
    PROTOCOL_PATH = 9,
    PROTOCOL_MESSAGE = 10,
    PROTOCOL_PROGRAM = 11, /* Name and version, for people. */
    PROTOCOL_INTEGER = 128,
    PROTOCOL_MAJOR_VERSION = 128,
    PROTOCOL_MINOR_VERSION = 129,
    PROTOCOL_CLEAN = 130,
    PROTOCOL_DETACHED = 131,
    PROTOCOL_HAS_INPUT = 132,
    PROTOCOL_TIMEOUT_MS = 133,
    PROTOCOL_END = 134,
    PROTOCOL_STREAM = 135, /* 1 or 2. */
    PROTOCOL_JOB = 136,
    PROTOCOL_SIGNAL_NUMBER = 137,
    PROTOCOL_EXIT_CODE = 138,
    PROTOCOL_TIMED_OUT = 139,
    PROTOCOL_OUT_TOTAL = 140,
    PROTOCOL_ERR_TOTAL = 141,
    PROTOCOL_OFFSET = 142,
    PROTOCOL_LENGTH = 143,
    PROTOCOL_MODE = 144,
    PROTOCOL_COUNT = 145,
    PROTOCOL_CODE = 146, /* An error's: the position of its row in ERR_MAP, which is append-only. */
    PROTOCOL_PID = 147,
    PROTOCOL_USER = 148, /* Of a command: its uid and gid; it may gain nothing. */
};

/* Bits of the answer to PROTOCOL_LIMITS, in its count. */
enum protocol_limit {
    PROTOCOL_LIMIT_MEMORY = 1,       /* The guest counted, and killed. */
    PROTOCOL_LIMIT_PROCESSES = 2,    /* As many ran as may, or the guest itself was refused one. */
    PROTOCOL_LIMIT_HOME_FULL = 4,    /* The home's file system had no block or no inode left. */
    PROTOCOL_LIMIT_SCRATCH_FULL = 8, /* The same of /tmp or /dev/shm. */
    PROTOCOL_LIMIT_HOME_OVER = 16,   /* The guest counted the home, and killed. */
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

/* The exit status of `put` is this less the error's code (negative): 64 + its position. */
#define PROTOCOL_EXIT_ERR 64

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
