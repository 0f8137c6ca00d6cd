/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_CLI_FINDINGS_H
#define SNAFFLE_CLI_FINDINGS_H

#include <jansson.h>
#include <stdbool.h>

#include "base/err.h"

/*
 * What `snaffle doctor` finds: one entry a thing, good, lacking and needed, or lacking and of use
 * only sometimes. Want of memory is told once, by findings_print.
 */
enum finding_state { FINDING_OK, FINDING_NOTE, FINDING_LACKS };

struct findings {
    json_t *list;
    bool lacks; /* Something that is required. */
    bool failed;
};

int findings_init(struct findings *f, struct err *err) CHECK_RESULT;
void findings_deinit(struct findings *f);

/* `remedy` may be NULL. */
void findings_add(struct findings *f, enum finding_state state, const char *name, const char *text,
                  const char *remedy);
void findings_addf(struct findings *f, enum finding_state state, const char *name,
                   const char *remedy, const char *fmt, ...) PRINTF_LIKE(5, 6);

/* A line each on stdout, or {"ok": ..., "findings": [...]}. */
int findings_print(const struct findings *f, bool as_json, struct err *err) CHECK_RESULT;

#endif
