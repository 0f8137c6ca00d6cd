/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_JOURNAL_FORMAT_H
#define SNAFFLE_JOURNAL_FORMAT_H

#include <stdint.h>
#include <sys/uio.h>

#include "base/buf.h"
#include "base/err.h"
#include "journal/journal.h"

/* The bytes of the journal, as docs/internals/journal.md has them. No I/O here. */

#define FORMAT_MAJOR 1
#define FORMAT_MINOR 0
#define FORMAT_START_BYTES 24 /* The segment's header without the boot's name. */
#define FORMAT_HEAD_BYTES 48
#define FORMAT_HEADER_MAX 4096       /* Of a segment: a boot's name, and room for later fields. */
#define FORMAT_BODY_MAX (512u << 20) /* A request of 64 MB, as it came and as sent, and more. */
#define FORMAT_SESSION_MAX 127       /* Two names of 63 and a dot. */
#define FORMAT_PART_NAME_MAX 63

/* The fixed head of a record. */
struct format_head {
    uint32_t body_bytes;
    uint32_t body_crc;
    uint16_t type;
    uint16_t flags;
    uint64_t call;
    double time;
    uint32_t session_bytes;
    uint32_t json_bytes;
    uint32_t n_parts;
    uint32_t session_crc;
};

/* Appends a segment's header. */
int format_add_segment_header(const char *boot, struct buf *out) CHECK_RESULT;

/* 1: good, *header_bytes long in all. 0: more bytes are needed. ERR_CORRUPT: no journal.
 * ERR_UNSUPPORTED: written by another major version. */
int format_read_segment_header(struct sv bytes, size_t *header_bytes) CHECK_RESULT;

/* The bytes that the record takes; ERR_LIMIT if a part of it is too large. */
int format_measure(const struct journal_record *r, size_t *bytes, struct err *err) CHECK_RESULT;

/* Writes the record, measured before, to `out`. */
void format_write(const struct journal_record *r, char *out);

/*
 * The same in two steps, for who leaves the checksums to another thread, and the parts' bytes where
 * they are. format_lay puts a measured record into `out` and gives the runs of memory that make it
 * up in order; `keeps`: the parts' bytes are runs of their own, not copied (format_frame_bytes are
 * needed in `out`, else all that was measured). format_seal then puts in the checksums: nothing of
 * it may change any more.
 */
#define FORMAT_SPANS_MAX (1 + 2 * JOURNAL_PARTS_MAX)
size_t format_frame_bytes(const struct journal_record *r);
unsigned format_lay(const struct journal_record *r, bool keeps, char *out, struct iovec *spans);
void format_seal(const struct iovec *spans, unsigned n);

/* False: damaged. */
bool format_read_head(const char bytes[FORMAT_HEAD_BYTES], struct format_head *out);

/* Whether these could be a head, at a glance; for who looks for one at every byte. */
bool format_may_be_head(const char bytes[FORMAT_HEAD_BYTES]);

/* False: damaged. The record's views point into `body`. */
bool format_read_body(const struct format_head *head, struct sv body, struct journal_record *out);

#endif
