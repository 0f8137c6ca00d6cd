/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "rollout/session_impl.h"

/* As the reference: files of the work folder, two levels deep, under 64 KiB. */
#define FILES_DEPTH "2"
#define FILE_BYTES_MAX (64u * 1024)
#define LISTING_MAX                                                                                \
    (1u << 20)               /* Some 30,000 files: more are no work to be looked at one by one.    \
                              */
#define READ_STEP (1u << 20) /* One frame of the guest's protocol carries it. */

/* Where a file of the agent's choosing ends: reading past the end gives nothing, so the size of a
 * file needs no door of its own. */
static int find_size(struct rollout_session *s, const char *path, uint64_t *size, struct err *err) {
    uint64_t low = 0, high = READ_STEP;
    for (;;) {
        AUTO_BUF struct buf byte = {0};
        int r = sandbox_read_file(s->sandbox, path, high, 1, &byte, err);
        if (r < 0) {
            return r;
        }
        if (byte.len == 0) {
            break;
        }
        low = high;
        high *= 2;
    }
    while (high - low > READ_STEP / 2) { /* To half a step: all that a tail needs. */
        uint64_t middle = low + (high - low) / 2;
        AUTO_BUF struct buf byte = {0};
        int r = sandbox_read_file(s->sandbox, path, middle, 1, &byte, err);
        if (r < 0) {
            return r;
        }
        if (byte.len > 0) {
            low = middle;
        } else {
            high = middle;
        }
    }
    *size = high;
    return 0;
}

static int read_from(struct rollout_session *s, const char *path, uint64_t offset, struct buf *out,
                     struct err *err) {
    for (;;) {
        if (cancel_thrown(s->control.hard)) {
            return err_set(err, ERR_CANCELLED, "cancelled");
        }
        size_t before = out->len;
        int r = sandbox_read_file(s->sandbox, path, offset, READ_STEP, out, err);
        if (r < 0) {
            return r;
        }
        size_t got = out->len - before;
        offset += got;
        if (got == 0 || out->len >= ROLLOUT_LOG_MAX) {
            return 0;
        }
    }
}

int session_read_log(struct rollout_session *s, struct buf *out, struct err *err) {
    if (!s->log_path || s->agent == SESSION_AGENT_NOT_STARTED) {
        return 0;
    }
    uint64_t size = 0, offset = 0;
    int r = find_size(s, s->log_path, &size, err);
    if (r < 0) {
        return r;
    }
    AUTO_BUF struct buf log = {0};
    if (size > ROLLOUT_LOG_MAX) {
        offset = size - ROLLOUT_LOG_MAX;
        r = buf_addf(&log, "[%llu bytes before this are left out]\n", (unsigned long long)offset);
    }
    if (r >= 0) {
        r = read_from(s, s->log_path, offset, &log, err);
    }
    if (r < 0) {
        return r;
    }
    return buf_add_sv(out, buf_sv(&log)) < 0 ? err_set(err, ERR_NOMEM, "out of memory") : 0;
}

/* "SIZE NAME", NUL after each, in no order; nothing where there is no work folder. One program, and
 * no shell or sort beside it: this is asked of every rollout. */
static int list_files(struct rollout_session *s, struct buf *listing, struct err *err) {
    AUTO_FREE char *folder = mem_printf("%s/.", s->workdir); /* Also behind a link. */
    const char *argv[] = {"find",  folder, "-maxdepth", FILES_DEPTH, "-type", "f",
                          "-size", "-129", "-printf",   "%s %P\\0",  NULL};
    struct sandbox_output out = {0};
    if (!folder) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    int r = sandbox_exec(s->sandbox,
                         &(struct sandbox_exec){.argv = argv,
                                                .clean = true,
                                                .cwd = "/",
                                                .timeout_s = BUDGET_COLLECT_S,
                                                .output_max = LISTING_MAX,
                                                .cancel = s->control.hard},
                         &out, err);
    if (r >= 0 && out.timed_out) {
        r = err_set(err, ERR_TIMEOUT, "listing the work folder took more than %.0f s",
                    BUDGET_COLLECT_S);
    }
    struct sv text = buf_sv(&out.out);
    if (out.truncated) { /* What is left of the first entry is none. */
        const char *end = memchr(text.p, '\0', text.n);
        text = sv_cut(text, end ? (size_t)(end - text.p) + 1 : text.n);
    }
    if (r >= 0 && buf_add_sv(listing, text) < 0) {
        r = err_set(err, ERR_NOMEM, "out of memory");
    }
    sandbox_output_deinit(&out);
    return r;
}

/* Takes the next "SIZE NAME" off the listing, if the file may be shown; false at its end. */
static bool next_name(struct sv *listing, struct sv *name) {
    while (listing->n > 0) {
        const char *end = memchr(listing->p, '\0', listing->n);
        struct sv entry = {listing->p, end ? (size_t)(end - listing->p) : listing->n};
        *listing = sv_cut(*listing, end ? entry.n + 1 : entry.n);
        size_t space = sv_find(entry, SV(" "));
        unsigned long long size = 0;
        if (space != (size_t)-1 && space + 1 < entry.n &&
            sv_parse_u64((struct sv){entry.p, space}, UINT32_MAX, &size) && size < FILE_BYTES_MAX) {
            *name = sv_cut(entry, space + 1);
            return true;
        }
    }
    return false;
}

/* As bytes: the same in every locale. */
static int by_bytes(const void *a, const void *b) {
    const struct sv *x = a;
    const struct sv *y = b;
    int order = memcmp(x->p, y->p, x->n < y->n ? x->n : y->n);
    return order ? order : (x->n > y->n) - (x->n < y->n);
}

/* The first names in their order, at most `max`, which borrow from the listing. */
static size_t first_names(struct sv listing, struct sv *out, size_t max) {
    struct sv name;
    size_t n = 0;
    while (next_name(&listing, &name)) {
        if (n == max && by_bytes(&name, &out[n - 1]) >= 0) {
            continue;
        }
        size_t at = n < max ? n++ : n - 1;
        for (; at > 0 && by_bytes(&name, &out[at - 1]) < 0; at--) {
            out[at] = out[at - 1];
        }
        out[at] = name;
    }
    return n;
}

static void collect_file(struct rollout_session *s, struct sv name) {
    AUTO_FREE char *path = mem_printf("%s/%.*s", s->workdir, SV_ARG(name));
    struct session_file *file = &s->files[s->n_files];
    file->path = mem_strndup(name.p, name.n);
    if (!path || !file->path) {
        free(TAKE(file->path));
        return;
    }
    struct err ignored = {0}; /* The file stands in files_extra. */
    file->unreadable =
        sandbox_read_file(s->sandbox, path, 0, FILE_BYTES_MAX, &file->text, &ignored) < 0;
    s->n_files++;
}

void session_collect_files(struct rollout_session *s) {
    if (s->files_collected) {
        return;
    }
    s->files_collected = true;
    AUTO_BUF struct buf listing = {0};
    struct sv names[SESSION_FILES_MAX];
    struct err e = {0};
    if (list_files(s, &listing, &e) < 0) {
        session_finding(s, "files_unreadable", "%s", e.msg);
        return;
    }
    size_t n = first_names(buf_sv(&listing), names, ARRAY_LEN(names));
    for (size_t i = 0; i < n && !cancel_thrown(s->control.hard); i++) {
        collect_file(s, names[i]);
    }
}
