/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_CLI_TEXT_H
#define SNAFFLE_CLI_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/sv.h"

/*
 * Text on a terminal. What comes from an agent or a model may hold escape sequences; nothing
 * reaches a terminal but through text_printable.
 */

/* Appends `v` on one line and harmless: line feeds, tabs and control characters as \n, \t, \x1b,
 * bytes that are not UTF-8 as U+FFFD. */
int text_printable(struct sv v, struct buf *out) CHECK_RESULT;

/* Columns that printable text takes. */
size_t text_width(struct sv v);

/* The longest front of `v` that takes at most `columns`. */
struct sv text_front(struct sv v, size_t columns);

/* Columns of the terminal behind `stream`; 0 when it is none (then nothing is cut). */
size_t text_columns(FILE *stream);

/* A terminal, and the user did not say NO_COLOR or TERM=dumb. */
bool text_has_colour(FILE *stream);

/* "0.4 s", "12 s", "3 m 20 s", "2 h 5 m" */
void text_duration(double seconds, char out[32]);

/* "950", "12.3k", "4.0M" */
void text_amount(double n, char out[16]);

#endif
