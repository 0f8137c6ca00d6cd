/* SPDX-License-Identifier: BSD-3-Clause */
#include "fixture.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/file.h"

#define REQUEST "{\"model\":\"m\",\"stream\":true}"
#define TEXT                                                                                       \
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"},\"token_ids\":[1]}]}\n\n"
#define END                                                                                        \
    "data: "                                                                                       \
    "{\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\",\"token_ids\":[2]}]}\n\n"  \
    "data: [DONE]\n\n"

/* Every third stream stays open. */
static void answer(struct engine_request *r, void *arg) {
    (void)arg;
    engine_sse_head(r);
    engine_chunk(r, SV(TEXT));
    if (r->number % 3 == 0) {
        engine_peer_left(r, 20000);
        r->close = true;
        return;
    }
    engine_chunk(r, SV(END));
    engine_puts(r, "0\r\n\r\n");
}

/* A gateway in a process of its own; its port and token go into the pipe. */
static void run_gateway(const char *journal_dir, const char *url, int out) {
    struct journal *j;
    struct gateway *g;
    struct gateway_session *s;
    struct err e = {0};
    char line[128];
    struct gateway_session_options o = {
        .name = "k-0.1", .upstream_url = url, .edits = true, .record = true};
    if (journal_open(&(struct journal_options){.dir = journal_dir}, &j, &e) < 0 ||
        gateway_start(&(struct gateway_options){.journal = j, .host = "127.0.0.1"}, &g, &e) < 0 ||
        gateway_session_open(g, &o, &s, &e) < 0) {
        _exit(1);
    }
    int n = snprintf(line, sizeof line, "%u %s\n", gateway_port(g), gateway_session_token(s));
    if (fd_write_all(out, line, (size_t)n, DEADLINE_NEVER, NULL, &e) < 0) {
        _exit(1);
    }
    for (;;) {
        pause();
    }
}

static pid_t start(const char *journal_dir, const char *url, unsigned *port, char token[64]) {
    int ends[2];
    char line[128] = "";
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        run_gateway(journal_dir, url, ends[1]);
    }
    close(ends[1]);
    assert_true(read(ends[0], line, sizeof line - 1) > 0);
    unsigned long long number = 0;
    size_t blank = strcspn(line, " ");
    assert_true(sv_parse_u64((struct sv){line, blank}, UINT16_MAX, &number));
    *port = (unsigned)number;
    snprintf(token, 64, "%.*s", (int)strcspn(line + blank + 1, "\n"), line + blank + 1);
    close(ends[0]);
    return pid;
}

struct tally {
    unsigned intents, results, complete;
};

static struct tally count(const char *dir) {
    struct tally t = {0};
    struct journal_reader *reader;
    struct journal_record record;
    struct err e = {0};
    assert_ok(journal_reader_open(dir, &reader, &e), &e);
    while (journal_reader_next(reader, &record, &e) == 1) {
        t.intents += record.type == JOURNAL_INTENT;
        t.results += record.type == JOURNAL_RESULT;
        t.complete += record.type == JOURNAL_RESULT &&
                      memmem(record.head.p, record.head.n, "\"end\":\"complete\"", 16) != NULL;
    }
    journal_reader_close(reader);
    return t;
}

static void what_the_agent_saw_end_survives_a_kill(void **state) {
    enum { CALLS = 30 };
    char dir[] = "/tmp/snaffle-kill-XXXXXX";
    char token[64];
    unsigned port;
    unsigned ended = 0;
    struct agent open[CALLS];
    unsigned n_open = 0;
    struct err e = {0};
    (void)state;
    assert_non_null(mkdtemp(dir));
    struct engine *engine = engine_start(answer, NULL);
    pid_t pid = start(dir, engine_url(engine), &port, token);
    for (int i = 0; i < CALLS; i++) {
        struct agent a = agent_connect_tcp((uint16_t)port);
        agent_post(&a, "/v1/chat/completions", token, SV(REQUEST));
        struct answer r = agent_read_until(&a, i % 3 == 2 ? "\"a\"" : "[DONE]");
        assert_int_equal(r.status, 200);
        ended += strstr(buf_cstr(&r.body), "[DONE]") != NULL;
        answer_deinit(&r);
        open[n_open++] = a;
    }
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    struct tally t = count(dir);
    assert_int_equal(ended, 20);
    assert_int_equal(t.intents, CALLS);
    assert_int_equal(t.complete, ended);
    assert_int_equal(t.results, ended);
    while (n_open > 0) {
        agent_close(&open[--n_open]);
    }
    engine_stop(engine);
    assert_ok(file_remove_tree(dir, &e), &e);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_the_agent_saw_end_survives_a_kill),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
