/* SPDX-License-Identifier: BSD-3-Clause */
#include "rollout/inside.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "rollout/inside_program.h"
#include "rollout/mirror.h"

#define READY_S 30 /* It answers in some ms; a sandbox on a loaded machine is given time. */
#define STOP_S 10  /* For answers that are on their way (DRAIN), and for its end. */
#define DRAIN "5"  /* As for a gateway outside. */
#define FIRST_LOOK_MS 1000
#define LOOK_MS 10000 /* Each is two requests; progress and the loop of failures need no more. */
#define LOG_TAIL 2000 /* As the reference shows. */
#define LOG_MAX (64u << 20)
#define EXIT_DEAD 3 /* Of `ready`: the program has ended. */

struct inside {
    char *program;
    char *log;
    char *journal;
    char *pid; /* The file. */
    struct sandbox_job *job;
    struct mirror *mirror; /* NULL: nothing is recorded, or it does not run yet. */
    int64_t looked_ms;
    bool has_figures; /* It told at its end how many calls there were. */
    uint64_t begun, lost;
};

/* `ask ROUTE` gives the whole answer. The text of the scripts is fixed; what varies is in their
 * environment. */
#define ASK                                                                                        \
    "ask() { exec 3<>/dev/tcp/127.0.0.1/7000 && printf 'GET %s HTTP/1.1\\r\\nHost: "               \
    "localhost\\r\\n"                                                                              \
    "Authorization: Bearer %s\\r\\nConnection: close\\r\\n\\r\\n' \"$1\" \"$TOKEN\" >&3 && cat "   \
    "<&3; }\n"

/* Its journal's folder is the one that it made. */
static const char ready[] =
    ASK "pid=\n"
        "until (ask /healthz) 2>/dev/null | { read -r line && [[ $line == *' 200 '* ]]; }; do\n"
        "  [ -n \"$pid\" ] || read -r pid 2>/dev/null <\"$PID\"\n"
        "  [ -z \"$pid\" ] || kill -0 \"$pid\" 2>/dev/null || exit 3\n"
        "  sleep 0.02\n"
        "done\n"
        "for folder in \"$JOURNAL\"/*/; do printf %s \"$folder\"; break; done\n";

static const char stop[] = ASK "(ask /metrics) 2>/dev/null\n"
                               "read -r pid <\"$PID\" && kill -TERM \"$pid\" || exit 1\n"
                               "while kill -0 \"$pid\" 2>/dev/null; do sleep 0.02; done\n";

/* --- place --- */

int inside_place(struct rollout_session *s, struct inside **out, struct err *err) {
    const char *home = sandbox_home(s->sandbox);
    struct inside *in = calloc(1, sizeof *in);
    if (!in) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    in->log = mem_printf("%s/logs/agent/gateway.log", home);
    in->journal = mem_printf("%s/logs/agent/gateway-journal", home);
    in->pid = mem_printf("%s/proxy/pid", home);
    int r = in->log && in->journal && in->pid ? inside_program_place(s, &in->program, err)
                                              : err_set(err, ERR_NOMEM, "out of memory");
    if (r < 0) {
        inside_free(in);
        return r;
    }
    *out = in;
    return 0;
}

/* --- start --- */

/* The command line, NULL-ended; the numbers are written into `text`. */
#define ARGS_MAX 48
struct line {
    const char *argv[ARGS_MAX];
    size_t n;
    char numbers[6][32];
    size_t n_numbers;
};

static void add(struct line *l, const char *word) {
    BUG_IF(l->n + 1 >= ARGS_MAX);
    l->argv[l->n++] = word;
}

static void add_pair(struct line *l, const char *option, const char *value) {
    add(l, option);
    add(l, value);
}

static void add_number(struct line *l, const char *option, double value) {
    BUG_IF(l->n_numbers == ARRAY_LEN(l->numbers));
    char *text = l->numbers[l->n_numbers++];
    (void)snprintf(text, sizeof l->numbers[0], "%.15g", value);
    add_pair(l, option, text);
}

static void add_settings(struct line *l, const struct rollout_options *o, const char *policy) {
    const struct agent_config *c = o->config;
    add_pair(l, "--model-override", c->model);
    add_number(l, "--top-logprobs", c->proxy_top_logprobs);
    add_number(l, "--max-tokens-cap", (double)c->proxy_max_tokens_cap);
    if (c->proxy_disable_thinking) {
        add(l, "--disable-thinking");
    }
    if (o->neutral_sampling || c->neutral_sampling) {
        add(l, "--neutral-sampling");
    }
    if (c->engine) {
        add_pair(l, "--engine", c->engine);
    }
    if (policy) {
        add_pair(l, "--policy-version", policy);
    }
    if (o->keep_raw) {
        add(l, "--keep-raw");
    }
}

/* The shell only writes its own number down, which is then the gateway's. */
static void make_line(struct line *l, const struct rollout_session *s, const struct inside *in,
                      const char *policy) {
    const struct rollout_options *o = &s->factory->o;
    const char *const begin[] = {"/bin/sh",
                                 "-c",
                                 "echo $$ >\"$PID\" && exec \"$0\" \"$@\"",
                                 in->program,
                                 "--upstream-url",
                                 o->config->base_url,
                                 "--upstream-api-key-stdin",
                                 "--journal",
                                 in->journal,
                                 "--drain",
                                 DRAIN};
    for (size_t i = 0; i < ARRAY_LEN(begin); i++) {
        add(l, begin[i]);
    }
    add_number(l, "--request-timeout", (double)o->config->request_timeout_ms / 1000);
    add_number(l, "--loop-break", (double)o->config->loop_break_calls);
    add_number(l, "--loop-break-s", o->config->loop_break_s);
    if (factory_captures(s->factory)) {
        add_settings(l, o, policy);
    } else {
        add(l, "--no-edits");
        add(l, "--no-record");
    }
}

static int start(struct rollout_session *s, struct inside *in, struct err *err) {
    unsigned serial;
    AUTO_FREE char *policy = factory_policy(s->factory, &serial);
    AUTO_FREE char *token = mem_printf("SNAFFLE_GATEWAY_KEY=%s", s->token);
    AUTO_FREE char *pid = mem_printf("PID=%s", in->pid);
    AUTO_FREE char *cwd = mem_printf("%s/proxy", sandbox_home(s->sandbox));
    AUTO_FREE char *key = mem_printf("%s\n", s->factory->o.config->api_key);
    struct line line = {0};
    if (!token || !pid || !cwd || !key) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    make_line(&line, s, in, policy);
    const char *const env[] = {token, pid, NULL};
    int r = sandbox_start(s->sandbox,
                          &(struct sandbox_exec){.argv = line.argv,
                                                 .env = env,
                                                 .clean = true,
                                                 .cwd = cwd,
                                                 .input = sv_from(key),
                                                 .stdout_path = in->log,
                                                 .stderr_path = in->log,
                                                 .cancel = s->stop},
                          &in->job, err);
    explicit_bzero(key, strlen(key));
    return r < 0 ? r : factory_enter(s, serial, err);
}

/* The error with what the gateway said last. */
static int explain(struct rollout_session *s, const struct inside *in, const char *why,
                   struct err *err) {
    AUTO_BUF struct buf log = {0};
    AUTO_BUF struct buf clean = {0};
    struct err ignored = {0};
    if (sandbox_read_file(s->sandbox, in->log, 0, LOG_MAX, &log, &ignored) < 0 ||
        utf8_clean(utf8_last(sv_trim(buf_sv(&log)), LOG_TAIL), &clean) < 0) {
        buf_reset(&clean);
    }
    for (size_t i = 0; i < clean.len; i++) {
        clean.data[i] = clean.data[i] == '\n' ? ' ' : clean.data[i];
    }
    return err_set(err, ERR_STATE, "the gateway inside %s: %s", why,
                   clean.len ? buf_cstr(&clean) : "it said nothing");
}

static int run_script(struct rollout_session *s, const struct inside *in, const char *text,
                      double timeout_s, struct sandbox_output *out, struct err *err) {
    AUTO_FREE char *token = mem_printf("TOKEN=%s", s->token);
    AUTO_FREE char *pid = mem_printf("PID=%s", in->pid);
    AUTO_FREE char *journal = mem_printf("JOURNAL=%s", in->journal);
    const char *const env[] = {token, pid, journal, NULL};
    if (!token || !pid || !journal) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    return sandbox_exec(s->sandbox,
                        &(struct sandbox_exec){.shell = text,
                                               .env = env,
                                               .clean = true,
                                               .cwd = "/",
                                               .timeout_s = timeout_s,
                                               .cancel = s->control.hard},
                        out, err);
}

static int open_mirror(struct rollout_session *s, struct inside *in, struct sv folder,
                       struct err *err) {
    while (folder.n > 1 && folder.p[folder.n - 1] == '/') {
        folder.n--;
    }
    AUTO_FREE char *path = mem_strndup(folder.p, folder.n);
    AUTO_FREE char *dir = mem_printf("%s/.inside", s->dir);
    if (!path || !dir) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    return mirror_new(&(struct mirror_options){.sandbox = s->sandbox,
                                               .path = path,
                                               .dir = dir,
                                               .to = s->factory->journal,
                                               .session = s->name},
                      &in->mirror, err);
}

int inside_start(struct rollout_session *s, struct inside *in, struct err *err) {
    struct sandbox_output out = {0};
    int r = start(s, in, err);
    r = r < 0 ? r : run_script(s, in, ready, READY_S, &out, err);
    if (r >= 0 && out.exit_code != 0) {
        r = explain(s, in,
                    out.exit_code == EXIT_DEAD ? "has ended"
                    : out.timed_out            ? "does not answer"
                                               : "can't be asked: bash has no /dev/tcp",
                    err);
    }
    if (r >= 0 && factory_captures(s->factory)) {
        r = open_mirror(s, in, buf_sv(&out.out), err);
    }
    sandbox_output_deinit(&out);
    return r < 0 ? r : 0;
}

/* --- while it runs --- */

static void take_stats(struct rollout_session *s, const struct inside *in) {
    if (in->mirror) {
        mirror_stats(in->mirror, &s->stats);
    }
}

void inside_look(struct rollout_session *s, struct inside *in) {
    struct err ignored = {0};
    if (in->looked_ms > 0 && clock_ms() - in->looked_ms < LOOK_MS) {
        return;
    }
    if (in->mirror && mirror_step(in->mirror, &ignored) < 0) {
        log_debug("%s: calls are looked at later: %s", s->name, ignored.msg);
    }
    in->looked_ms = clock_ms();
    take_stats(s, in);
}

deadline_ms inside_next_look(const struct inside *in) {
    return in->looked_ms > 0 ? in->looked_ms + LOOK_MS : deadline_in_ms(FIRST_LOOK_MS);
}

/* --- the end --- */

/* The value of a metric's line; 0 without one. */
static uint64_t metric(struct sv text, const char *name) {
    AUTO_FREE char *line = mem_printf("\nsnaffle_gateway_%s ", name);
    size_t at = line ? sv_find(text, sv_from(line)) : (size_t)-1;
    unsigned long long value = 0;
    if (at == (size_t)-1) {
        return 0;
    }
    struct sv rest = sv_cut(text, at + strlen(line));
    size_t n = sv_find(rest, SV("\n"));
    return sv_parse_u64((struct sv){rest.p, n == (size_t)-1 ? rest.n : n}, UINT64_MAX / 2, &value)
               ? value
               : 0;
}

/* Where nothing is recorded they are all that is known. */
static void take_figures(struct rollout_session *s, struct inside *in, struct sv text) {
    in->has_figures = sv_find(text, SV("\nsnaffle_gateway_calls_begun_total ")) != (size_t)-1;
    in->begun = metric(text, "calls_begun_total");
    in->lost = metric(text, "calls_lost_total");
    if (!in->has_figures || factory_captures(s->factory)) {
        return;
    }
    uint64_t complete = metric(text, "calls_total{end=\"complete\"}");
    s->stats = (struct gateway_session_stats){
        .calls = in->begun,
        .completion_tokens = metric(text, "tokens_total{kind=\"completion\"}"),
        .failed_in_a_row = complete == 0 ? (unsigned)in->begun : 0,
    };
}

void inside_stop(struct rollout_session *s, struct inside *in) {
    struct sandbox_output out = {0};
    struct err e = {0};
    if (!in->job) {
        return;
    }
    if (run_script(s, in, stop, STOP_S, &out, &e) < 0 || out.exit_code != 0) {
        /* What follows kills it; calls that are open then stay so in the journal. */
        log_debug("%s: the gateway inside did not end when asked: %s", s->name,
                  e.code ? e.msg : buf_cstr(&out.err));
    } else {
        take_figures(s, in, buf_sv(&out.out));
    }
    sandbox_output_deinit(&out);
}

/* The gateway's own count against what came out. */
static int check_figures(const struct rollout_session *s, const struct inside *in,
                         struct err *err) {
    if (in->lost > 0) {
        return err_set(err, ERR_FULL,
                       "the journal inside refused the records of %llu calls: is its disk full?",
                       (unsigned long long)in->lost);
    }
    if (in->begun > s->stats.calls) {
        return err_set(err, ERR_CORRUPT, "the gateway inside had %llu calls, its journal has %llu",
                       (unsigned long long)in->begun, (unsigned long long)s->stats.calls);
    }
    return 0;
}

int inside_collect(struct rollout_session *s, struct inside *in, struct err *err) {
    if (!in->mirror) {
        return 0;
    }
    int r = mirror_end(in->mirror, err);
    take_stats(s, in);
    if (r == 0 && in->has_figures) {
        r = check_figures(s, in, err);
    }
    return r;
}

void inside_free(struct inside *in) {
    if (in) {
        sandbox_job_free(in->job);
        mirror_free(in->mirror);
        free(in->program);
        free(in->log);
        free(in->journal);
        free(in->pid);
        free(in);
    }
}
