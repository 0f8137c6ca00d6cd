/* SPDX-License-Identifier: BSD-3-Clause */
/* snaffle-trace-of JOURNAL SESSION: prints the trace of one session of a journal, judged. */
#include <stdio.h>

#include "journal/trace.h"
#include "train/judge.h"

int main(int argc, char **argv) {
    AUTO_BUF struct buf text = {0};
    struct err err = {0};
    struct judge judge = {.agent = NULL};
    struct trace_summary summary;
    if (argc != 3) {
        (void)fputs("usage: snaffle-trace-of JOURNAL SESSION\n", stderr);
        return 2;
    }
    struct trace_source from = {
        .journal_dir = argv[1], .session = argv[2], .judge = judge_call, .arg = &judge};
    if (trace_to_buf(&from, &text, &summary, &err) < 0) {
        (void)fprintf(stderr, "snaffle-trace-of: %s\n", err.msg);
        return 1;
    }
    return fwrite(text.data, 1, text.len, stdout) == text.len ? 0 : 1;
}
