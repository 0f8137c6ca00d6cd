/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_JOURNAL_SESSIONS_H
#define SNAFFLE_JOURNAL_SESSIONS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/sv.h"

/*
 * The sessions of a journal as they stand: what each was opened with and changed to, how many calls
 * it has, and whether its writer lives. A session that goes on after its writer's death is opened
 * anew by the next one; the opening that is latest tells.
 */
struct journal_session {
    char *name;
    json_t *head;   /* Its opening's, with the changes made in it. */
    double opened;  /* When, by its latest opening. */
    uint64_t calls; /* The highest number. */
    bool is_closed;
    bool is_traced; /* The disk has its whole trace. */
    bool is_alive;  /* Its writer lives, and has it. */
};

struct journal_sessions {
    struct journal_session *list; /* By name. */
    size_t n;
};

int journal_sessions_read(const char *dir, struct journal_sessions *out,
                          struct err *err) CHECK_RESULT;
/* Of one writer alone. */
int journal_sessions_read_boot(const char *dir, const char *boot, struct journal_sessions *out,
                               struct err *err) CHECK_RESULT;

/* NULL: there is none. */
const struct journal_session *journal_sessions_find(const struct journal_sessions *s,
                                                    struct sv name);
void journal_sessions_deinit(struct journal_sessions *s);

#endif
