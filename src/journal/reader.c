/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "journal/boot.h"
#include "journal/crc32c.h"
#include "journal/format.h"
#include "journal/journal.h"
#include "journal/reader.h"
#include "journal/segment_list.h"

#define WINDOW_BYTES 8192 /* Read at once to find a record's head: mostly its body is skipped. */

#define TEARS_MAX 4 /* Places that are named; who wants more looks at the disk. */

struct journal_reader {
    struct segment_list list;
    size_t current; /* In the list. */
    int fd;         /* Of `open_segment`; -1: none. */
    size_t open_segment;
    struct buf window; /* Bytes of the open segment from `window_at` on. */
    uint64_t window_at;
    unsigned torn;
    struct journal_place tears[TEARS_MAX]; /* The first of them. */
    bool filtered;
    char only[FORMAT_SESSION_MAX];
    size_t only_n;
    uint32_t only_crc;
    double since;
    bool outline;
    struct journal_place place;
    bool by_places; /* Gives the records at `places`, and looks for no others. */
    struct journal_place *places;
    size_t n_places;
    size_t next_place;
};

int journal_reader_open(const char *dir, struct journal_reader **out, struct err *err) {
    struct journal_reader *r = calloc(1, sizeof *r);
    if (!r) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    r->fd = -1;
    int code = segment_list_init(&r->list, dir, err);
    if (code < 0) {
        journal_reader_close(r);
        return code;
    }
    *out = r;
    return 0;
}

int reader_open_boot(const char *dir, const char *boot, struct journal_reader **out,
                     struct err *err) {
    int code = journal_reader_open(dir, out, err);
    if (code == 0 && boot) {
        (*out)->list.only_boot = mem_strdup(boot);
        code = (*out)->list.only_boot ? 0 : err_set(err, ERR_NOMEM, "out of memory");
    }
    if (code < 0) {
        journal_reader_close(*out);
        *out = NULL;
    }
    return code;
}

int reader_open_places(const struct reader_places *from, struct journal_reader **out,
                       struct err *err) {
    struct journal_reader *r = NULL;
    int code = journal_reader_open(from->boot_path, &r, err);
    if (code < 0) {
        free(from->places);
        return code;
    }
    r->by_places = true;
    r->places = from->places;
    r->n_places = from->n;
    for (unsigned number = 1; number <= from->segments && code == 0; number++) {
        code = segment_list_add(&r->list, from->boot_path, number, err);
    }
    for (size_t i = 0; i < r->n_places; i++) {
        r->places[i].segment--; /* Its index in the list. */
    }
    if (code < 0) {
        journal_reader_close(r);
        return code;
    }
    *out = r;
    return 0;
}

void journal_reader_close(struct journal_reader *r) {
    if (!r) {
        return;
    }
    if (r->fd >= 0) {
        close(r->fd);
    }
    segment_list_deinit(&r->list);
    buf_deinit(&r->window);
    free(r->places);
    free(r);
}

unsigned journal_reader_torn(const struct journal_reader *r) {
    return r->torn;
}

static void tear(struct journal_reader *r, size_t segment, uint64_t offset) {
    if (r->torn < TEARS_MAX) {
        r->tears[r->torn] = (struct journal_place){(unsigned)segment, offset};
    }
    r->torn++;
}

/* The last two parts of a segment's path. */
static const char *short_path(const struct segment_entry *e) {
    const char *slash = strrchr(e->boot_path, '/');
    return slash ? e->path + (slash + 1 - e->boot_path) : e->path;
}

void journal_reader_put_torn(const struct journal_reader *r, char *out, size_t size) {
    size_t n = 0;
    out[0] = 0;
    for (unsigned i = 0; i < r->torn && i < TEARS_MAX && n < size; i++) {
        const struct segment_entry *e = &r->list.entries[r->tears[i].segment];
        int more = snprintf(out + n, size - n, "%s%s at byte %llu", i > 0 ? ", " : "",
                            short_path(e), (unsigned long long)r->tears[i].offset);
        n += more > 0 ? (size_t)more : 0;
    }
    if (r->torn > TEARS_MAX && n < size) {
        (void)snprintf(out + n, size - n, ", and %u more", r->torn - TEARS_MAX);
    }
}

struct journal_place journal_reader_place(const struct journal_reader *r) {
    return r->place;
}

int journal_reader_only(struct journal_reader *r, struct sv session, struct err *err) {
    if (session.n == 0 || session.n > FORMAT_SESSION_MAX) {
        return err_set(err, ERR_INPUT, "a session's name has 1 to %d bytes", FORMAT_SESSION_MAX);
    }
    memcpy(r->only, session.p, session.n);
    r->only_n = session.n;
    r->only_crc = crc32c(0, session.p, session.n);
    r->filtered = true;
    return 0;
}

void journal_reader_since(struct journal_reader *r, double time) {
    r->since = time;
}

void reader_outline(struct journal_reader *r) {
    r->outline = true;
}

const char *reader_boot_path(const struct journal_reader *r) {
    return r->list.entries[r->place.segment].boot_path;
}

const char *reader_segment_path(const struct journal_reader *r) {
    return r->list.entries[r->place.segment].path;
}

static int read_failed(const char *path, struct err *err) {
    return err_sys(err, ERR_SYS, errno, "cannot read the journal '%s'", path);
}

static int use_segment(struct journal_reader *r, size_t index, struct err *err) {
    if (r->fd >= 0 && r->open_segment == index) {
        return 0;
    }
    if (r->fd >= 0) {
        close(r->fd);
    }
    buf_reset(&r->window);
    r->open_segment = index;
    const char *path = r->list.entries[index].path;
    r->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (r->fd < 0 && errno == ENOENT) {
        return err_set(err, ERR_NOT_FOUND, "the journal '%s' is gone", path);
    }
    return r->fd < 0 ? read_failed(path, err) : 0;
}

/* Gives `n` bytes at `offset` in *out, or fewer where the file ends. */
static int look(struct journal_reader *r, uint64_t offset, size_t n, struct sv *out,
                struct err *err) {
    if (offset < r->window_at || offset + n > r->window_at + r->window.len) {
        size_t want = n > WINDOW_BYTES ? n : WINDOW_BYTES;
        buf_reset(&r->window);
        r->window_at = offset;
        if (buf_reserve(&r->window, want) < 0) {
            return err_set(err, ERR_NOMEM, "no memory for a journal record of %zu bytes", n);
        }
        while (r->window.len < want) {
            ssize_t got = pread(r->fd, r->window.data + r->window.len, want - r->window.len,
                                (off_t)(offset + r->window.len));
            if (got < 0 && errno != EINTR) {
                return read_failed(r->list.entries[r->open_segment].path, err);
            }
            if (got == 0) {
                break;
            }
            r->window.len += got > 0 ? (size_t)got : 0;
        }
    }
    struct sv have = sv_cut(buf_sv(&r->window), (size_t)(offset - r->window_at));
    *out = (struct sv){have.p, have.n < n ? have.n : n};
    return 0;
}

/* The file's size now, for bodies that are not read and lengths that are not yet believed. */
static int has_bytes(struct journal_reader *r, uint64_t end, bool *out, struct err *err) {
    struct stat st;
    if (fstat(r->fd, &st) < 0) {
        return read_failed(r->list.entries[r->open_segment].path, err);
    }
    *out = (uint64_t)st.st_size >= end;
    return 0;
}

/* What stands at a place of a segment. */
enum found {
    FOUND_RECORD,
    FOUND_OTHER,   /* A record that is not asked for. */
    FOUND_DAMAGED, /* A good head, a damaged body. */
    FOUND_END,     /* Nothing at all. */
    FOUND_PART,    /* The beginning of a record or header. */
    FOUND_GARBAGE, /* Neither, nor the beginning of one. */
};

static bool wanted(const struct journal_reader *r, const struct format_head *head) {
    bool known = head->type >= JOURNAL_SESSION_OPEN && head->type <= JOURNAL_TRACED;
    return known && head->time >= r->since &&
           (!r->filtered || (head->session_bytes == r->only_n && head->session_crc == r->only_crc));
}

static bool is_of(const struct journal_reader *r, const struct journal_record *record) {
    return !r->filtered || sv_eq(record->session, (struct sv){r->only, r->only_n});
}

/* Whose record of a call it is, and no more: its body stays unread. */
static int read_outline(struct journal_reader *r, uint64_t offset, const struct format_head *head,
                        struct journal_record *out, struct err *err) {
    struct sv name;
    if (head->session_bytes > FORMAT_SESSION_MAX || head->session_bytes > head->body_bytes) {
        return FOUND_OTHER;
    }
    int code = look(r, offset + FORMAT_HEAD_BYTES, head->session_bytes, &name, err);
    if (code < 0) {
        return code;
    }
    *out = (struct journal_record){.type = (enum journal_type)head->type,
                                   .session = name,
                                   .call = head->call,
                                   .time = head->time};
    bool good = name.n == head->session_bytes && crc32c(0, name.p, name.n) == head->session_crc;
    return good && is_of(r, out) ? FOUND_RECORD : FOUND_OTHER;
}

/* Reads the record at `offset` of the segment in use; *bytes: its length. Gives a `found` or an
 * error. */
static int read_record(struct journal_reader *r, uint64_t offset, struct journal_record *out,
                       uint64_t *bytes, struct err *err) {
    struct sv have;
    struct format_head head;
    int code = look(r, offset, FORMAT_HEAD_BYTES, &have, err);
    if (code < 0) {
        return code;
    }
    if (have.n < FORMAT_HEAD_BYTES) {
        return have.n == 0 ? FOUND_END : FOUND_PART;
    }
    if (!format_read_head(have.p, &head)) {
        return FOUND_GARBAGE;
    }
    *bytes = FORMAT_HEAD_BYTES + (uint64_t)head.body_bytes;
    bool there = false;
    code = has_bytes(r, offset + *bytes, &there, err);
    if (code < 0 || !there) {
        return code < 0 ? code : FOUND_PART;
    }
    if (!wanted(r, &head)) {
        return FOUND_OTHER;
    }
    if (r->outline && head.call > 0) {
        return read_outline(r, offset, &head, out, err);
    }
    code = look(r, offset + FORMAT_HEAD_BYTES, head.body_bytes, &have, err);
    if (code < 0) {
        return code;
    }
    if (!format_read_body(&head, have, out)) {
        return FOUND_DAMAGED;
    }
    return is_of(r, out) ? FOUND_RECORD : FOUND_OTHER;
}

static int read_header(struct journal_reader *r, struct segment_entry *e, struct err *err) {
    struct sv have;
    size_t n = 0;
    int code = look(r, 0, FORMAT_HEADER_MAX, &have, err);
    if (code < 0) {
        return code;
    }
    code = format_read_segment_header(have, &n);
    if (code == ERR_UNSUPPORTED) {
        return err_set(err, code,
                       "the journal '%s' was written by another major version of snaffle "
                       "(read it with that one)",
                       e->path);
    }
    if (code != 1) {
        return have.n == 0                                       ? FOUND_END
               : have.n < FORMAT_START_BYTES + FORMAT_HEAD_BYTES ? FOUND_PART
                                                                 : FOUND_GARBAGE;
    }
    e->offset = n;
    return FOUND_OTHER;
}

/* Whether a damaged body is so for good: nobody writes here any more, or there is more behind it
 * (the writer may just have cut back a record and be writing another in its place). */
static bool damage_lasts(struct journal_reader *r, const struct segment_entry *e, uint64_t bytes) {
    struct journal_record record;
    struct format_head head;
    struct sv have;
    if (e->final) {
        return true;
    }
    buf_reset(&r->window);
    return read_record(r, e->offset, &record, &bytes, NULL) == FOUND_DAMAGED &&
           look(r, e->offset + bytes, FORMAT_HEAD_BYTES, &have, NULL) == 0 &&
           have.n == FORMAT_HEAD_BYTES && format_read_head(have.p, &head);
}

/* Looks for the next good head behind a damaged one. The texts of agents are no danger here: they
 * are JSON, and each head has zero bytes, which no JSON has. 1: *at is where it stands. */
static int find_head(struct journal_reader *r, uint64_t from, uint64_t *at, struct err *err) {
    for (;; from++) {
        struct sv have;
        int code = look(r, from, FORMAT_HEAD_BYTES, &have, err);
        if (code < 0 || have.n < FORMAT_HEAD_BYTES) {
            return code;
        }
        struct format_head head;
        if (format_may_be_head(have.p) && format_read_head(have.p, &head)) {
            *at = from;
            return 1;
        }
    }
}

/* What is damaged must not hide what was written behind it. Gives FOUND_OTHER when reading can go
 * on there, else what was found. */
static int pass_garbage(struct journal_reader *r, struct segment_entry *e, struct err *err) {
    uint64_t at = 0;
    uint64_t bytes;
    struct journal_record record;
    bool in_header = e->offset == 0;
    int code = find_head(r, in_header ? FORMAT_START_BYTES : e->offset + 1, &at, err);
    if (code <= 0) {
        return code < 0 ? code : FOUND_GARBAGE;
    }
    buf_reset(&r->window); /* A living writer may have put a good record there since. */
    if (!in_header && !e->final &&
        read_record(r, e->offset, &record, &bytes, err) != FOUND_GARBAGE) {
        return FOUND_OTHER;
    }
    tear(r, r->current, e->offset);
    e->offset = at;
    return FOUND_OTHER;
}

/* Reads what stands at the entry's offset, and goes past it. */
static int step(struct journal_reader *r, struct segment_entry *e, struct journal_record *out,
                struct err *err) {
    uint64_t bytes = 0;
    int found =
        e->offset == 0 ? read_header(r, e, err) : read_record(r, e->offset, out, &bytes, err);
    if (found == FOUND_DAMAGED && damage_lasts(r, e, bytes)) {
        tear(r, r->current, e->offset);
        found = FOUND_OTHER;
    }
    if (found == FOUND_GARBAGE) {
        bytes = 0;
        found = pass_garbage(r, e, err);
    }
    if (found == FOUND_RECORD) {
        r->place = (struct journal_place){(unsigned)r->current, e->offset};
    }
    if (found == FOUND_RECORD || found == FOUND_OTHER) {
        e->offset += bytes;
    }
    return found;
}

/* 1: a record of the current segment; 0: none for now. */
static int next_of_segment(struct journal_reader *r, struct journal_record *out, struct err *err) {
    struct segment_entry *e = &r->list.entries[r->current];
    int code = use_segment(r, r->current, err);
    if (code < 0) {
        e->ended = code == ERR_NOT_FOUND;
        return e->ended ? 0 : code;
    }
    for (;;) {
        int found = step(r, e, out, err);
        if (found < 0 || found == FOUND_RECORD) {
            return found < 0 ? found : 1;
        }
        if (found == FOUND_OTHER) {
            continue;
        }
        if (e->final) {
            e->ended = true;
            if (found == FOUND_PART || found == FOUND_GARBAGE) {
                tear(r, r->current, e->offset);
            }
            return 0;
        }
        if (!segment_is_final(e)) {
            return 0;
        }
        /* What is there was perhaps written since we looked: once more. */
        e->final = true;
        buf_reset(&r->window);
    }
}

/* Records that are damaged by now count as torn. */
static int next_place(struct journal_reader *r, struct journal_record *out, struct err *err) {
    while (r->next_place < r->n_places) {
        r->place = r->places[r->next_place++];
        int code = journal_reader_at(r, r->place, out, err);
        if (code != ERR_CORRUPT) {
            return code < 0 ? code : 1;
        }
        tear(r, r->place.segment, r->place.offset);
    }
    return 0;
}

int journal_reader_next(struct journal_reader *r, struct journal_record *out, struct err *err) {
    if (r->by_places) {
        return next_place(r, out, err);
    }
    for (;;) {
        bool from_first = r->current == 0;
        for (; r->current < r->list.n; r->current++) {
            if (r->list.entries[r->current].ended) {
                continue;
            }
            int code = next_of_segment(r, out, err);
            if (code != 0) {
                return code;
            }
            buf_reset(&r->window); /* It may have grown when we come back. */
        }
        size_t before = r->list.n;
        int code = segment_list_refresh(&r->list, err);
        if (code < 0) {
            return code;
        }
        r->current = 0; /* From the first again: a session's records come in their order. */
        if (from_first && r->list.n == before) {
            return 0;
        }
    }
}

int journal_reader_at(struct journal_reader *r, struct journal_place place,
                      struct journal_record *out, struct err *err) {
    BUG_IF(place.segment >= r->list.n);
    uint64_t bytes;
    int code = use_segment(r, place.segment, err);
    code = code < 0 ? code : read_record(r, place.offset, out, &bytes, err);
    if (code >= 0 && code != FOUND_RECORD) {
        return err_set(err, ERR_CORRUPT, "a record of the journal '%s' is gone",
                       r->list.entries[place.segment].path);
    }
    return code < 0 ? code : 0;
}
