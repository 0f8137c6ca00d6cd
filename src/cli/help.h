/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_CLI_HELP_H
#define SNAFFLE_CLI_HELP_H

#include <stdio.h>

#include "cli/option.h"

/* What the help of one command and that of all share. */

#define HELP_INDENT 2
#define HELP_FLAG_WIDTH 30 /* A longer flag has its text on the next line. */

size_t help_width(FILE *stream);

/* Prints words from column `at` on, broken so that lines end before `width`. */
void help_print_wrapped(const char *text, size_t at, size_t width, FILE *stream);

struct buf;
/* The sentence, and for words which there are. */
int help_option_text(const struct option *o, struct buf *out) CHECK_RESULT;

#endif
