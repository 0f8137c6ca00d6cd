/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_SERVER_MCP_OUTBOX_H
#define SNAFFLE_SERVER_MCP_OUTBOX_H

#include <stdbool.h>

#include "base/cancel.h"
#include "base/err.h"
#include "base/sv.h"

/* Lines on their way to a descriptor that may block: a thread of its own writes them, in their
 * order. Any thread adds. */
struct outbox;

#define OUTBOX_NOTES_MAX (1u << 20) /* Above it a reader is slow: news are left out. */
#define OUTBOX_HIGH (64u << 20)     /* Above it nothing more should be asked for. */
#define OUTBOX_FLUSH_MS 5000        /* At the end a reader has so long for the rest. */

/* `gone` is thrown when writing fails; `hard` gives up what is not written. Keeps both. */
int outbox_new(int fd, struct cancel *gone, const struct cancel *hard, struct outbox **out,
               struct err *err) CHECK_RESULT;
void outbox_add(struct outbox *o, struct sv line);          /* And a line feed. */
void outbox_add_note(struct outbox *o, struct sv line);     /* Unless there is much already. */
void outbox_wait(struct outbox *o, const struct cancel *c); /* Until it is below OUTBOX_HIGH. */
/* After all was written, or could not be, or OUTBOX_FLUSH_MS. Accepts NULL. */
void outbox_free(struct outbox *o);

#endif
