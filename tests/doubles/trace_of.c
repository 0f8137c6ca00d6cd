/* SPDX-License-Identifier: BSD-3-Clause */
/* snaffle-trace-of JOURNAL: prints the traces of all sessions of a journal, judged. */
#include <stdio.h>

#include "journal/sessions.h"
#include "journal/trace.h"
#include "train/judge.h"

static int print_session(const char *journal, const char *session, struct err *err) {
    AUTO_BUF struct buf text = {0};
    struct judge judge = {.agent = NULL};
    struct trace_summary summary;
    const struct trace_source from = {
        .journal_dir = journal, .session = session, .judge = judge_call, .arg = &judge};
    int r = trace_to_buf(&from, &text, &summary, err);
    if (r == 0 && fwrite(text.data, 1, text.len, stdout) != text.len) {
        r = err_set(err, ERR_SYS, "cannot write");
    }
    return r;
}

static int print_all(const char *journal, struct err *err) {
    struct journal_sessions all = {0};
    int r = journal_sessions_read(journal, &all, err);
    for (size_t i = 0; i < all.n && r == 0; i++) {
        r = print_session(journal, all.list[i].name, err);
    }
    journal_sessions_deinit(&all);
    return r;
}

int main(int argc, char **argv) {
    struct err err = {0};
    if (argc != 2) {
        (void)fputs("usage: snaffle-trace-of JOURNAL\n", stderr);
        return 2;
    }
    if (print_all(argv[1], &err) < 0) {
        (void)fprintf(stderr, "snaffle-trace-of: %s\n", err.msg);
        return 1;
    }
    return 0;
}
