/* SPDX-License-Identifier: BSD-3-Clause */
/* Every framing of events that engines use, cut at every byte: with nothing injected the agent gets
 * the engine's bytes; with injection it gets what the same engine sends without. */
#include <string.h>
#include <time.h>

#include "fixture.h"

#define REQUEST "{\"model\":\"m\",\"stream\":true,\"messages\":[]}"
/* Long enough for the gateway to read the first piece before the second comes. */
#define PIECE_PAUSE_NS 150000

#define DELTA(text, ids, end)                                                                      \
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"" text "\"},\"logprobs\":" ids end
#define ROWS                                                                                       \
    "{\"content\":[{\"token\":\"a\",\"logprob\":-0.5,\"top_logprobs\":[]}]},\"token_ids\":[7]}]}"
#define NULLS "null,\"token_ids\":null}]}"
#define BOTH(text, end) DELTA(text, ROWS, end), DELTA(text, NULLS, end)
#define SAME(text) text, text

/* What the engine sends when it is asked for ids and log-probabilities, and when it is not. */
static const struct shape {
    const char *name;
    const char *with, *without;
    const char *engine; /* Whose it is; NULL: vLLM's, or anybody's. */
} shapes[] = {
    {"line feeds", BOTH("a", "\n\n")},
    {"carriage returns and line feeds", BOTH("a", "\r\n\r\n")},
    {"lone carriage returns", BOTH("a", "\r\r")},
    {"a byte order mark", "\xef\xbb\xbf" DELTA("a", ROWS, "\n\n"),
     "\xef\xbb\xbf" DELTA("a", NULLS, "\n\n")},
    {"an emoji and letters of all lengths", BOTH("\xf0\x9f\x98\x80\xe2\x82\xac\xc3\xa9", "\n\n")},
    {"separators that end no line", BOTH("\xe2\x80\xa8\xe2\x80\xa9\xc2\x85", "\n\n")},
    {"comments", SAME(": ping\n\n: OPENROUTER PROCESSING\n\n:\n\n")},
    {"comments within an event", ": one\n" DELTA("a", ROWS, "\n: two\n\n"),
     ": one\n" DELTA("a", NULLS, "\n: two\n\n")},
    {"no blank behind the colon",
     "data:{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"},"
     "\"token_ids\":[7]}]}\n\n",
     "data:{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"},\"token_ids\":null}]}\n\n"},
    {"several data lines",
     "data: {\"choices\":[{\"index\":0,\ndata:\"delta\":{\"content\":\"a\"},\n"
     "data: \"token_ids\":\ndata: [7,\ndata:8]}]}\n\n",
     "data: {\"choices\":[{\"index\":0,\ndata:\"delta\":{\"content\":\"a\"},\n"
     "data: \"token_ids\":\ndata: null}]}\n\n"},
    {"several data lines with other fields between and CR LF",
     "data: {\"choices\":[{\"index\":0,\r\nretry: 7\r\n: c\r\ndata:\"delta\":{},\r\nid: 1\r\n"
     "data: \"finish_reason\":\"length\",\"token_ids\":[7]}]}\r\nevent: e\r\n\r\n",
     "data: {\"choices\":[{\"index\":0,\r\nretry: 7\r\n: c\r\ndata:\"delta\":{},\r\nid: 1\r\n"
     "data: \"finish_reason\":\"length\",\"token_ids\":null}]}\r\nevent: e\r\n\r\n"},
    {"event, id and retry", "event: message\nid: 7\nretry: 100\n" DELTA("a", ROWS, "\n\n"),
     "event: message\nid: 7\nretry: 100\n" DELTA("a", NULLS, "\n\n")},
    {"unknown fields and stray blank lines", "\n\nx: y\nnothing\n" DELTA("a", ROWS, "\n\n\n"),
     "\n\nx: y\nnothing\n" DELTA("a", NULLS, "\n\n\n")},
    {"chunks that exist for ids alone",
     DELTA("a", ROWS, "\n\n") "data: {\"choices\":[{\"index\":0,\"delta\":{},\"token_ids\":[8]}]}"
                              "\n\n",
     DELTA("a", NULLS, "\n\n")},
    {"usage behind the end", "data: {\"choices\":[],\"usage\":{\"completion_tokens\":1}}\n\n", ""},
    {"no choices in the first chunk",
     SAME("data: {\"choices\":[],\"prompt_filter_results\":[]}\n\n")},
    {"unknown members and odd spelling",
     "data: { \"choices\" : [ {\"delta\":{\"content\":\"\\u00e9\"}, \"index\" : 0e0 ,\"x\":1.50,"
     "\"token_ids\" : [ 7 ] } ],\"usage\":null , \"obfuscation\":\"aB\" }\n\n",
     "data: { \"choices\" : [ {\"delta\":{\"content\":\"\\u00e9\"}, \"index\" : 0e0 ,\"x\":1.50,"
     "\"token_ids\" : null } ],\"usage\":null , \"obfuscation\":\"aB\" }\n\n"},
    {"an error object", SAME("data: {\"error\":{\"message\":\"boom\",\"code\":500}}\n\n")},
    {"no json at all",
     SAME("data: not json\n\ndata:\n\ndata\n\ndata: {\"choices\":[],\"x\":\"\x0b\x0c\"}\n\n")},
    {"not a number and infinities",
     "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"},\"logprobs\":{\"content\":["
     "{\"token\":\"a\",\"logprob\":NaN},{\"token\":\"b\",\"logprob\":-Infinity}]}}]}\n\n",
     "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"},\"logprobs\":null}]}\n\n"},
    {"tool calls", SAME("data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":1,"
                        "\"function\":{\"arguments\":\"{\\\"a\\\"\"}}]}}]}\n\n")},
    {"SGLang's ids behind all",
     "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":null,\"content\":\"a\"},\"logprobs\":{"
     "\"content\":[{\"token\":\"a\",\"logprob\":-0.5,\"top_logprobs\":[]}]},\"matched_stop\":null}]"
     ","
     "\"usage\":null}\n\n"
     "data: {\"choices\":[],\"usage\":null,\"sglext\":{\"input_ids\":[1,2],\"output_ids\":[[7]]}}"
     "\n\n",
     "data: "
     "{\"choices\":[{\"index\":0,\"delta\":{\"role\":null,\"content\":\"a\"},\"logprobs\":null,"
     "\"matched_stop\":null}],\"usage\":null}\n\n",
     "sglang"},
    {"SGLang's ids beside what stays",
     "data: {\"choices\":[],\"sglext\":{\"routed_experts\":\"AA==\",\"input_ids\":[1],"
     "\"output_ids\":[[7]]}}\n\n",
     "data: {\"choices\":[],\"sglext\":{\"routed_experts\":\"AA==\"}}\n\n", "sglang"},
    {"llama.cpp's rows",
     "data: {\"choices\":[{\"finish_reason\":null,\"index\":0,\"delta\":{\"content\":\"a\"},"
     "\"logprobs\":{\"content\":[{\"id\":7,\"token\":\"a\",\"bytes\":[97],\"logprob\":-0.5,"
     "\"top_logprobs\":[{\"id\":7,\"token\":\"a\",\"bytes\":[97],\"logprob\":-0.5}]}]}}],"
     "\"object\":\"chat.completion.chunk\"}\n\n",
     "data: {\"choices\":[{\"finish_reason\":null,\"index\":0,\"delta\":{\"content\":\"a\"}}],"
     "\"object\":\"chat.completion.chunk\"}\n\n",
     "llama.cpp"},
    {"OpenAI's null usage, since usage was asked for",
     "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"},\"logprobs\":{\"content\":[{"
     "\"token\":\"a\",\"logprob\":-0.5,\"bytes\":[97],\"top_logprobs\":[]}],\"refusal\":null}}],"
     "\"usage\":null,\"obfuscation\":\"x\"}\n\n"
     "data: {\"choices\":[],\"usage\":{\"completion_tokens\":1}}\n\n",
     "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"},\"logprobs\":null}],"
     "\"obfuscation\":\"x\"}\n\n",
     "openai"},
    {"Together's token in three places",
     "data: "
     "{\"choices\":[{\"index\":0,\"text\":\"a\",\"logprobs\":-0.5,\"top_logprobs\":{\"a\":-0.5,"
     "\"b\":-1.5},\"delta\":{\"token_id\":7,\"role\":\"assistant\",\"content\":\"a\"}}]}\n\n",
     "data: {\"choices\":[{\"index\":0,\"text\":\"a\",\"logprobs\":null,"
     "\"delta\":{\"role\":\"assistant\",\"content\":\"a\"}}]}\n\n",
     "together"},
    {"events behind the last finish_reason",
     "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\",\"token_ids\":[9]}]}"
     "\n\n: late\n\n",
     "data: "
     "{\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\",\"token_ids\":null}]}"
     "\n\n: late\n\n"},
};

#define DONE "data: [DONE]\n\n"

struct script {
    struct buf with, without;
    size_t cut;  /* The first write's bytes. */
    bool singly; /* A chunk a byte. */
};

static void pause_between(void) {
    nanosleep(&(struct timespec){.tv_nsec = PIECE_PAUSE_NS}, NULL);
}

static bool send_singly(struct engine_request *r, struct sv body) {
    AUTO_BUF struct buf b = {0};
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < body.n; i++) {
        rc = buf_adds(&b, "1\r\n");
        rc = rc < 0 ? rc : buf_addc(&b, body.p[i]);
        rc = rc < 0 ? rc : buf_adds(&b, "\r\n");
    }
    return rc == 0 && engine_write(r, buf_sv(&b));
}

static void answer(struct engine_request *r, void *arg) {
    const struct script *s = arg;
    bool asked = sv_find(r->body, SV("logprobs")) != (size_t)-1;
    struct sv body = buf_sv(asked ? &s->with : &s->without);
    size_t cut = s->cut < body.n ? s->cut : body.n;
    engine_sse_head(r);
    if (s->singly) {
        send_singly(r, body);
    } else {
        if (cut > 0) {
            engine_chunk(r, (struct sv){body.p, cut});
            pause_between();
        }
        if (cut < body.n) {
            engine_chunk(r, sv_cut(body, cut));
        }
    }
    engine_puts(r, "0\r\n\r\n");
}

static const char *const engines[] = {"sglang", "llama.cpp", "openai", "together"};
#define ENGINES_STATED (sizeof engines / sizeof *engines)

struct pair {
    struct fixture f;
    struct gateway_session *bare;                   /* Without edits. */
    struct gateway_session *stated[ENGINES_STATED]; /* With, for what `engines` says. */
    struct script s;
    struct agent edited_agent, bare_agent;
};

static void open_pair(struct pair *p) {
    struct err e = {0};
    fixture_open(&p->f, answer, &p->s, NULL);
    const struct gateway_session_options o = {
        .name = "bare.1", .upstream_url = engine_url(p->f.engine), .record = true};
    assert_ok(gateway_session_open(p->f.gateway, &o, &p->bare, &e), &e);
    for (size_t i = 0; i < ENGINES_STATED; i++) {
        const struct gateway_session_options so = {.name = engines[i],
                                                   .upstream_url = engine_url(p->f.engine),
                                                   .engine = engines[i],
                                                   .edits = true,
                                                   .record = true,
                                                   .top_logprobs = 5};
        assert_ok(gateway_session_open(p->f.gateway, &so, &p->stated[i], &e), &e);
    }
    p->edited_agent = agent_connect_tcp(p->f.port);
    p->bare_agent = agent_connect_tcp(p->f.port);
}

static void close_pair(struct pair *p) {
    struct err e = {0};
    agent_close(&p->edited_agent);
    agent_close(&p->bare_agent);
    assert_ok(gateway_session_close(p->bare, deadline_in_s(5), &e), &e);
    for (size_t i = 0; i < ENGINES_STATED; i++) {
        assert_ok(gateway_session_close(p->stated[i], deadline_in_s(5), &e), &e);
    }
    fixture_close(&p->f);
    buf_deinit(&p->s.with);
    buf_deinit(&p->s.without);
}

static void put_stream(struct script *s, const struct shape *shape) {
    buf_reset(&s->with);
    buf_reset(&s->without);
    assert_int_equal(buf_adds(&s->with, shape->with), 0);
    assert_int_equal(buf_adds(&s->with, DONE), 0);
    assert_int_equal(buf_adds(&s->without, shape->without), 0);
    assert_int_equal(buf_adds(&s->without, DONE), 0);
}

static struct gateway_session *session_for(struct pair *p, const char *engine) {
    size_t i = 0;
    while (engine && strcmp(engines[i], engine) != 0) {
        i++;
    }
    return engine ? p->stated[i] : p->f.session;
}

static void check(struct pair *p, bool edited, struct sv want, const char *name,
                  const char *engine) {
    struct agent *a = edited ? &p->edited_agent : &p->bare_agent;
    const char *token = gateway_session_token(edited ? session_for(p, engine) : p->bare);
    agent_post(a, "/v1/chat/completions", token, SV(REQUEST));
    struct answer r = agent_read(a);
    if (r.status != 200 || !r.has_end || !sv_eq(buf_sv(&r.body), want)) {
        fail_msg("%s, %s, cut at %zu: want\n%.*s\ngot\n%s", name, edited ? "edited" : "bare",
                 p->s.cut, SV_ARG(want), buf_cstr(&r.body));
    }
    answer_deinit(&r);
}

static void check_cuts(bool edited) {
    struct pair p = {0};
    open_pair(&p);
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        put_stream(&p.s, &shapes[i]);
        const struct buf *sent = edited ? &p.s.with : &p.s.without;
        for (p.s.cut = 0; p.s.cut < sent->len; p.s.cut++) {
            check(&p, edited, buf_sv(&p.s.without), shapes[i].name, shapes[i].engine);
        }
        p.s.singly = true;
        check(&p, edited, buf_sv(&p.s.without), shapes[i].name, shapes[i].engine);
        p.s.singly = false;
    }
    close_pair(&p);
}

static void each_shape_cut_at_every_byte_passes_byte_for_byte_without_edits(void **state) {
    (void)state;
    check_cuts(false);
}

static void
each_shape_cut_at_every_byte_is_with_edits_as_the_engine_sends_it_without(void **state) {
    (void)state;
    check_cuts(true);
}

/* All that is hard in one stream: emoji, CR LF, several data lines, and an event of 3 MB. */
static void put_big(struct script *s) {
    static const char front[] = "data: {\"choices\":[{\"index\":0,\r\ndata: \"delta\":{\"content\":"
                                "\"\xf0\x9f\x98\x80\"},\r\ndata: \"token_ids\":";
    static const char big[] = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"";
    struct buf *both[] = {&s->with, &s->without};
    for (size_t i = 0; i < 2; i++) {
        const char *ids = i == 0 ? "[1,2]" : "null";
        assert_int_equal(buf_addf(both[i], "%s%s}]}\r\n\r\n%s", front, ids, big), 0);
        while (both[i]->len < 3u << 20) {
            assert_int_equal(buf_adds(both[i], "0123456\xf0\x9f\x98\x80\\n"), 0);
        }
        assert_int_equal(buf_addf(both[i], "\"},\"token_ids\":%s}]}\n\n: end\r\n\r\n" DONE, ids),
                         0);
    }
}

static void check_big(bool edited) {
    struct pair p = {0};
    open_pair(&p);
    put_big(&p.s);
    const struct buf *sent = edited ? &p.s.with : &p.s.without;
    const size_t from[] = {0, 65536 - 8, sent->len / 2, sent->len - 90};
    for (size_t i = 0; i < 4; i++) {
        for (size_t k = 0; k < 90; k += 11) {
            p.s.cut = from[i] + k;
            check(&p, edited, buf_sv(&p.s.without), "the big event", NULL);
        }
    }
    p.s.singly = true;
    check(&p, edited, buf_sv(&p.s.without), "the big event, byte by byte", NULL);
    close_pair(&p);
}

static void an_event_of_3_mb_among_hard_ones_passes_wherever_it_is_cut(void **state) {
    (void)state;
    check_big(false);
    check_big(true);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(each_shape_cut_at_every_byte_passes_byte_for_byte_without_edits),
    cmocka_unit_test(each_shape_cut_at_every_byte_is_with_edits_as_the_engine_sends_it_without),
    cmocka_unit_test(an_event_of_3_mb_among_hard_ones_passes_wherever_it_is_cut),
};

RUN_TESTS(tests)
