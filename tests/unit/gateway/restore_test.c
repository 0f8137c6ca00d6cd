/* SPDX-License-Identifier: BSD-3-Clause */
#include "gateway/restore.h"

#include "tests/testing.h"

#define ALL .logprobs = true, .token_ids = true, .usage = true

struct row {
    struct restore_plan plan;
    const char *from;
    const char *to; /* NULL: dropped. */
};

static void check(const struct row *rows, size_t n) {
    for (size_t i = 0; i < n; i++) {
        struct chunk c = {0};
        struct splice work = {0};
        AUTO_BUF struct buf out = {0};
        struct sv from = sv_from(rows[i].from);
        assert_int_equal(chunk_parse(&c, from), 0);
        bool drops = restore_drops(&rows[i].plan, &c);
        assert_int_equal(restore_chunk(&rows[i].plan, &c, from, &work, &out), 0);
        if (drops != !rows[i].to || (rows[i].to && strcmp(rows[i].to, buf_cstr(&out)) != 0)) {
            fail_msg("of:   %s\nwant: %s\ngot:  %s", rows[i].from,
                     rows[i].to ? rows[i].to : "dropped", drops ? "dropped" : buf_cstr(&out));
        }
        splice_deinit(&work);
        chunk_deinit(&c);
    }
}

static void fields_become_null_as_most_engines_write_them(void **state) {
    static const struct row rows[] = {
        {{ALL},
         "{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"},\"logprobs\":{\"content\":[]},"
         "\"token_ids\":[1,2]}],\"prompt_token_ids\":[5]}",
         "{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"},\"logprobs\":null,"
         "\"token_ids\":null}],\"prompt_token_ids\":null}"},
        {{ALL},
         "{\"choices\":[{\"index\":0,\"prompt_token_ids\":[4],\"message\":{}}],\"usage\":null}",
         "{\"choices\":[{\"index\":0,\"prompt_token_ids\":null,\"message\":{}}],\"usage\":null}"},
        /* What the agent asked for stays. */
        {{.token_ids = true},
         "{\"choices\":[{\"logprobs\":{\"content\":[{\"token\":\"a\"}]},\"token_ids\":[1]}]}",
         "{\"choices\":[{\"logprobs\":{\"content\":[{\"token\":\"a\"}]},\"token_ids\":null}]}"},
        {{.logprobs = true},
         "{\"choices\":[{\"logprobs\":{\"content\":[]},\"token_ids\":[1]}]}",
         "{\"choices\":[{\"logprobs\":null,\"token_ids\":[1]}]}"},
    };
    (void)state;
    check(rows, sizeof rows / sizeof rows[0]);
}

static void fields_go_where_the_engine_leaves_them_out(void **state) {
#define LLAMA .engine = ENGINE_LLAMA_CPP, ALL
    static const struct row rows[] = {
        {{LLAMA},
         "{\"choices\":[{\"index\":0,\"logprobs\":{},\"delta\":{\"content\":\"x\"}}]}",
         "{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"}}]}"},
        {{LLAMA},
         "{\"choices\":[{\"logprobs\":{}, \"index\":0,\"delta\":{\"content\":\"x\"}}]}",
         "{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"}}]}"},
        {{LLAMA},
         "{\"choices\":[{\"delta\":{\"content\":\"x\"},\"token_ids\":[1] , \"logprobs\":{} }]}",
         "{\"choices\":[{\"delta\":{\"content\":\"x\"}  }]}"},
        {{LLAMA}, "{\"choices\":[{\"token_ids\":[1],\"logprobs\":{}}]}", "{\"choices\":[{}]}"},
        {{LLAMA},
         "{\"choices\":[{\"token_ids\":[1],\"logprobs\":{},\"index\":0}]}",
         "{\"choices\":[{\"index\":0}]}"},
        {{.engine = ENGINE_OPENAI, ALL},
         "{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"}}],\"usage\":null,\"id\":1}",
         "{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"}}],\"id\":1}"},
    };
    (void)state;
    check(rows, sizeof rows / sizeof rows[0]);
}

static void events_that_only_we_caused_are_dropped(void **state) {
    static const struct row rows[] = {
        {{ALL}, "{\"choices\":[{\"index\":0,\"delta\":{},\"token_ids\":[1]}]}", NULL},
        {{ALL},
         "{\"choices\":[{\"index\":0,\"delta\":{},\"logprobs\":{\"content\":[]},"
         "\"finish_reason\":null}],\"usage\":null}",
         NULL},
        {{ALL}, "{\"choices\":[],\"usage\":{\"completion_tokens\":3}}", NULL},
        /* These say more. */
        {{ALL},
         "{\"choices\":[{\"index\":0,\"delta\":{}}]}",
         "{\"choices\":[{\"index\":0,\"delta\":{}}]}"},
        {{ALL},
         "{\"choices\":[{\"index\":0,\"delta\":{},\"token_ids\":[1],\"finish_reason\":\"stop\"}]}",
         "{\"choices\":[{\"index\":0,\"delta\":{},\"token_ids\":null,"
         "\"finish_reason\":\"stop\"}]}"},
        {{ALL},
         "{\"choices\":[],\"prompt_filter_results\":[]}",
         "{\"choices\":[],\"prompt_filter_results\":[]}"},
        {{.logprobs = true, .token_ids = true},
         "{\"choices\":[],\"usage\":{\"a\":1}}",
         "{\"choices\":[],\"usage\":{\"a\":1}}"},
        {{ALL}, "{\"error\":{\"message\":\"x\"}}", "{\"error\":{\"message\":\"x\"}}"},
    };
    (void)state;
    check(rows, sizeof rows / sizeof rows[0]);
}

static void alternatives_that_were_not_asked_for_are_emptied(void **state) {
    static const struct row rows[] = {
        {{.top_logprobs = true},
         "{\"choices\":[{\"logprobs\":{\"content\":[{\"token\":\"a\",\"logprob\":-1.0,"
         "\"top_logprobs\":[{\"token\":\"b\"}]},{\"token\":\"c\",\"top_logprobs\":[]}]}}]}",
         "{\"choices\":[{\"logprobs\":{\"content\":[{\"token\":\"a\",\"logprob\":-1.0,"
         "\"top_logprobs\":[]},{\"token\":\"c\",\"top_logprobs\":[]}]}}]}"},
    };
    (void)state;
    check(rows, sizeof rows / sizeof rows[0]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_become_null_as_most_engines_write_them),
        cmocka_unit_test(fields_go_where_the_engine_leaves_them_out),
        cmocka_unit_test(events_that_only_we_caused_are_dropped),
        cmocka_unit_test(alternatives_that_were_not_asked_for_are_emptied),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
