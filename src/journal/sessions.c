/* SPDX-License-Identifier: BSD-3-Clause */
#include "journal/sessions.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "journal/boot.h"
#include "journal/reader.h"

/* A session while the journal is read. */
struct entry {
    struct journal_session s;
    char *boot; /* Where its latest opening stands. */
};

struct work {
    struct entry *list; /* By name. */
    size_t n;
    size_t cap;
};

static void session_deinit(struct journal_session *s) {
    free(s->name);
    json_decref(s->head);
}

static void work_deinit(struct work *w) {
    for (size_t i = 0; i < w->n; i++) {
        session_deinit(&w->list[i].s);
        free(w->list[i].boot);
    }
    free(w->list);
}

static int compare(struct sv a, struct sv b) {
    int order = memcmp(a.p, b.p, a.n < b.n ? a.n : b.n);
    return order ? order : (a.n > b.n) - (a.n < b.n);
}

/* Where the session of this name stands, or would. */
static size_t place_of(const struct work *w, struct sv name) {
    size_t from = 0;
    size_t to = w->n;
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        if (compare(sv_from(w->list[middle].s.name), name) < 0) {
            from = middle + 1;
        } else {
            to = middle;
        }
    }
    return from;
}

/* NULL: there is none. */
static struct entry *find(const struct work *w, struct sv name) {
    size_t at = place_of(w, name);
    return at < w->n && sv_eq(sv_from(w->list[at].s.name), name) ? &w->list[at] : NULL;
}

/* NULL: no memory. */
static struct entry *find_or_make(struct work *w, struct sv name) {
    struct entry *e = find(w, name);
    if (e) {
        return e;
    }
    if (w->n == w->cap) {
        size_t cap = w->cap ? 2 * w->cap : 64;
        struct entry *grown = realloc(w->list, cap * sizeof *grown);
        if (!grown) {
            return NULL;
        }
        w->list = grown;
        w->cap = cap;
    }
    char *copy = mem_strndup(name.p, name.n);
    if (!copy) {
        return NULL;
    }
    size_t at = place_of(w, name);
    memmove(&w->list[at + 1], &w->list[at], (w->n - at) * sizeof *w->list);
    w->list[at] = (struct entry){.s = {.name = copy}};
    w->n++;
    return &w->list[at];
}

static uint64_t calls_before(const json_t *head) {
    json_int_t n = json_integer_value(json_object_get(head, "calls_before"));
    return n > 0 ? (uint64_t)n : 0;
}

static int take_opening(struct work *w, const struct journal_record *r, const char *boot) {
    struct entry *e = find_or_make(w, r->session);
    AUTO_FREE char *where = mem_strdup(boot);
    json_t *head = NULL;
    if (!e || !where) {
        return ERR_NOMEM;
    }
    if (e->boot && r->time < e->s.opened) {
        return 0;
    }
    if (json_parse(r->head, "opening", &head, NULL) < 0 || !json_is_object(head)) {
        json_decref(head);
        head = json_object(); /* Nothing can be made of it, but it is the latest. */
    }
    json_decref(e->s.head);
    free(e->boot);
    e->boot = TAKE(where);
    e->s.head = head;
    e->s.opened = r->time;
    e->s.calls = calls_before(head);
    e->s.is_closed = e->s.is_traced = false;
    return head ? 0 : ERR_NOMEM;
}

static int take_change(struct entry *e, struct sv text) {
    AUTO_JSON json_t *head = NULL;
    if (json_parse(text, "change", &head, NULL) < 0 || !json_is_object(head)) {
        return 0;
    }
    return json_object_update(e->s.head, head) < 0 ? ERR_NOMEM : 0;
}

static int take(struct work *w, const struct journal_record *r, const char *boot) {
    if (r->session.n == 0 || memchr(r->session.p, 0, r->session.n)) {
        return 0; /* Nobody opens one of such a name. */
    }
    if (r->type == JOURNAL_SESSION_OPEN) {
        return take_opening(w, r, boot);
    }
    struct entry *e = find(w, r->session);
    if (!e || strcmp(e->boot, boot) != 0) {
        return 0;
    }
    if (r->type == JOURNAL_SESSION_CHANGE) {
        return take_change(e, r->head);
    }
    e->s.is_traced = e->s.is_traced || r->type == JOURNAL_TRACED;
    e->s.is_closed = e->s.is_closed || r->type == JOURNAL_SESSION_CLOSE;
    e->s.calls = r->call > e->s.calls ? r->call : e->s.calls;
    return 0;
}

static int read_all(struct work *w, struct journal_reader *reader, struct err *err) {
    struct journal_record r;
    int rc;
    reader_outline(reader);
    while ((rc = journal_reader_next(reader, &r, err)) == 1) {
        if (take(w, &r, reader_boot_path(reader)) < 0) {
            return err_set(err, ERR_NOMEM, "out of memory");
        }
    }
    return rc;
}

/* Takes the sessions out. */
static int give(struct work *w, struct journal_sessions *out, struct err *err) {
    struct journal_session *list = calloc(w->n + 1, sizeof *list);
    if (!list) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    for (size_t i = 0; i < w->n; i++) {
        list[i] = w->list[i].s;
        list[i].is_alive = boot_alive(w->list[i].boot);
        w->list[i].s = (struct journal_session){0};
    }
    *out = (struct journal_sessions){list, w->n};
    return 0;
}

int journal_sessions_read(const char *dir, struct journal_sessions *out, struct err *err) {
    return journal_sessions_read_boot(dir, NULL, out, err);
}

int journal_sessions_read_boot(const char *dir, const char *boot, struct journal_sessions *out,
                               struct err *err) {
    struct journal_reader *reader = NULL;
    struct work w = {0};
    int rc = reader_open_boot(dir, boot, &reader, err);
    rc = rc < 0 ? rc : read_all(&w, reader, err);
    rc = rc < 0 ? rc : give(&w, out, err);
    journal_reader_close(reader);
    work_deinit(&w);
    return rc;
}

static int by_name(const void *name, const void *session) {
    return compare(*(const struct sv *)name,
                   sv_from(((const struct journal_session *)session)->name));
}

const struct journal_session *journal_sessions_find(const struct journal_sessions *s,
                                                    struct sv name) {
    return s->n ? bsearch(&name, s->list, s->n, sizeof *s->list, by_name) : NULL;
}

void journal_sessions_deinit(struct journal_sessions *s) {
    for (size_t i = 0; i < s->n; i++) {
        session_deinit(&s->list[i]);
    }
    free(s->list);
    *s = (struct journal_sessions){0};
}
