/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_BASE_SV_H
#define SNAFFLE_BASE_SV_H

#include <stdbool.h>
#include <stddef.h>

/* A view of bytes that somebody else owns; not NUL-terminated. Print with "%.*s", SV_ARG(v). */
struct sv {
    const char *p;
    size_t n;
};

#define SV(literal) ((struct sv){"" literal, sizeof(literal) - 1})
#define SV_ARG(v) (int)(v).n, (v).p

struct sv sv_from(const char *cstr); /* NULL gives an empty view. */
bool sv_eq(struct sv a, struct sv b);
bool sv_eq_nocase(struct sv a, struct sv b); /* ASCII only. */
bool sv_starts_with(struct sv v, struct sv prefix);
bool sv_ends_with(struct sv v, struct sv suffix);
struct sv sv_trim(struct sv v);              /* Without blanks and tabs at both ends. */
struct sv sv_cut(struct sv v, size_t start); /* From `start` to the end; empty past it. */

/* Compares without a time that depends on where the bytes differ; for secrets. */
bool sv_eq_constant_time(struct sv a, struct sv b);

/* Finds `needle`; returns its offset, or (size_t)-1. */
size_t sv_find(struct sv v, struct sv needle);

/* A whole decimal number without sign or blanks, at most `max`; false leaves *out alone. */
bool sv_parse_u64(struct sv v, unsigned long long max, unsigned long long *out);

#endif
