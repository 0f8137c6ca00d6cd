/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/kept.h"

#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"

#define RUNS_DEFAULT "./runs"
#define RESULT_BYTES_MAX (1u << 30) /* Token ids and log-probabilities of a long rollout. */

int kept_open(const struct args *a, struct store **out, struct err *err) {
    const char *dir = args_text(a, "runs");
    dir = dir ? dir : RUNS_DEFAULT;
    if (!file_exists(dir)) {
        return err_set(err, ERR_NOT_FOUND,
                       "there are no runs in '%s' ('snaffle run TASK' makes one, --runs names "
                       "another place)",
                       dir);
    }
    return store_open(dir, out, err);
}

int kept_find(const struct args *a, struct store **store, struct store_row *row, struct err *err) {
    struct store *s = NULL;
    int r = kept_open(a, &s, err);
    if (r < 0) {
        return r;
    }
    r = store_find(s, a->operands[0], row, err);
    if (r < 0) {
        store_close(s);
        return r;
    }
    *store = s;
    return 0;
}

static int from_journal(const struct store *s, const struct store_row *row, trace_line_fn line,
                        void *arg, struct err *err) {
    AUTO_BUF struct buf text = {0};
    AUTO_FREE char *journal = store_journal_path(s, row->run);
    AUTO_FREE char *session = mem_printf("%s.%u", row->rollout, row->attempt ? row->attempt : 1);
    struct trace_summary summary = {0};
    if (!journal || !session) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    int r = trace_to_buf(&(struct trace_source){.journal_dir = journal, .session = session}, &text,
                         &summary, err);
    struct sv rest = buf_sv(&text);
    while (r >= 0 && rest.n > 0) {
        size_t n = sv_find(rest, SV("\n"));
        n = n == (size_t)-1 ? rest.n : n;
        r = line(arg, (struct sv){rest.p, n}, err);
        rest = sv_cut(rest, n + 1);
    }
    return r < 0 ? r : 0;
}

int kept_trace(const struct store *s, const struct store_row *row, trace_line_fn line, void *arg,
               struct err *err) {
    int r = trace_read(row->dir, line, arg, err);
    if (r != ERR_NOT_FOUND) {
        return r;
    }
    AUTO_FREE char *journal = store_journal_path(s, row->run);
    if (journal && !file_exists(journal)) {
        return 0; /* Nothing was recorded: a rollout that failed early, or in black_box mode. */
    }
    return from_journal(s, row, line, arg, err);
}

int kept_result(const struct store_row *row, json_t **out, struct err *err) {
    AUTO_FREE char *path = file_join(row->dir, "result.json");
    if (!path) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    *out = NULL;
    return file_exists(path) ? json_load(path, RESULT_BYTES_MAX, out, err) : 0;
}
