/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>

#include "base/buf.h"
#include "base/mem.h"
#include "gateway/chunk.h"

#include "tests/testing.h"

static void parse(struct chunk *c, const char *text) {
    assert_int_equal(chunk_parse(c, sv_from(text)), 0);
}

#define assert_span(span, text) assert_true(sv_eq((span), sv_from(text)))

static void chunks_that_begin_alike_read_like_the_first(void **state) {
    static const char *const texts[] = {
        "{\"id\":\"a\",\"created\":17, \"model\":\"m\",\"system_fingerprint\":\"f\",\"choices\":"
        "[{\"index\":1,\"delta\":{\"content\":\"x\"}}],\"usage\":null}",
        "{\"id\":\"a\",\"created\":17, \"model\":\"m\",\"system_fingerprint\":\"f\",\"choices\":"
        "[{\"index\":2,\"delta\":{\"content\":\"y\"}}],\"usage\":{\"x\":1}}",
    };
    struct chunk c = {0};
    (void)state;
    parse(&c, texts[0]);
    assert_int_equal(c.choices[0].index, 1);
    for (int i = 0; i < 2; i++) {
        parse(&c, texts[1]);
        assert_span(c.id, "\"a\"");
        assert_true(c.id.p > texts[1] && c.id.p < texts[1] + strlen(texts[1]));
        assert_span(c.created, "17");
        assert_span(c.model, "\"m\"");
        assert_span(c.system_fingerprint, "\"f\"");
        assert_int_equal(c.n_choices, 1);
        assert_int_equal(c.choices[0].index, 2);
        assert_span(c.choices[0].content, "\"y\"");
        assert_span(c.usage.value, "{\"x\":1}");
        assert_int_equal(c.usage.ordinal, 5);
    }
    chunk_deinit(&c);
}

static void a_chunk_that_begins_otherwise_keeps_nothing_of_the_last(void **state) {
    struct chunk c = {0};
    (void)state;
    parse(&c, "{\"id\":\"a\",\"model\":\"m\",\"choices\":[{\"index\":0,\"token_ids\":[1],"
              "\"logprobs\":{\"content\":[{\"token\":\"t\",\"logprob\":-1}]}}],\"usage\":{}}");
    assert_int_equal(c.n_rows, 1);
    parse(&c, "{\"id\":\"b\",\"choices\":[{}]}");
    assert_span(c.id, "\"b\"");
    assert_int_equal(c.model.n + c.usage.member.n + c.n_rows, 0);
    assert_int_equal(c.choices[0].token_ids.member.n + c.choices[0].n_rows, 0);
    parse(&c, "{\"prompt_token_ids\":[1],\"choices\":[]}");
    assert_true(c.prompt_token_ids.has_value && c.has_choices);
    parse(&c, "{\"prompt_token_ids\":[1],\"choices\":[]}");
    assert_true(c.prompt_token_ids.has_value);
    chunk_deinit(&c);
}

static void what_is_no_answer_is_refused_and_the_next_is_read(void **state) {
    static const char *const bad[] = {"", "[]", "{\"choices\":[1]}", "{\"choices\":[{]}", "{}x"};
    struct chunk c = {0};
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(chunk_parse(&c, sv_from(bad[i])), ERR_INPUT);
        parse(&c, "{\"id\":\"a\",\"choices\":[{\"index\":0}]}");
        assert_int_equal(c.n_choices, 1);
    }
    assert_int_equal(chunk_parse(&c, SV("{\"id\":\"a\",\"choices\":[{\"index\":0}")), ERR_INPUT);
    chunk_deinit(&c);
}

static void keys_may_be_escaped_and_the_last_of_equals_counts(void **state) {
    struct chunk c = {0};
    (void)state;
    parse(&c, "{\"\\u0069d\":\"a\",\"ch\\u006fices\":[{\"inde\\u0078\":3,\"delta\":{"
              "\"c\\u006fntent\":\"x\"},\"finish_reason\":\"a\",\"finish_reason\":\"stop\"}],"
              "\"model\":1,\"model\":null}");
    assert_span(c.id, "\"a\"");
    assert_int_equal(c.choices[0].index, 3);
    assert_span(c.choices[0].content, "\"x\"");
    assert_span(c.choices[0].finish_reason, "\"stop\"");
    assert_int_equal(c.model.n, 0);
    chunk_deinit(&c);
}

/* A token's chunk; `ids` and `finish` as JSON. */
static void put_token(struct buf *b, const char *text, const char *logprob, const char *ids,
                      const char *finish) {
    buf_reset(b);
    assert_int_equal(
        buf_addf(b,
                 "{\"id\":\"x\",\"choices\":[{\"index\":0,\"delta\":{\"content\":%s},\"logprobs\":{"
                 "\"content\":[{\"token\":%s,\"logprob\":%s,\"bytes\":[32],\"top_logprobs\":[{"
                 "\"token\":\"o\",\"logprob\":-9,\"bytes\":[111]}]}]},\"finish_reason\":%s,"
                 "\"token_ids\":%s}],\"usage\":null}",
                 text, text, logprob, finish, ids),
        0);
}

static void the_tokens_of_a_stream_differ_in_three_places(void **state) {
    static const struct {
        const char *text, *logprob, *ids, *finish;
    } tokens[] = {
        {"\" a\"", "-0.5", "[279]", "null"},
        {"\" b\"", "-12.25", "[1,0]", "null"},
        {"\"\\\"{\\u0020\"", "-1e-05", "[15]", "null"},
        {"\"\"", "0", "[15]", "null"},
        {"\" c\"", "-Infinity", "[15]", "null"},
        {"\" d\"", "-3", "[ 15 ]", "null"},
        {"\" e\"", "-3", "[]", "null"},
        {"\" f\"", "-3", "null", "null"},
        {"\" g\"", "-0.25", "[4]", "\"stop\""},
        {"\" h\"", "-0.25", "[4]", "\"stop\""},
    };
    AUTO_BUF struct buf b = {0};
    struct chunk c = {0};
    (void)state;
    for (size_t i = 0; i < sizeof tokens / sizeof tokens[0]; i++) {
        put_token(&b, tokens[i].text, tokens[i].logprob, tokens[i].ids, tokens[i].finish);
        parse(&c, buf_cstr(&b));
        bool has_finish = tokens[i].finish[0] == '"';
        bool has_ids = tokens[i].ids[0] == '[';
        assert_span(c.id, "\"x\"");
        assert_int_equal(c.n_choices, 1);
        assert_int_equal(c.n_rows, 1);
        assert_span(c.choices[0].content, tokens[i].text);
        assert_span(c.rows[0].token, tokens[i].text);
        assert_span(c.rows[0].logprob, tokens[i].logprob);
        assert_span(c.choices[0].token_ids.value, tokens[i].ids);
        assert_int_equal(c.choices[0].token_ids.has_value, has_ids);
        assert_int_equal(c.choices[0].token_ids.ordinal, 4);
        assert_span(c.choices[0].finish_reason, has_finish ? tokens[i].finish : "");
        assert_true(c.usage.member.n > 0 && !c.usage.has_value);
        assert_true(sv_starts_with(c.choices[0].token_ids.member, SV("\"token_ids\":")));
        assert_true(sv_starts_with(c.choices[0].logprobs.value, SV("{\"content\":[")));
        assert_int_equal(c.nonfinite, i == 4);
    }
    chunk_deinit(&c);
}

static void every_cut_of_a_known_shape_is_refused(void **state) {
    AUTO_BUF struct buf b = {0};
    struct chunk c = {0};
    (void)state;
    put_token(&b, "\" a\"", "-0.5", "[279]", "null");
    parse(&c, buf_cstr(&b));
    for (size_t n = 0; n < b.len; n++) {
        AUTO_FREE char *exact = malloc(n ? n : 1); /* So that reading past it is seen. */
        assert_non_null(exact);
        memcpy(exact, b.data, n);
        assert_true(chunk_parse(&c, (struct sv){exact, n}) < 0);
    }
    chunk_deinit(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_that_begin_alike_read_like_the_first),
        cmocka_unit_test(a_chunk_that_begins_otherwise_keeps_nothing_of_the_last),
        cmocka_unit_test(what_is_no_answer_is_refused_and_the_next_is_read),
        cmocka_unit_test(the_tokens_of_a_stream_differ_in_three_places),
        cmocka_unit_test(every_cut_of_a_known_shape_is_refused),
        cmocka_unit_test(keys_may_be_escaped_and_the_last_of_equals_counts),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
