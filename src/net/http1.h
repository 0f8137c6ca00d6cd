/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_NET_HTTP1_H
#define SNAFFLE_NET_HTTP1_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/sv.h"

/*
 * A strict HTTP/1.0 and 1.1 codec without I/O, for both sides of the wire. It touches no socket and
 * holds no global state: bytes in, spans out. What is ambiguous is refused, never guessed, since
 * two readers that guess differently are how requests are smuggled.
 *
 *     struct http1_head_parser p = {.kind = HTTP1_REQUEST};
 *     int rc = http1_head_feed(&p, in, &used, &head, err);   1: head is there, 0: more, < 0:
 * refused
 */

/* nginx takes 4 x 8 KB and Node 16 KB; agents send long tokens, so double that again. */
#define HTTP1_HEAD_MAX (64u * 1024)
/* Browsers send about 30 fields and gateways add as many; Apache's limit is 100. */
#define HTTP1_FIELDS_MAX 128u
/* A chunk's size needs 16 digits; extensions are hardly used, and unread by everybody. */
#define HTTP1_CHUNK_LINE_MAX 4096u
/* Trailers carry a checksum or a status; a quarter of a head is ample. */
#define HTTP1_TRAILER_MAX (16u * 1024)

enum http1_kind { HTTP1_REQUEST, HTTP1_RESPONSE };

/* Where one field line stands in the head's raw bytes. Read through the functions below. */
struct http1_field {
    uint32_t line_at, line_n;   /* The whole line with its CR LF. */
    uint32_t name_n;            /* The name begins the line. */
    uint32_t value_at, value_n; /* Without blanks and tabs at both ends. */
};

/*
 * A parsed head. All views point into `raw`, which the feeder of the bytes owns; to keep a head
 * longer, copy the raw bytes and call http1_head_rebase.
 */
struct http1_head {
    enum http1_kind kind;
    struct sv raw;        /* Start line to blank line, byte for byte. */
    struct sv method;     /* Requests: as spelled (methods are case-sensitive). */
    struct sv target;     /* Requests: origin, absolute or asterisk form. */
    struct sv start_line; /* With its CR LF. */
    struct sv reason;     /* Responses: may be empty. */
    int status;           /* Responses: 100 to 999. */
    int minor;            /* HTTP/1.minor: 0 or 1. */
    bool has_length;
    bool chunked;
    bool expect_continue; /* Requests: the client waits for a 100 before it sends its body. */
    bool connection_close;
    bool connection_keep_alive;
    bool upgrade; /* Connection lists "upgrade" and an Upgrade field is there. */
    uint64_t content_length;
    size_t n_fields;
    struct http1_field fields[HTTP1_FIELDS_MAX];
};

/* All zero but for `kind` is a parser before its first byte. The holder calls _deinit. */
struct http1_head_parser {
    enum http1_kind kind;
    int refuse_status; /* Once refused: what to answer (400, 414, 431, 501, 505); 502 on responses.
                        */
    struct buf carry;  /* The bytes so far of a head that came in pieces. */
    size_t scanned;
    size_t skipped; /* Empty lines dropped before a request line. */
    bool given;     /* A head was given: the next bytes start another. */
};

/*
 * Reads on. 1: the head is whole, `head` is filled and `*used` bytes of `in` belonged to it (its
 * views point into `in` when it came in one piece, else into the parser, valid until the parser's
 * next use). 0: all of `in` was taken, more is needed. ERR_PROTOCOL, ERR_LIMIT, ERR_UNSUPPORTED:
 * refused, and the message says why; the connection can't be read further.
 */
int http1_head_feed(struct http1_head_parser *p, struct sv in, size_t *used,
                    struct http1_head *head, struct err *err) CHECK_RESULT;
bool http1_head_started(const struct http1_head_parser *p); /* Part of a head is held. */
void http1_head_parser_reset(struct http1_head_parser *p);  /* Forgets what it holds. */
void http1_head_parser_deinit(struct http1_head_parser *p);

/* Lets the views point into `raw`, a copy of head->raw's bytes. */
void http1_head_rebase(struct http1_head *head, const char *raw);

/* Field access, in wire order; duplicates are kept. Names compare without case. */
struct sv http1_name(const struct http1_head *head, size_t i);
struct sv http1_value(const struct http1_head *head, size_t i);
struct sv http1_line(const struct http1_head *head, size_t i); /* Raw, with CR LF. */
/* The index of the first field of that name at or after `from`, or -1. */
int http1_find(const struct http1_head *head, struct sv name, size_t from);
/* The first field's value; {NULL, 0} when there is none. */
struct sv http1_get(const struct http1_head *head, struct sv name);
/* The key that a request shows: the bearer key, or what some clients send in its place (X-Api-Key).
 * Empty: none. */
struct sv http1_shown_key(const struct http1_head *head);
/* Some field of that name lists `word` as one of its comma-separated elements. */
bool http1_lists(const struct http1_head *head, struct sv name, struct sv word);

/* Concerns this connection only: Connection and what it names, Keep-Alive, Proxy-*, TE, Trailer,
 * Transfer-Encoding, Upgrade. */
bool http1_is_hop_by_hop(const struct http1_head *head, struct sv name);
/* Says how the body is framed: Content-Length or Transfer-Encoding. */
bool http1_is_framing(struct sv name);

/* The sender is willing to go on with the connection after this message. */
bool http1_keep_alive(const struct http1_head *head);

/* The path and query of the target, whichever form it has ("/" when absent); "*" stays. */
struct sv http1_target_path(const struct http1_head *head);

/*
 * Body framing. The decoder runs beside bytes that may be forwarded as they are: it says how many
 * raw bytes belong to the message and gives the payload in place.
 *
 *     while ((rc = http1_body_next(&b, in, &used, &span, err)) == HTTP1_DATA) {
 *         use(span);
 *         in = sv_cut(in, used);
 *     }
 */
enum http1_framing { HTTP1_NO_BODY, HTTP1_LENGTH, HTTP1_CHUNKED, HTTP1_UNTIL_CLOSE };

enum {
    HTTP1_MORE = 0, /* All of `in` was used; the message goes on. */
    HTTP1_DATA = 1, /* `span` is payload; call again with the rest. */
    HTTP1_END = 2,  /* The message ends after `used` bytes; what follows is the next one. */
};

struct http1_body {
    enum http1_framing framing;
    bool done;
    uint64_t payload_bytes; /* Seen so far. */
    uint64_t left;          /* Of the length, or of the chunk. */
    int state;              /* Of the chunk decoder. */
    uint32_t line_n;        /* Bytes of the chunk line or trailer section so far. */
    uint32_t digits;
};

void http1_body_of_request(struct http1_body *b, const struct http1_head *head);
/* `head_request`: it answers a HEAD. A 1xx head (but 101) is no final answer: the caller parses on.
 * After 101 the connection is no longer HTTP; the body is HTTP1_NO_BODY. */
void http1_body_of_response(struct http1_body *b, const struct http1_head *head, bool head_request);

int http1_body_next(struct http1_body *b, struct sv in, size_t *used, struct sv *span,
                    struct err *err) CHECK_RESULT;
/* The peer sent no more. 0: that is the message's proper end. ERR_CLOSED: it was cut off.
 * `truncated`: a TLS stream without its closing alert, which ends no body of unknown length. */
int http1_body_eof(struct http1_body *b, bool truncated, struct err *err) CHECK_RESULT;

/*
 * Writing. Names and values that could break the head are refused with ERR_INPUT. A head is a start
 * line, fields, one framing, and the end; the framing fields come from here alone.
 */
int http1_put_request(struct buf *out, struct sv method, struct sv target,
                      struct err *err) CHECK_RESULT;
int http1_put_status(struct buf *out, int status, struct sv reason, struct err *err) CHECK_RESULT;
int http1_put_field(struct buf *out, struct sv name, struct sv value, struct err *err) CHECK_RESULT;
/* The fields of `head` as raw lines, but those that are hop-by-hop, framing, or in the NULL-ended
 * list `drop` (may be NULL). */
int http1_put_end_to_end(struct buf *out, const struct http1_head *head, const char *const *drop,
                         struct err *err) CHECK_RESULT;
/* `length` counts with HTTP1_LENGTH only; HTTP1_UNTIL_CLOSE writes "Connection: close". */
int http1_put_framing(struct buf *out, enum http1_framing framing, uint64_t length,
                      struct err *err) CHECK_RESULT;
int http1_put_end(struct buf *out, struct err *err) CHECK_RESULT;

#define HTTP1_CHUNK_HEAD_MAX 18u /* 16 hex digits and CR LF. */
#define HTTP1_CHUNK_TAIL SV("\r\n")
#define HTTP1_LAST_CHUNK SV("0\r\n\r\n")
/* Writes a chunk's size line and gives it; payload and HTTP1_CHUNK_TAIL follow. */
struct sv http1_chunk_head(char out[HTTP1_CHUNK_HEAD_MAX], size_t payload_n);

/* "Not Found"; "Unknown" for others. */
const char *http1_reason(int status);

#endif
