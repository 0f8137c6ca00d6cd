/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_SANDBOX_HF_ANSWER_H
#define SNAFFLE_SANDBOX_HF_ANSWER_H

#include <jansson.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/sv.h"

/* What the Hub and sbx-server answer, read without any I/O. `head` is an answer's raw head. */

/* Appends somebody else's words as one line, at most `max` bytes of them. */
int hf_answer_line(struct sv said, size_t max, struct buf *out) CHECK_RESULT;

/* Appends what the Hub says is wrong, as one line: {"error": text | [texts]}, {"errors":
 * [{"message"}]}, a header, or text that is no page. Nothing when it says nothing. */
int hf_answer_fault(struct sv head, struct sv body, struct buf *out) CHECK_RESULT;

/* Appends the server's own words, {"error": text}, as one line. 1; 0 when they are not there: the
 * answer is the proxy's. */
int hf_answer_server_fault(struct sv body, struct buf *out) CHECK_RESULT;

/* The address of a list's next page, which the caller frees, if it is below `endpoint`: the token
 * goes there. NULL: there is none. */
char *hf_answer_next_page(struct sv head, const char *endpoint);

/* Appends a page of jobs to the array. ERR_PROTOCOL. */
int hf_answer_jobs(struct sv body, json_t *all, struct err *err) CHECK_RESULT;

/* From a list: id to stage. The caller owns it; NULL: no memory. */
json_t *hf_answer_stages(const json_t *jobs);

/* Appends the lines of a job's log, " | " before each. */
int hf_answer_log(struct sv body, struct buf *out) CHECK_RESULT;

/* The protocol that /health names, 1 to 99: the first names none. */
int hf_answer_protocol(struct sv body, int *out, struct err *err) CHECK_RESULT;

/* A regular file's size, of a stat. ERR_INPUT: it is something else. */
int hf_answer_size(struct sv body, const char *path, uint64_t *out, struct err *err) CHECK_RESULT;

#endif
