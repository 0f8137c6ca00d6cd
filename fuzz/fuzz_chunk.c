/* SPDX-License-Identifier: BSD-3-Clause */
/* Any answer: what is restored is an answer with as many choices, and restoring it again changes
 * nothing (but takes out another of equal keys). What is captured of it can be put together. */
#include <stdint.h>

#include "gateway/answer.h"
#include "gateway/chunk.h"
#include "gateway/restore.h"
#include "gateway/scan.h"

static void check(const struct restore_plan *plan, struct sv in) {
    struct chunk c = {0};
    struct splice work = {0};
    AUTO_BUF struct buf once = {0};
    AUTO_BUF struct buf twice = {0};
    if (chunk_parse(&c, in) == 0) {
        size_t n = c.n_choices;
        BUG_IF(restore_chunk(plan, &c, in, &work, &once) < 0);
        BUG_IF(chunk_parse(&c, buf_sv(&once)) < 0 || c.n_choices != n);
        BUG_IF(restore_chunk(plan, &c, buf_sv(&once), &work, &twice) < 0);
        BUG_IF(twice.len > once.len);
    }
    splice_deinit(&work);
    chunk_deinit(&c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct sv in = {(const char *)data, size};
    struct chunk c = {0};
    struct capture k = {0};
    struct sv value;
    AUTO_BUF struct buf answer = {0};
    for (unsigned e = 0; e < ENGINES; e++) {
        check(&(struct restore_plan){profile_of((enum engine)e), ASK_EVERYTHING}, in);
        check(&(struct restore_plan){profile_of((enum engine)e), ASK_ALTERNATIVES}, in);
    }
    int rc = chunk_parse(&c, in);
    struct chunk first = c;
    BUG_IF(rc == 0 && capture_add(&k, &c) < 0);
    BUG_IF(rc != ERR_NOMEM && chunk_parse(&c, in) != rc); /* Now it knows the beginning. */
    BUG_IF(rc == 0 &&
           (first.n_choices != c.n_choices || first.n_rows != c.n_rows || first.id.p != c.id.p ||
            first.model.n != c.model.n || first.usage.ordinal != c.usage.ordinal ||
            first.usage.value.p != c.usage.value.p));
    BUG_IF(answer_put(&k, &answer) < 0 || scan_whole(buf_sv(&answer), &value) != SCAN_OBJECT);
    (void)capture_completion_tokens(&k);
    capture_deinit(&k);
    chunk_deinit(&c);
    return 0;
}
