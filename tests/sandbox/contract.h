/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_TESTS_SANDBOX_CONTRACT_H
#define SNAFFLE_TESTS_SANDBOX_CONTRACT_H

#include <stdbool.h>

#include "sandbox/sandbox.h"
#include "tests/testing.h"

/*
 * What every sandbox backend must do, as tests over `struct sandbox_backend`. A backend's test
 * program calls contract_run; when the backend can't work here, each case is skipped with its
 * words.
 */
int contract_run(const struct sandbox_backend *backend);

/* The same for cases of the backend's own, with the same helpers. */
int contract_run_cases(const struct sandbox_backend *backend, const struct CMUnitTest *cases,
                       size_t n);

/* For the cases. */

#define CONTRACT_RUN "contract" /* The run's label of all sandboxes made here. */
#define PATIENCE_S 60           /* For what takes milliseconds, on a machine under load. */

extern const struct sandbox_backend *contract_backend;
extern struct sandbox_machine contract_machine; /* Of all sandboxes made here. */

/* A sandbox for cases that leave it as they found it, or nearly. */
struct sandbox *contract_shared(void);

/* A sandbox of the case's own, and its end. `spec` may be NULL: no network, standard home. */
struct sandbox *contract_make(const struct sandbox_spec *spec);
void contract_end(struct sandbox *s);

/* Runs shell text that must come to an end by itself; gives its stdout, which stays valid until the
 * next call. */
const char *contract_says(struct sandbox *s, const char *shell);

/* How many processes inside have `word` in their command line. */
int contract_count(struct sandbox *s, const char *word);

/* Waits until a file inside is there: a started command has got so far. */
void contract_await_file(struct sandbox *s, const char *path);

struct contract_cases {
    const struct CMUnitTest *cases;
    size_t n;
};
extern const struct contract_cases contract_commands;
extern const struct contract_cases contract_files;
extern const struct contract_cases contract_jobs;
extern const struct contract_cases contract_life;

#endif
