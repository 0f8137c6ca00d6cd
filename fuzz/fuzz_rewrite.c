/* SPDX-License-Identifier: BSD-3-Clause */
/* Any request: what is sent is a request that asks for what was to be asked for, can be made again
 * of the agent's bytes and the splices of the record, and nothing more is injected into it. */
#include <stdint.h>

#include "gateway/rewrite.h"
#include "journal/splices.h"

static void check(const struct request *r, const struct rewrite_options *o) {
    struct rewrite w = {0};
    struct rewrite second = {0};
    struct request sent;
    AUTO_BUF struct buf splices = {0};
    AUTO_BUF struct buf again = {0};
    BUG_IF(rewrite_request(&w, r, o, NULL) < 0);
    if (w.n_edits > 0) {
        BUG_IF(rewrite_put_splices(&w, r->text, &splices) < 0);
        BUG_IF(splices_apply(r->text, buf_sv(&splices), &again) < 0);
        BUG_IF(!sv_eq(buf_sv(&again), buf_sv(&w.text)));
        BUG_IF(request_parse(&sent, buf_sv(&w.text), NULL) < 0);
        BUG_IF((w.wanted & ASK_LOGPROBS) && !request_asks_logprobs(&sent));
        BUG_IF(request_is_stream(&sent) != request_is_stream(r));
        BUG_IF(request_n(&sent) != request_n(r));
        BUG_IF(rewrite_request(&second, &sent, o, NULL) < 0 || second.ours != 0);
    }
    rewrite_deinit(&w);
    rewrite_deinit(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct request r;
    if (request_parse(&r, (struct sv){(const char *)data, size}, NULL) < 0) {
        return 0;
    }
    for (int e = 0; e < ENGINES; e++) {
        const struct profile *p = profile_of((enum engine)e);
        check(&r, &(struct rewrite_options){.profile = p, .level = LEVEL_TOKENS});
        check(&r, &(struct rewrite_options){p, LEVEL_LOGPROBS, ASK_IDS, 5, 7, true, false, NULL});
        check(&r, &(struct rewrite_options){p, LEVEL_TOKENS, 0, 3, 9, true, true, "gpt-5\"x"});
        check(&r, &(struct rewrite_options){.profile = p, .disable_thinking = true});
    }
    return 0;
}
