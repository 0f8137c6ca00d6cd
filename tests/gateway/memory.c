/* SPDX-License-Identifier: BSD-3-Clause */
#include "memory.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/mem.h"
#include "gateway/session.h"
#include "gateway/worker.h"

static _Thread_local bool is_gateway;
static atomic_int left = -1;     /* Good ones before the one that fails; negative: none does. */
static atomic_bool for_good;     /* And all after it. */
static atomic_uint failed_count; /* Since it was armed. */

static bool fails(void) {
    if (!is_gateway || left < 0) {
        return false;
    }
    if (left > 0) {
        left--;
        return false;
    }
    left = for_good ? 0 : -1;
    failed_count++;
    errno = ENOMEM;
    return true;
}

/* The linker's names. NOLINTBEGIN(bugprone-reserved-identifier) */
void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
/* NOLINTEND(bugprone-reserved-identifier) */

void *__wrap_malloc(size_t n) {
    return fails() ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size) {
    return fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t n) {
    return fails() ? NULL : __real_realloc(p, n);
}

void memory_fail_at(int n, bool stays) {
    failed_count = 0;
    for_good = stays;
    left = n;
}

unsigned memory_failures(void) {
    return failed_count;
}

void memory_heal(void) {
    for_good = false;
    left = -1;
}

static void mark_worker(struct worker *w, void *arg) {
    (void)w;
    (void)arg;
    is_gateway = true;
}

static void mark_writer(void *arg, int code) {
    (void)arg;
    (void)code;
    is_gateway = true;
}

void memory_mark(struct gateway *g, struct journal *j) {
    const struct journal_record any = {
        .type = JOURNAL_SESSION_CHANGE, .session = SV("mark"), .head = SV("{}")};
    workers_call(g, mark_worker, NULL);
    BUG_IF(journal_append(j, &any, mark_writer, NULL, NULL) < 0 || journal_flush(j, NULL) < 0);
}

unsigned long long memory_open_calls(const struct gateway *g) {
    return g->calls_open;
}
