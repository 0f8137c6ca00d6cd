/* SPDX-License-Identifier: BSD-3-Clause */
#include "journal/trace_index.h"

#include <stdlib.h>
#include <string.h>

#include "base/json_valid.h"
#include "base/mem.h"

void trace_index_deinit(struct trace_index *x) {
    for (size_t i = 0; i < x->n_heads; i++) {
        free(x->heads[i]);
    }
    free(x->heads);
    free(x->entries);
    *x = (struct trace_index){0};
}

/* The entry of a call, made if it is new; NULL: no memory. */
static struct trace_entry *entry_of(struct trace_index *x, uint64_t call) {
    for (size_t i = x->n; i > 0; i--) { /* Open calls are among the last. */
        if (x->entries[i - 1].call == call) {
            return &x->entries[i - 1];
        }
    }
    if (x->n == x->cap) {
        size_t cap = x->cap ? 2 * x->cap : 64;
        void *grown = realloc(x->entries, cap * sizeof *x->entries);
        if (!grown) {
            return NULL;
        }
        x->entries = grown;
        x->cap = cap;
    }
    x->entries[x->n] = (struct trace_entry){.call = call, .head = x->n_heads};
    return &x->entries[x->n++];
}

static int add_head(struct trace_index *x, struct sv head) {
    if (!json_valid(head)) {
        return 0;
    }
    char **grown = realloc(x->heads, (x->n_heads + 1) * sizeof *grown);
    if (!grown) {
        return ERR_NOMEM;
    }
    x->heads = grown;
    char *copy = mem_strndup(head.p, head.n);
    if (!copy) {
        return ERR_NOMEM;
    }
    x->heads[x->n_heads++] = copy;
    return 0;
}

/* Of results that are there twice the first counts; of intents (sent again without what the engine
 * refused) and tails the last. */
int trace_index_add(struct trace_index *x, const struct journal_record *record,
                    struct journal_place place) {
    if (record->type == JOURNAL_SESSION_OPEN || record->type == JOURNAL_SESSION_CHANGE) {
        return add_head(x, record->head);
    }
    if (record->type == JOURNAL_SESSION_CLOSE || record->type == JOURNAL_TRACED) {
        return 0;
    }
    struct trace_entry *e = entry_of(x, record->call);
    if (!e) {
        return ERR_NOMEM;
    }
    if (record->type == JOURNAL_INTENT) {
        e->intent = place;
        e->has_intent = true;
    } else if (record->type == JOURNAL_RESULT && !e->has_result) {
        e->result = place;
        e->has_result = true;
    } else if (record->type == JOURNAL_TAIL) {
        e->tail = place;
        e->has_tail = true;
    }
    return 0;
}

void trace_index_remove(struct trace_index *x, size_t entry) {
    x->n--;
    memmove(&x->entries[entry], &x->entries[entry + 1], (x->n - entry) * sizeof *x->entries);
}

static int by_call(const void *a, const void *b) {
    const struct trace_entry *x = a;
    const struct trace_entry *y = b;
    return (x->call > y->call) - (x->call < y->call);
}

int trace_index_read(struct journal_reader *r, struct trace_index *out, struct err *err) {
    struct trace_index x = {0};
    struct journal_record record;
    int code;
    while ((code = journal_reader_next(r, &record, err)) == 1) {
        if (trace_index_add(&x, &record, journal_reader_place(r)) < 0) {
            code = err_set(err, ERR_NOMEM, "out of memory");
            break;
        }
    }
    if (code < 0) {
        trace_index_deinit(&x);
        return code;
    }
    if (x.n > 1) {
        qsort(x.entries, x.n, sizeof *x.entries, by_call);
    }
    *out = x;
    return 0;
}

struct sv trace_index_session(const struct trace_index *x, const struct trace_entry *e,
                              const char *field) {
    for (size_t i = e->head; i > 0; i--) {
        struct sv value = json_raw_get(sv_from(x->heads[i - 1]), field);
        if (value.n > 0) {
            return value;
        }
    }
    return (struct sv){0};
}
