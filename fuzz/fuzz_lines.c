/* SPDX-License-Identifier: BSD-3-Clause */
/* Whatever lines an event's data stands on: with the edits made in the lines it says what its
 * joined data says with them (but for line breaks, which no token has inside). */
#include <stdint.h>

#include "gateway/call.h"

static void drop_breaks(struct sv text, struct buf *out) {
    for (size_t i = 0; i < text.n; i++) {
        BUG_IF(text.p[i] != '\n' && buf_addc(out, text.p[i]) < 0);
    }
}

static void check(struct sse *s, const struct sse_event *event) {
    const struct restore_plan plans[] = {
        {profile_of(ENGINE_UNKNOWN), ASK_LOGPROBS | ASK_IDS},
        {profile_of(ENGINE_LLAMA_CPP), ASK_LOGPROBS | ASK_IDS},
        {profile_of(ENGINE_UNKNOWN), ASK_ALTERNATIVES},
    };
    for (size_t i = 0; i < 3; i++) {
        struct chunk c = {0};
        struct splice edits = {0};
        struct sse again = {0};
        struct sse_event edited;
        size_t used;
        AUTO_BUF struct buf want = {0};
        AUTO_BUF struct buf out = {0};
        AUTO_BUF struct buf flat = {0};
        AUTO_BUF struct buf flat_want = {0};
        if (chunk_parse(&c, event->data) == 0 && event->data.p == s->joined.data) {
            BUG_IF(restore_chunk(&plans[i], &c, event->data, &edits, &want) < 0);
            BUG_IF(call_edit_lines(event, &edits, &out) < 0);
            BUG_IF(sse_feed(&again, buf_sv(&out), &used, &edited, NULL) != 1 &&
                   sse_finish(&again, &edited, NULL) != 1); /* Its last CR may wait for an LF. */
            drop_breaks(edited.data, &flat);
            drop_breaks(buf_sv(&want), &flat_want);
            BUG_IF(!sv_eq(buf_sv(&flat), buf_sv(&flat_want)));
            BUG_IF(!sv_eq(edited.id, event->id) || !sv_eq(edited.type, event->type));
        }
        sse_deinit(&again);
        splice_deinit(&edits);
        chunk_deinit(&c);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct sse s = {0};
    struct sse_event event;
    size_t used;
    if (sse_feed(&s, (struct sv){(const char *)data, size}, &used, &event, NULL) == 1) {
        check(&s, &event);
    }
    sse_deinit(&s);
    return 0;
}
