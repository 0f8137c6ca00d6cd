/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "rollout/session_impl.h"

/* As the reference: files of the work folder, two levels deep, under 64 KiB. */
#define FILES_DEPTH "2"
#define FILE_BYTES_MAX (64u * 1024)
#define LISTING_MAX (64u * 1024) /* 32 names of 4 KB (the longest path) would not fit; 2 KB do. */
#define READ_STEP (1u << 20)     /* One frame of the guest's protocol carries it. */

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

/* The names, NUL after each, sorted; nothing where there is no work folder. */
static int list_files(struct rollout_session *s, struct buf *names, struct err *err) {
    static const char script[] = "cd -- \"$1\" 2>/dev/null || exit 0\n"
                                 "find . -maxdepth " FILES_DEPTH " -type f -size -129 -printf "
                                 "'%s %P\\0' 2>/dev/null | sort -z -k2 | head -z -n 64\n";
    const char *argv[] = {"bash", "--noprofile", "--norc",   "-c",
                          script, "list-files",  s->workdir, NULL};
    struct sandbox_output out = {0};
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
    if (r >= 0 && buf_add_sv(names, buf_sv(&out.out)) < 0) {
        r = err_set(err, ERR_NOMEM, "out of memory");
    }
    sandbox_output_deinit(&out);
    return r;
}

/* Takes the next "SIZE NAME" off the listing; false at its end. */
static bool next_name(struct sv *listing, unsigned long long *size, struct sv *name) {
    while (listing->n > 0) {
        const char *end = memchr(listing->p, '\0', listing->n);
        struct sv entry = {listing->p, end ? (size_t)(end - listing->p) : listing->n};
        *listing = sv_cut(*listing, end ? entry.n + 1 : entry.n);
        size_t space = sv_find(entry, SV(" "));
        if (space != (size_t)-1 && sv_parse_u64((struct sv){entry.p, space}, UINT32_MAX, size)) {
            *name = sv_cut(entry, space + 1);
            return name->n > 0;
        }
    }
    return false;
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
    AUTO_BUF struct buf names = {0};
    struct err e = {0};
    if (list_files(s, &names, &e) < 0) {
        session_finding(s, "files_unreadable", "%s", e.msg);
        return;
    }
    struct sv listing = buf_sv(&names), name;
    unsigned long long size = 0;
    while (s->n_files < SESSION_FILES_MAX && !cancel_thrown(s->control.hard) &&
           next_name(&listing, &size, &name)) {
        if (size < FILE_BYTES_MAX) {
            collect_file(s, name);
        }
    }
}
