/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_GATEWAY_SCAN_H
#define SNAFFLE_GATEWAY_SCAN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/sv.h"

/*
 * A pull scanner over JSON text: spans of the caller's bytes, no tree, no allocation, every byte
 * looked at once. It is strict (RFC 8259), but takes the literals NaN, Infinity and -Infinity that
 * engines emit. Bytes inside strings are not checked to be UTF-8.
 *
 *     scan_init(&s, text);
 *     scan_enter_object(&s);
 *     while ((rc = scan_next_key(&s, &key)) == 1) {
 *         rc = scan_skip(&s, &value);            or scan_enter_..., to go inside
 *     }
 *     rc = scan_end(&s);
 *
 * After each key, and after each scan_next_item that gave 1, exactly one value must be taken. Once
 * something failed, all that follows fails alike; s.fault says why.
 */

/* Python's own parser gives up near 1,000; tool schemas nest about 20 deep. */
#define SCAN_DEPTH_MAX 256u

enum scan_kind {
    SCAN_OBJECT = 1,
    SCAN_ARRAY,
    SCAN_STRING,
    SCAN_NUMBER,
    SCAN_TRUE,
    SCAN_FALSE,
    SCAN_NULL,
    SCAN_NONFINITE, /* NaN, Infinity, -Infinity. */
};

struct scan {
    const char *p;
    const char *end;
    const char *fault; /* A static text, or NULL. */
    unsigned depth;    /* Of what was entered and not left. */
    bool first;        /* No comma is due before the next element. */
    bool nonfinite;    /* A NaN or Infinity was met. */
    bool key_is_plain; /* The key given last has no escapes. */
};

void scan_init(struct scan *s, struct sv text);

/* The kind of the value that comes next, 0 when none can begin here. Takes nothing. */
int scan_peek(struct scan *s);

/* Takes the value that comes next and gives its bytes without the blanks around it. Returns its
 * kind, ERR_INPUT, or ERR_LIMIT for one that nests too deep. */
int scan_skip(struct scan *s, struct sv *out) CHECK_RESULT;

/* Go inside the value that comes next. ERR_INPUT when it is of another kind. */
int scan_enter_object(struct scan *s) CHECK_RESULT;
int scan_enter_array(struct scan *s) CHECK_RESULT;

/* 1: there is another one (the key's bytes without its quotes); 0: the end, which was taken. */
int scan_next_key(struct scan *s, struct sv *out_key) CHECK_RESULT;
int scan_next_item(struct scan *s) CHECK_RESULT;

/*
 * Short ways over what answers consist of most, when it comes next and is spelled plainly: a
 * string, a list of whole numbers without blanks (one at least), and a row of log-probabilities
 * with its alternatives, spelled as OpenAI, vLLM and SGLang do. false: it is something else, or
 * spelled in another way, and nothing was taken: go the long way.
 */
bool scan_string(struct scan *s, struct sv *out);
bool scan_int_list(struct scan *s, struct sv *out);
struct scan_row {
    struct sv text;
    struct sv token;        /* With its quotes. */
    struct sv logprob;      /* A negative number. */
    struct sv top_logprobs; /* The list. */
};
bool scan_row(struct scan *s, struct scan_row *out);

/* Only blanks are left. */
int scan_end(struct scan *s) CHECK_RESULT;

/* The text is one value and nothing else. Returns its kind. */
int scan_whole(struct sv text, struct sv *out) CHECK_RESULT;

#endif
