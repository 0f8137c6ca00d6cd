/* SPDX-License-Identifier: BSD-3-Clause */
#include "gateway/restore.h"

#include "tests/testing.h"

#define ALL (ASK_LOGPROBS | ASK_IDS | ASK_USAGE)

struct row {
    unsigned ours;
    const char *from;
    const char *to; /* NULL: dropped. */
    enum engine engine;
};

static void check(const struct row *rows, size_t n) {
    for (size_t i = 0; i < n; i++) {
        struct chunk c = {0};
        struct splice work = {0};
        AUTO_BUF struct buf out = {0};
        struct sv from = sv_from(rows[i].from);
        assert_int_equal(chunk_parse(&c, from), 0);
        const struct restore_plan plan = {profile_of(rows[i].engine), rows[i].ours};
        bool drops = restore_drops(&plan, &c);
        assert_int_equal(restore_chunk(&plan, &c, from, &work, &out), 0);
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
        {ALL,
         "{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"},\"logprobs\":{\"content\":[]},"
         "\"token_ids\":[1,2]}],\"prompt_token_ids\":[5]}",
         "{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"},\"logprobs\":null,"
         "\"token_ids\":null}],\"prompt_token_ids\":null}"},
        {ALL,
         "{\"choices\":[{\"index\":0,\"prompt_token_ids\":[4],\"message\":{}}],\"usage\":null}",
         "{\"choices\":[{\"index\":0,\"message\":{}}],\"usage\":null}"},
        /* What the agent asked for stays. */
        {ASK_IDS,
         "{\"choices\":[{\"logprobs\":{\"content\":[{\"token\":\"a\"}]},\"token_ids\":[1]}]}",
         "{\"choices\":[{\"logprobs\":{\"content\":[{\"token\":\"a\"}]},\"token_ids\":null}]}"},
        {ASK_LOGPROBS, "{\"choices\":[{\"logprobs\":{\"content\":[]},\"token_ids\":[1]}]}",
         "{\"choices\":[{\"logprobs\":null,\"token_ids\":[1]}]}"},
    };
    (void)state;
    check(rows, sizeof rows / sizeof rows[0]);
}

static void fields_go_where_the_engine_leaves_them_out(void **state) {
    static const struct row rows[] = {
        {ALL, "{\"choices\":[{\"index\":0,\"logprobs\":{},\"delta\":{\"content\":\"x\"}}]}",
         "{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"}}]}", ENGINE_LLAMA_CPP},
        {ALL, "{\"choices\":[{\"logprobs\":{}, \"index\":0,\"delta\":{\"content\":\"x\"}}]}",
         "{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"}}]}", ENGINE_LLAMA_CPP},
        {ALL,
         "{\"choices\":[{\"delta\":{\"content\":\"x\"},\"token_ids\":[1] , \"logprobs\":{} }]}",
         "{\"choices\":[{\"delta\":{\"content\":\"x\"}  }]}", ENGINE_LLAMA_CPP},
        {ALL, "{\"choices\":[{\"token_ids\":[1],\"logprobs\":{}}]}", "{\"choices\":[{}]}",
         ENGINE_LLAMA_CPP},
        {ALL, "{\"choices\":[{\"token_ids\":[1],\"logprobs\":{},\"index\":0}]}",
         "{\"choices\":[{\"index\":0}]}", ENGINE_LLAMA_CPP},
        {ALL, "{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"}}],\"usage\":null,\"id\":1}",
         "{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"}}],\"id\":1}", ENGINE_OPENAI},
    };
    (void)state;
    check(rows, sizeof rows / sizeof rows[0]);
}

static void events_that_only_we_caused_are_dropped(void **state) {
    static const struct row rows[] = {
        {ALL, "{\"choices\":[{\"index\":0,\"delta\":{},\"token_ids\":[1]}]}", NULL},
        {ALL,
         "{\"choices\":[{\"index\":0,\"delta\":{},\"logprobs\":{\"content\":[]},"
         "\"finish_reason\":null}],\"usage\":null}",
         NULL},
        {ALL, "{\"choices\":[],\"usage\":{\"completion_tokens\":3}}", NULL},
        /* These say more. */
        {ALL, "{\"choices\":[{\"index\":0,\"delta\":{}}]}",
         "{\"choices\":[{\"index\":0,\"delta\":{}}]}"},
        {ALL,
         "{\"choices\":[{\"index\":0,\"delta\":{},\"token_ids\":[1],\"finish_reason\":\"stop\"}]}",
         "{\"choices\":[{\"index\":0,\"delta\":{},\"token_ids\":null,"
         "\"finish_reason\":\"stop\"}]}"},
        {ALL, "{\"choices\":[],\"prompt_filter_results\":[]}",
         "{\"choices\":[],\"prompt_filter_results\":[]}"},
        {ASK_LOGPROBS | ASK_IDS, "{\"choices\":[],\"usage\":{\"a\":1}}",
         "{\"choices\":[],\"usage\":{\"a\":1}}"},
        {ALL, "{\"error\":{\"message\":\"x\"}}", "{\"error\":{\"message\":\"x\"}}"},
    };
    (void)state;
    check(rows, sizeof rows / sizeof rows[0]);
}

static void what_only_one_engine_has_goes_too(void **state) {
#define SGL (ASK_LOGPROBS | ASK_IDS | ASK_IDS_AT_END)
    static const struct row rows[] = {
        {SGL,
         "{\"choices\":[{\"index\":0,\"logprobs\":{\"content\":[]},\"matched_stop\":1,"
         "\"prompt_token_ids\":[1],\"response_token_ids\":[2]}],\"usage\":{},"
         "\"sglext\":{\"input_ids\":[1],\"output_ids\":[[2]]}}",
         "{\"choices\":[{\"index\":0,\"logprobs\":null,\"matched_stop\":1}],\"usage\":{}}",
         ENGINE_SGLANG},
        {SGL, "{\"choices\":[],\"usage\":null,\"sglext\":{\"input_ids\":[1]}}", NULL,
         ENGINE_SGLANG},
        {SGL, "{\"choices\":[],\"sglext\":{\"routed_experts\":\"x\",\"input_ids\":[1]}}",
         "{\"choices\":[],\"sglext\":{\"routed_experts\":\"x\"}}", ENGINE_SGLANG},
        {ASK_COUNT,
         "{\"choices\":[{\"index\":0,\"logprobs\":-0.5,\"top_logprobs\":{\"a\":-0.5},"
         "\"delta\":{\"token_id\":7,\"role\":\"assistant\",\"content\":\"a\"}}]}",
         "{\"choices\":[{\"index\":0,\"logprobs\":null,"
         "\"delta\":{\"role\":\"assistant\",\"content\":\"a\"}}]}",
         ENGINE_TOGETHER},
        /* What the agent asked for stays: its own ids, its own usage. */
        {ASK_LOGPROBS, "{\"choices\":[],\"sglext\":{\"input_ids\":[1]}}",
         "{\"choices\":[],\"sglext\":{\"input_ids\":[1]}}", ENGINE_SGLANG},
    };
    (void)state;
    check(rows, sizeof rows / sizeof rows[0]);
}

static void alternatives_that_were_not_asked_for_are_emptied(void **state) {
    static const struct row rows[] = {
        {ASK_ALTERNATIVES,
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
        cmocka_unit_test(what_only_one_engine_has_goes_too),
        cmocka_unit_test(alternatives_that_were_not_asked_for_are_emptied),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
