/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/pairing.h"

#include "base/json.h"
#include "tests/testing.h"

static struct pairing pair(const char *ids, const char *rows, const char *message) {
    struct err err = {0};
    struct pairing out;
    AUTO_JSON json_t *value = NULL;
    AUTO_BUF struct buf response = {0};
    const struct trace_call call = {.completion_token_ids = sv_from(ids),
                                    .logprobs = sv_from(rows)};
    if (message) {
        assert_int_equal(buf_addf(&response, "{\"choices\":[{\"message\":%s}]}", message), 0);
        assert_ok(json_parse(buf_sv(&response), "test", &value, &err), &err);
    }
    assert_ok(pairing_of(&call, value, &out, &err), &err);
    return out;
}

static void a_row_that_names_an_id_must_name_its_own(void **state) {
    (void)state;
    assert_false(
        pair("[5,6]", "[{\"token\":\"token_id:5\"},{\"token\":\"token_id:6\"}]", NULL).id_differs);
    /* The same values, one place on. */
    assert_true(
        pair("[5,6]", "[{\"token\":\"token_id:6\"},{\"token\":\"token_id:5\"}]", NULL).id_differs);
    assert_true(
        pair("[5,6]", "[{\"token\":\"a\",\"id\":5},{\"token\":\"b\",\"id\":7}]", NULL).id_differs);
    assert_false(pair("[5,6]", "[{\"token\":\"a\"},{\"token\":\"token_id:x\"}]", NULL).id_differs);
}

#define TOPS(own, a, b)                                                                            \
    "[{\"token\":\"x\",\"logprob\":" own ",\"top_logprobs\":[{\"token\":\"x\",\"logprob\":" a      \
    "},{\"token\":\"y\",\"logprob\":" b "}]}]"

static void a_likelier_token_must_be_among_the_alternatives(void **state) {
    (void)state;
    assert_false(pair(NULL, TOPS("-0.5", "-0.5", "-2"), NULL).contradicted);
    assert_false(pair(NULL, TOPS("-2", "-0.5", "-2.00001"), NULL).contradicted);
    assert_false(pair(NULL, TOPS("-7", "-0.5", "-2"), NULL).contradicted); /* Not among the top. */
    assert_true(pair(NULL, TOPS("-0.4", "-0.5", "-2"), NULL).contradicted);
    assert_true(pair(NULL, TOPS("-1", "-0.5", "-2"), NULL).contradicted);
    assert_false(pair(NULL, TOPS("-1", "null", "-2"), NULL).contradicted); /* Not to be seen. */
    assert_false(pair(NULL, TOPS("null", "-1", "-2"), NULL).contradicted);
    assert_false(
        pair(NULL, "[{\"token\":\"x\",\"logprob\":-1,\"top_logprobs\":[]}]", NULL).contradicted);
}

static void an_alternative_with_the_same_id_has_the_same_value(void **state) {
    (void)state;
#define BY_ID(own, top)                                                                            \
    "[{\"token\":\"token_id:5\",\"logprob\":" own ",\"top_logprobs\":[{\"token\":\"token_id:5\","  \
    "\"logprob\":" top "},{\"token\":\"token_id:6\",\"logprob\":-9}]}]"
    assert_false(pair(NULL, BY_ID("-1", "-1"), NULL).contradicted);
    assert_true(pair(NULL, BY_ID("-9", "-1"), NULL).contradicted);
}

#define T(text) "{\"token\":\"" text "\"}"

static void ids_one_place_beside_their_texts_are_seen_where_ids_come_again(void **state) {
    (void)state;
    /* the cat the dog the cat the */
    const char *right = "[" T("the") "," T("cat") "," T("the") "," T("dog") "," T("the") "," T(
        "cat") "," T("the") "]";
    const char *shifted = "[" T("cat") "," T("the") "," T("dog") "," T("the") "," T("cat") "," T(
        "the") "," T("end") "]";
    const char *ids = "[1,2,1,3,1,2,1]";
    assert_false(pair(ids, right, NULL).texts_shifted);
    assert_true(pair(ids, shifted, NULL).texts_shifted);
    /* One spelled in another way, one that is part of a character: no shift. */
    assert_false(
        pair("[1,2,1,2,1]", "[" T("the") "," T("a") "," T("The") "," T("a") "," T("The") "]", NULL)
            .texts_shifted);
    assert_false(pair("[1,1,1,1]",
                      "[" T("\xef\xbf\xbd") "," T("a") "," T("\xef\xbf\xbd") "," T("b") "]", NULL)
                     .texts_shifted);
    assert_false(pair("[1,1]", shifted, NULL).texts_shifted); /* As many as it takes. */
}

static void text_that_its_tokens_do_not_hold_is_seen(void **state) {
    (void)state;
    const char *rows = "[" T("<think>") "," T("so") "," T("</think>") "," T(" one") "," T(
        " two") "," T("<end>") "]";
    assert_false(pair(NULL, rows, "{\"content\":\"one two\",\"reasoning\":\"so\"}").text_differs);
    assert_false(pair(NULL, rows, "{\"content\":null}").text_differs);
    assert_false(pair(NULL, rows, "{\"content\":\"\"}").text_differs);
    assert_true(pair(NULL, rows, "{\"content\":\"onetwo three\"}").text_differs);
    assert_true(pair(NULL, rows, "{\"reasoning_content\":\"thus\"}").text_differs);
    /* A token of the content that never came to the agent. */
    assert_true(
        pair(NULL, "[" T("a") "," T("b") "," T("c") "]", "{\"content\":\"ac\"}").text_differs);
    assert_false(pair(NULL, "[]", "{\"content\":\"ac\"}").text_differs);
    assert_false(pair(NULL, NULL, "{\"content\":\"ac\"}").text_differs);
}

static void bytes_tell_the_text_where_tokens_cannot(void **state) {
    (void)state;
    const char *split = "[{\"token\":\"\xef\xbf\xbd\",\"bytes\":[195]},{\"token\":\"\xef\xbf\xbd\","
                        "\"bytes\":[169]}]";
    assert_false(pair(NULL, split, "{\"content\":\"\xc3\xa9\"}").text_differs);
    assert_true(pair(NULL, split, "{\"content\":\"e\"}").text_differs);
    const char *unknown = "[{\"token\":\"\xef\xbf\xbd\"}]";
    assert_false(pair(NULL, unknown, "{\"content\":\"e\"}").text_differs);
    assert_false(pair(NULL, "[" T("token_id:5") "]", "{\"content\":\"e\"}").text_differs);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_row_that_names_an_id_must_name_its_own),
    cmocka_unit_test(a_likelier_token_must_be_among_the_alternatives),
    cmocka_unit_test(an_alternative_with_the_same_id_has_the_same_value),
    cmocka_unit_test(ids_one_place_beside_their_texts_are_seen_where_ids_come_again),
    cmocka_unit_test(text_that_its_tokens_do_not_hold_is_seen),
    cmocka_unit_test(bytes_tell_the_text_where_tokens_cannot),
};

RUN_TESTS(tests)
