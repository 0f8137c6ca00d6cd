/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_CLI_TURN_H
#define SNAFFLE_CLI_TURN_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* What the commands show of one recorded call, read from a trace line or from a turn of
 * result.json; both have these fields. Views into the object. */
struct turn {
    long long number;
    const char *role;   /* "agent"; "" when not said. */
    const char *finish; /* "tool_calls"; how the call ended, where there is no such reason. */
    long long n_prompt; /* -1: not known. */
    long long n_completion;
    bool has_logp;
    double logp_sum; /* Of all completion tokens. */
    size_t n_logps;
    double latency_s;
    const char *trainable;  /* "yes", "no"; "-": not judged. */
    const json_t *findings; /* An array, or NULL. */
};

void turn_read(const json_t *line, struct turn *out);

/* The findings with blanks between; `out` gets "" when there are none. Cut to its size. */
void turn_findings(const struct turn *t, char *out, size_t size);

/* "4 ms", "12.34 s" */
void turn_latency(const struct turn *t, char out[32]);

/* Writes a log-probability's mean ("-0.123"), or "-" where there is none. */
void turn_mean_logp(double sum, size_t n, char out[32]);

#endif
