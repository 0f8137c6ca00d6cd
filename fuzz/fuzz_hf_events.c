/* SPDX-License-Identifier: BSD-3-Clause */
/* Whatever streams as a command's events: there is an end with a code that a command can have, or
 * an error; what was told keeps its bound; and no stream that is cut after a line tells an end that
 * the whole does not. */
#include <stdint.h>
#include <string.h>

#include "sandbox/hf/events.h"

static int read_all(struct sv stream, struct hf_events *e) {
    struct err err = {0};
    int r = hf_events_read(stream, e, &err);
    BUG_IF(r != 0 && (r != ERR_CLOSED || !err.msg[0]));
    BUG_IF(r == 0 && (e->exit_code < 0 || e->exit_code > 255));
    BUG_IF(e->err.len >= 2 * HF_EVENTS_ERR_MAX || e->out.len > stream.n);
    return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct hf_events whole = {0};
    struct hf_events part = {0};
    struct sv stream = {(const char *)data, size};
    int r = read_all(stream, &whole);
    const char *end = memrchr(stream.p, '\n', size / 2);
    int cut = read_all((struct sv){stream.p, end ? (size_t)(end - stream.p) + 1 : 0}, &part);
    BUG_IF(cut == 0 && r < 0);
    BUG_IF(part.out.len > whole.out.len);
    hf_events_deinit(&whole);
    hf_events_deinit(&part);
    return 0;
}
