/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/derive.h"

#include <string.h>

#include "base/json.h"
#include "net/server.h"
#include "tests/unit/net/net_testing.h"

#define LINE_OF(engine, ids, usage)                                                                \
    "{\"turn\":3,\"request\":{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"" \
    "}],\"stream\":true,\"n_probs\":5,\"temperature\":1.50},\"engine\":" engine                    \
    ",\"prompt_token_ids\":" ids ",\"usage\":" usage "}"
#define LLAMA LINE_OF("\"llama.cpp\"", "null", "{\"prompt_tokens\":3}")

/* Stands for llama.cpp's server: what it answers, and what it was asked last. */
struct place {
    struct loop *l;
    struct server *server;
    char url[64];
    int status;
    const char *template, *tokens;
    struct buf asked_template, asked_tokens, key;
};

static void keep(struct buf *to, struct sv text) {
    buf_reset(to);
    BUG_IF(buf_add_sv(to, text) < 0);
}

static void on_request(struct exchange *x, void *arg) {
    struct place *p = arg;
    bool is_template = sv_eq(exchange_path(x), SV("/apply-template"));
    if (!is_template && !sv_eq(exchange_path(x), SV("/tokenize"))) {
        exchange_reply(x, 404, SV("application/json"), SV("{}"));
        return;
    }
    keep(is_template ? &p->asked_template : &p->asked_tokens, exchange_body(x));
    keep(&p->key, http1_get(exchange_head(x), SV("Authorization")));
    exchange_reply(x, p->status, SV("application/json"),
                   sv_from(is_template ? p->template : p->tokens));
}

static int open_place(void **state) {
    static struct place p;
    struct err err = {0};
    p = (struct place){
        .status = 200, .template = "{\"prompt\":\"<user>Hi\"}", .tokens = "{\"tokens\":[2,105,7]}"};
    p.l = test_loop();
    const struct server_options o = {.on_request = on_request, .arg = &p};
    assert_ok(server_new(p.l, &o, &p.server, &err), &err);
    snprintf(p.url, sizeof p.url, "http://127.0.0.1:%u/v1/", (unsigned)server_port(p.server));
    *state = &p;
    return 0;
}

static int close_place(void **state) {
    struct place *p = *state;
    server_free(p->server);
    loop_free(p->l);
    buf_deinit(&p->asked_template);
    buf_deinit(&p->asked_tokens);
    buf_deinit(&p->key);
    return 0;
}

static int derive(const struct place *p, const char *line, struct buf *out, struct err *err) {
    const struct derive_options o = {.base_url = p->url, .api_key = "k"};
    struct derive *d = NULL;
    assert_ok(derive_open(&o, &d, err), err);
    int rc = derive_line(d, sv_from(line), out, err);
    derive_close(d);
    return rc;
}

static void ids_that_the_engine_counted_stand_behind_the_line(void **state) {
    struct place *p = *state;
    AUTO_BUF struct buf out = {0};
    AUTO_BUF struct buf want = {0};
    struct err err = {0};
    assert_ok(derive(p, LLAMA, &out, &err), &err);
    assert_int_equal(buf_add(&want, LLAMA, strlen(LLAMA) - 1), 0);
    assert_int_equal(buf_adds(&want, ",\"derived\":{\"prompt_token_ids\":[2,105,7]}}"), 0);
    assert_string_equal(buf_cstr(&out), buf_cstr(&want));
    assert_string_equal(buf_cstr(&p->key), "Bearer k");
}

static void the_server_is_asked_for_the_request_without_what_is_of_the_answer(void **state) {
    struct place *p = *state;
    AUTO_BUF struct buf out = {0};
    struct err err = {0};
    AUTO_JSON json_t *asked = NULL;
    AUTO_JSON json_t *text = NULL;
    assert_ok(derive(p, LLAMA, &out, &err), &err);
    assert_ok(json_parse(buf_sv(&p->asked_template), "asked", &asked, &err), &err);
    assert_null(json_object_get(asked, "stream"));
    assert_null(json_object_get(asked, "n_probs"));
    assert_int_equal(json_array_size(json_object_get(asked, "messages")), 1);
    assert_string_equal(json_string_value(json_object_get(asked, "model")), "m");
    assert_ok(json_parse(buf_sv(&p->asked_tokens), "text", &text, &err), &err);
    assert_string_equal(json_string_value(json_object_get(text, "content")), "<user>Hi");
    assert_true(json_is_true(json_object_get(text, "add_special")));
    assert_true(json_is_true(json_object_get(text, "parse_special")));
}

static void check_why(struct place *p, const char *line, const char *words) {
    AUTO_BUF struct buf out = {0};
    AUTO_JSON json_t *root = NULL;
    struct err err = {0};
    assert_ok(derive(p, line, &out, &err), &err);
    assert_ok(json_parse(buf_sv(&out), "line", &root, &err), &err);
    const json_t *derived = json_object_get(root, "derived");
    assert_true(json_is_null(json_object_get(derived, "prompt_token_ids")));
    const char *why = json_string_value(json_object_get(derived, "why"));
    if (!why || !strstr(why, words)) {
        fail_msg("want '%s', got '%s'", words, why ? why : "nothing");
    }
}

static void ids_that_nothing_bears_out_are_not_given(void **state) {
    struct place *p = *state;
    check_why(p, LINE_OF("\"llama.cpp\"", "[]", "{\"prompt_tokens\":4}"),
              "3 tokens, and the engine counted 4");
    check_why(p, LINE_OF("\"llama.cpp\"", "null", "null"), "did not count");
    static const char *const tokens[] = {"{\"tokens\":[1,-1,2]}", "{\"tokens\":[1,null,2]}",
                                         "{\"tokens\":[]}", "{}", "[]"};
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++) {
        p->tokens = tokens[i];
        check_why(p, LLAMA, "no list of ids");
    }
    p->tokens = "{";
    check_why(p, LLAMA, "no JSON");
    p->template = "<html>";
    check_why(p, LLAMA, "apply-template answered HTTP 200, which is no JSON");
    p->status = 500;
    check_why(p, LLAMA, "apply-template answered HTTP 500");
}

static void lines_of_other_engines_or_with_ids_stay_as_they_are(void **state) {
    static const char *const lines[] = {
        LINE_OF("\"vllm\"", "null", "{\"prompt_tokens\":3}"),
        LINE_OF("null", "null", "{\"prompt_tokens\":3}"),
        LINE_OF("\"llama.cpp\"", "[1]", "{\"prompt_tokens\":3}"),
        "{\"turn\":1,\"engine\":\"llama.cpp\",\"request\":null}",
        "{\"turn\":123456789012345678901234567890}", /* Beyond what can be read here. */
    };
    struct place *p = *state;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        AUTO_BUF struct buf out = {0};
        struct err err = {0};
        assert_ok(derive(p, lines[i], &out, &err), &err);
        assert_string_equal(buf_cstr(&out), lines[i]);
    }
    assert_int_equal(p->asked_template.len, 0);
}

static void a_server_that_is_gone_or_wants_another_key_is_an_error(void **state) {
    struct place *p = *state;
    AUTO_BUF struct buf out = {0};
    struct err err = {0};
    p->status = 401;
    assert_err(derive(p, LLAMA, &out, &err), ERR_ENVIRONMENT, &err, "refuses the key");
    snprintf(p->url, sizeof p->url, "http://127.0.0.1:1/v1"); /* tcpmux: nobody listens there. */
    assert_err(derive(p, LLAMA, &out, &err), ERR_CONNECT, &err, "turn 3");
    struct derive *d = NULL;
    const struct derive_options bad = {.base_url = "not a url"};
    assert_true(derive_open(&bad, &d, &err) < 0);
    assert_int_equal(out.len, 0);
}

#define IN_A_PLACE(test) cmocka_unit_test_setup_teardown(test, open_place, close_place)

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_A_PLACE(ids_that_the_engine_counted_stand_behind_the_line),
        IN_A_PLACE(the_server_is_asked_for_the_request_without_what_is_of_the_answer),
        IN_A_PLACE(ids_that_nothing_bears_out_are_not_given),
        IN_A_PLACE(lines_of_other_engines_or_with_ids_stay_as_they_are),
        IN_A_PLACE(a_server_that_is_gone_or_wants_another_key_is_an_error),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
