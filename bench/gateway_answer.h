/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_BENCH_GATEWAY_ANSWER_H
#define SNAFFLE_BENCH_GATEWAY_ANSWER_H

#include <stdbool.h>
#include <stddef.h>

/*
 * What the engine and the load maker of the gateway's bench both know: requests, and the answers to
 * them, built of fixed pseudo-random words so that the one can check the other's bytes. The answer
 * is spelled as vLLM does: a first event with the prompt's ids, 200 tokens with top-5 rows and ids,
 * usage, [DONE].
 */

#define ANSWER_TOKENS 200
#define ANSWER_EVENTS (ANSWER_TOKENS + 3)

struct text {
    char *p;
    size_t n;
};

struct answer {
    struct text all;
    size_t ends[ANSWER_EVENTS]; /* Where each event ends in it. */
};

/* A request whose prompt has about so many bytes. `asks`: for log-probabilities and ids. */
struct text request_make(size_t prompt_bytes, bool asks);

/* The answer to a request of so many bytes. `with_fields` false: what an agent gets that did not
 * ask for log-probabilities and ids. */
struct answer answer_make(size_t request_bytes, bool with_fields);

/* One event of a paced stream, stamped with a time. Bytes written into `out` of EVENT_MAX. */
#define EVENT_MAX 2048u
#define EVENT_MARK "\"content\":\"@" /* Then STAMP_DIGITS hexadecimal digits. */
#define STAMP_DIGITS 16
size_t event_make(char *out, long long stamp_ns, bool is_last);

long long now_ns(void);

#endif
