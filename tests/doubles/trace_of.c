/* SPDX-License-Identifier: BSD-3-Clause */
/* snaffle-trace-of JOURNAL: prints the traces of all sessions of a journal, judged. */
#include <stdio.h>

#include "base/mem.h"
#include "journal/trace.h"
#include "train/judge.h"

static int print_session(const char *journal, struct sv name, struct err *err) {
    AUTO_BUF struct buf text = {0};
    AUTO_FREE char *session = mem_strndup(name.p, name.n);
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
    struct journal_reader *reader;
    struct journal_record record;
    int r = journal_reader_open(journal, &reader, err);
    if (r < 0) {
        return r;
    }
    while ((r = journal_reader_next(reader, &record, err)) == 1) {
        if (record.type == JOURNAL_SESSION_OPEN) {
            r = print_session(journal, record.session, err);
            if (r < 0) {
                break;
            }
        }
    }
    journal_reader_close(reader);
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
