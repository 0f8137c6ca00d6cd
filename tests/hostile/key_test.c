/* SPDX-License-Identifier: BSD-3-Clause */
#include <dirent.h>
#include <unistd.h>

#include "base/file.h"
#include "tests/gateway/engine.h"
#include "tests/hostile/hostile.h"

/* The real key is nowhere that an agent can look, in nothing that is written down, and in no
 * process but our own: against an engine that quotes it in everything it says. */

/* The key as the request had it. */
static struct sv key_of(const struct engine_request *r) {
    size_t at = sv_find(r->head, SV("Bearer "));
    struct sv key = at == (size_t)-1 ? SV("") : sv_cut(r->head, at + strlen("Bearer "));
    const char *end = memchr(key.p, '\r', key.n);
    return (struct sv){key.p, end ? (size_t)(end - key.p) : 0};
}

static bool asks(const struct engine_request *r, const char *kind) {
    AUTO_FREE char *word = mem_printf("\"content\":\"%s\"", kind);
    return sv_find(r->body, sv_from(word)) != (size_t)-1;
}

static void quote_in_stream(struct engine_request *r, struct sv key) {
    AUTO_FREE char *events =
        mem_printf("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"%.*s\"}}]}\n\n"
                   "data: {\"error\":{\"message\":\"%.*s\"}}\n\n"
                   "data: [DONE]\n\n",
                   SV_ARG(key), SV_ARG(key));
    engine_sse(r, events);
}

/* A chunk for each byte, or an end in the middle of the key. */
static void quote_in_pieces(struct engine_request *r, struct sv key, bool whole) {
    engine_puts(r, "HTTP/1.1 500 no\r\nContent-Type: text/plain\r\nTransfer-Encoding: "
                   "chunked\r\n\r\n");
    for (size_t i = 0; i < key.n - (whole ? 0 : 3); i++) {
        engine_chunk(r, (struct sv){key.p + i, 1});
    }
    if (whole) {
        engine_puts(r, "0\r\n\r\n");
    }
    r->close = !whole;
}

static void quote(struct engine_request *r, void *arg) {
    struct sv key = key_of(r);
    *(size_t *)arg = key.n;
    AUTO_FREE char *error = mem_printf("{\"error\":{\"message\":\"bad key %.*s\"}}", SV_ARG(key));
    AUTO_FREE char *json =
        mem_printf("{\"choices\":[{\"index\":0,\"finish_reason\":\"stop\",\"message\":"
                   "{\"role\":\"assistant\",\"content\":\"%.*s\"}}]}",
                   SV_ARG(key));
    if (asks(r, "401") || asks(r, "500")) {
        engine_json(r, asks(r, "401") ? 401 : 500, error);
    } else if (asks(r, "header") || asks(r, "reason")) {
        AUTO_FREE char *text =
            mem_printf("HTTP/1.1 403 %.*s\r\nX-Echo: Bearer %.*s\r\nContent-Length: 2\r\n\r\nno",
                       SV_ARG(key), SV_ARG(key));
        engine_puts(r, text);
    } else if (asks(r, "stream") || asks(r, "event")) {
        quote_in_stream(r, key);
    } else if (asks(r, "split") || asks(r, "cut")) {
        quote_in_pieces(r, key, asks(r, "split"));
    } else {
        engine_json(r, 200, json);
    }
}

static char *backwards(const char *text) {
    size_t n = strlen(text);
    char *out = mem_strdup(text);
    for (size_t i = 0; i < n; i++) {
        out[i] = text[n - 1 - i];
    }
    return out;
}

/* No process below this one has the key in its command line or environment. */
static void look_at_children(void *arg, const struct rollout_event *e) {
    unsigned *seen = arg;
    (void)e;
    char parent[64];
    snprintf(parent, sizeof parent, "\nPPid:\t%d\n", (int)getpid());
    DIR *d = opendir("/proc");
    assert_non_null(d);
    for (struct dirent *p; (p = readdir(d));) {
        static const char *const names[] = {"cmdline", "environ"};
        AUTO_BUF struct buf status = {0};
        AUTO_FREE char *path = mem_printf("/proc/%s/status", p->d_name);
        if (file_read(path, 65536, &status, NULL) < 0 || !strstr(buf_cstr(&status), parent)) {
            continue;
        }
        for (size_t i = 0; i < ARRAY_LEN(names); i++) {
            AUTO_BUF struct buf text = {0};
            AUTO_FREE char *file = mem_printf("/proc/%s/%s", p->d_name, names[i]);
            if (file_read(file, 1 << 20, &text, NULL) == 0) {
                assert_true(sv_find(buf_sv(&text), SV(GROUND_KEY)) == (size_t)-1);
            }
        }
        ++*seen;
    }
    closedir(d);
}

static void search(struct ground *g, bool keep_raw, enum rollout_mode mode) {
    size_t key_n = 0;
    unsigned children = 0;
    struct engine *engine = engine_start(quote, &key_n);
    struct rollout_result r = {0};
    struct rollout_control control = {.progress = look_at_children, .progress_arg = &children};
    AUTO_FREE char *url = mem_strdup(engine_url(engine));
    const char *before = g->config.agent.base_url;
    g->config.agent.base_url = url;
    g->options.keep_raw = keep_raw;
    g->options.mode = mode;
    AUTO_FREE char *key = backwards(GROUND_KEY);
    AUTO_FREE char *vars = mem_printf("export YEK=%s", key);
    hostile_roll(g, "key_search.py", vars,
                 "{'network': {'agent': 'model'}, 'setup': ['true'], 'verify': ['true'],"
                 " 'limits': {'agent_s': 120}}",
                 &control, &r);
    g->config.agent.base_url = before;
    hostile_assert_reward(&r, "key_search.py", 1);
    assert_string_equal(hostile_file(&r, "found"), "nothing\n");
    assert_string_equal(hostile_file(&r, "answers"), "18\n");
    assert_int_equal(key_n, strlen(GROUND_KEY)); /* The engine had it. */
    assert_true(children > 0);
    rollout_result_deinit(&r);
    ground_drop_factory(g);
    ground_assert_nowhere(g->dir, GROUND_KEY);
    engine_stop(engine);
}

static void an_agent_finds_the_key_nowhere_and_nothing_holds_it(void **state) {
    NEED_SANDBOX();
    search(*state, false, ROLLOUT_TRANSPARENT_PROXY);
}

static void nor_when_the_engines_raw_answers_are_kept(void **state) {
    NEED_SANDBOX();
    search(*state, true, ROLLOUT_TRANSPARENT_PROXY);
}

static void nor_when_calls_pass_unchanged(void **state) {
    NEED_SANDBOX();
    search(*state, false, ROLLOUT_BLACK_BOX);
}

static const struct CMUnitTest tests[] = {
    HOSTILE_CASE(an_agent_finds_the_key_nowhere_and_nothing_holds_it),
    HOSTILE_CASE(nor_when_the_engines_raw_answers_are_kept),
    HOSTILE_CASE(nor_when_calls_pass_unchanged),
};

int main(int argc, char **argv) {
    setenv("OPENAI_API_KEY", GROUND_KEY, 1); /* As a user has it: no child may get it. */
    hostile_enter(argc, argv);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return world_leave() ? failed : 1;
}
