/* SPDX-License-Identifier: BSD-3-Clause */
#include "rollout/mirror.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/json.h"
#include "base/json_loose.h"
#include "base/log.h"
#include "base/mem.h"

#define CHUNK (4u << 20)            /* A read inside: a few round trips for a whole journal. */
#define SEGMENT_LOOK (128ull << 20) /* From here on a next segment may have begun. */
#define END_ATTEMPTS                                                                               \
    5 /* Nobody asks again after this: six seconds of a bad network are waited out. */
#define END_PAUSE_MS 400 /* Doubled with each. */
#define BOOT "/inside"   /* The writer's folder here. */

struct mirror {
    struct sandbox *sandbox;
    char *path;
    char *dir;
    struct journal *to;
    const char *session;
    int lock; /* The writer's folder, held as a writer holds it: what grows is not torn. */
    unsigned segment;
    uint64_t copied; /* Of the segment. */
    uint64_t total;
    struct journal_reader *reader;
    bool is_closed; /* The session's end was taken over. */
    uint64_t last_call;
    double failing_since;
    struct gateway_session_stats stats;
};

static int begin(struct mirror *m, const struct mirror_options *o, struct err *err) {
    m->sandbox = o->sandbox;
    m->to = o->to;
    m->session = o->session;
    m->segment = 1;
    m->path = mem_strdup(o->path);
    m->dir = mem_strdup(o->dir);
    AUTO_FREE char *boot = mem_printf("%s" BOOT, o->dir);
    if (!m->path || !m->dir || !boot) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    int r = file_remove_tree(m->dir, err);
    r = r < 0 ? r : file_mkdirs(boot, 0700, err);
    if (r < 0) {
        return r;
    }
    m->lock = open(boot, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (m->lock < 0 || flock(m->lock, LOCK_EX) < 0) {
        return err_sys(err, ERR_SYS, errno, "cannot lock the folder '%s'", boot);
    }
    return journal_reader_open(m->dir, &m->reader, err);
}

int mirror_new(const struct mirror_options *o, struct mirror **out, struct err *err) {
    struct mirror *m = calloc(1, sizeof *m);
    if (!m) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    m->lock = -1;
    m->is_closed = true; /* Nothing was opened yet. */
    int r = begin(m, o, err);
    if (r < 0) {
        mirror_free(m);
        return r;
    }
    *out = m;
    return 0;
}

/* --- what the records say --- */

static uint64_t completion_tokens(const struct journal_record *r) {
    static const char *const fields[] = {"completion_tokens", NULL};
    for (unsigned i = 0; i < r->n_parts; i++) {
        if (sv_eq(r->parts[i].name, SV("usage"))) {
            AUTO_JSON json_t *usage = json_loose(r->parts[i].bytes, fields);
            json_int_t n = json_integer_value(json_object_get(usage, "completion_tokens"));
            return n > 0 ? (uint64_t)n : 0;
        }
    }
    return 0;
}

/* As the gateway counts (tell_session there). */
static void count_answer(struct mirror *m, const json_t *head, double time) {
    const char *end = json_string_value(json_object_get(head, "end"));
    json_int_t status = json_integer_value(json_object_get(head, "status"));
    if (!end || strcmp(end, "client_abort") == 0) {
        return;
    }
    if (strcmp(end, "complete") == 0 && (status < 502 || status > 504)) {
        m->stats.failed_in_a_row = 0;
        m->stats.failing_for_s = 0;
        return;
    }
    m->stats.failed_calls++;
    if (m->stats.failed_in_a_row++ == 0) {
        m->failing_since = time;
    }
    m->stats.failing_for_s = time - m->failing_since;
}

static void count(struct mirror *m, const struct journal_record *r) {
    static const char *const fields[] = {"end", "status", "tail_open", NULL};
    if (r->type == JOURNAL_INTENT && r->call > m->last_call) { /* Else it was sent again. */
        m->last_call = r->call;
        m->stats.calls++;
    } else if (r->type == JOURNAL_TAIL) {
        m->stats.completion_tokens += completion_tokens(r);
    } else if (r->type == JOURNAL_RESULT) {
        AUTO_JSON json_t *head = json_loose(r->head, fields);
        m->stats.calls_ended++;
        count_answer(m, head, r->time);
        if (!json_is_true(json_object_get(head, "tail_open"))) {
            m->stats.completion_tokens += completion_tokens(r);
        }
    }
    m->stats.calls_open =
        (unsigned)(m->stats.calls > m->stats.calls_ended ? m->stats.calls - m->stats.calls_ended
                                                         : 0);
}

void mirror_stats(const struct mirror *m, struct gateway_session_stats *out) {
    *out = m->stats;
}

/* --- taking over --- */

static int take_records(struct mirror *m, struct err *err) {
    struct journal_record record;
    int r;
    while ((r = journal_reader_next(m->reader, &record, err)) == 1) {
        count(m, &record);
        record.session = sv_from(m->session);
        r = journal_append_wait(m->to, &record, err);
        if (r < 0) {
            break;
        }
        m->is_closed = record.type == JOURNAL_SESSION_CLOSE;
    }
    return r;
}

static int keep(const struct mirror *m, struct sv bytes, struct err *err) {
    AUTO_FREE char *path = mem_printf("%s" BOOT "/%06u.log", m->dir, m->segment);
    AUTO_CLOSE int fd =
        path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600) : -1;
    if (fd < 0) {
        return err_sys(err, ERR_SYS, errno, "cannot write the copy of a journal in '%s'", m->dir);
    }
    return fd_write_all(fd, bytes.p, bytes.n, DEADLINE_NEVER, NULL, err);
}

/* Copies what the segment has by now. */
static int copy_segment(struct mirror *m, struct err *err) {
    AUTO_FREE char *path = mem_printf("%s/%06u.log", m->path, m->segment);
    AUTO_BUF struct buf bytes = {0};
    if (!path) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    do {
        buf_reset(&bytes);
        int r = sandbox_read_file(m->sandbox, path, m->copied, CHUNK, &bytes, err);
        if (r < 0) {
            return r;
        }
        m->copied += bytes.len;
        m->total += bytes.len;
        if (m->total > MIRROR_BYTES_MAX) {
            return err_set(err, ERR_LIMIT, "the journal inside has more than %llu MiB",
                           MIRROR_BYTES_MAX >> 20);
        }
        r = bytes.len > 0 ? keep(m, buf_sv(&bytes), err) : 0;
        if (r < 0) {
            return r;
        }
    } while (bytes.len == CHUNK);
    return 0;
}

/* 1: the writer has begun another; what it wrote here before that is copied. */
static int next_segment(struct mirror *m, struct err *err) {
    AUTO_FREE char *path = mem_printf("%s/%06u.log", m->path, m->segment + 1);
    int r = path ? sandbox_exists(m->sandbox, path, err) : err_set(err, ERR_NOMEM, "out of memory");
    if (r <= 0) {
        return r;
    }
    r = copy_segment(m, err);
    m->segment += r == 0;
    m->copied = r == 0 ? 0 : m->copied;
    return r < 0 ? r : 1;
}

/* Of the current segment and those behind it. A next one is looked for when there may be one. */
static int copy(struct mirror *m, bool to_the_end, struct err *err) {
    int r = copy_segment(m, err);
    while (r == 0 && (to_the_end || m->copied >= SEGMENT_LOOK)) {
        r = next_segment(m, err);
        if (r <= 0) {
            return r;
        }
        r = copy_segment(m, err);
    }
    return r;
}

int mirror_step(struct mirror *m, struct err *err) {
    int r = copy(m, /* to_the_end= */ false, err);
    return r < 0 ? r : take_records(m, err);
}

/* The network's and the provider's own; what is copied already is not asked for again. */
static bool may_pass(int code) {
    return code == ERR_CONNECT || code == ERR_CLOSED || code == ERR_UPSTREAM || code == ERR_TIMEOUT;
}

static int copy_the_rest(struct mirror *m, struct err *err) {
    int64_t pause_ms = END_PAUSE_MS;
    int r = copy(m, /* to_the_end= */ true, err);
    for (int n = 1; n < END_ATTEMPTS && may_pass(r); n++, pause_ms *= 2) {
        clock_sleep_ms(pause_ms);
        r = copy(m, /* to_the_end= */ true, err);
    }
    return r;
}

int mirror_end(struct mirror *m, struct err *err) {
    int r = copy_the_rest(m, err);
    close(TAKE_FD(m->lock)); /* What is cut short now stays so. */
    int taken = take_records(m, r < 0 ? NULL : err);
    r = r < 0 ? r : taken;
    if (r == 0 && journal_reader_torn(m->reader) > 0) {
        r = err_set(err, ERR_CORRUPT, "the journal inside is damaged in %u places",
                    journal_reader_torn(m->reader));
    }
    return r;
}

void mirror_free(struct mirror *m) {
    struct err e = {0};
    if (!m) {
        return;
    }
    struct journal_record close_record = {.type = JOURNAL_SESSION_CLOSE,
                                          .session = sv_from(m->session),
                                          .head = SV("{\"reason\":\"lost\"}")};
    if (!m->is_closed && journal_append_wait(m->to, &close_record, &e) < 0) {
        log_warning("%s: its end is not in the journal: %s", m->session, e.msg);
    }
    journal_reader_close(m->reader);
    if (m->lock >= 0) {
        close(m->lock);
    }
    if (m->dir && file_remove_tree(m->dir, &e) < 0) {
        log_warning("%s: the copy of its journal is left: %s", m->session, e.msg);
    }
    free(m->path);
    free(m->dir);
    free(m);
}
