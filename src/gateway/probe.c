/* SPDX-License-Identifier: BSD-3-Clause */
#include "gateway/probe.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "gateway/capture.h"
#include "gateway/known.h"
#include "gateway/rewrite.h"
#include "net/http1.h"
#include "net/http_client.h"
#include "net/sse.h"
#include "net/url.h"

#define PROBE_CALL_S 120.0 /* A cold engine loads its model first. */
#define PROBE_RESENDS_MAX 4u
/* Twice the temperature halves the gap of what was sampled from, and leaves the raw one. */
#define PROBE_RAW_RATIO 0.75
/* Below, both best tokens are as likely, and a half of it is lost in rounding. */
#define PROBE_GAP_MIN 0.02

struct work {
    const struct probe_options *o;
    struct probe_report *report;
    struct known known;
    char *chat_url;
    char *models_url;
    bool completion_tokens; /* The model wants max_completion_tokens. */
    bool no_temperature;    /* It refuses any. */
};

/* What is asked of the model. */
struct question {
    bool stream;
    bool tools;
    int temperature;
};

static int ask(struct work *w, const char *url, struct sv body, struct http_answer *answer,
               struct err *err) {
    AUTO_FREE char *key =
        mem_printf("Authorization: Bearer %s", w->o->api_key ? w->o->api_key : "");
    if (!key) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    const char *const headers[] = {w->o->api_key ? key : NULL, NULL};
    const struct http_call call = {.url = url,
                                   .headers = headers,
                                   .body = body,
                                   .deadline = deadline_in_s(PROBE_CALL_S),
                                   .cancel = w->o->cancel};
    if (w->report->calls++ == PROBE_CALLS_MAX) {
        return err_set(err, ERR_LIMIT, "the endpoint refuses one thing after the other: stopped");
    }
    int rc = body.n > 0 ? http_call_json(&call, answer, err) : http_call(&call, answer, err);
    explicit_bzero(key, strlen(key));
    return rc;
}

/* --- the list of models --- */

static int keep_models(struct probe_report *r, struct sv body) {
    AUTO_JSON json_t *root = NULL;
    size_t i;
    json_t *one;
    if (json_parse(body, "models", &root, NULL) < 0) {
        return 0;
    }
    json_array_foreach(json_object_get(root, "data"), i, one) {
        const char *id = json_string_value(json_object_get(one, "id"));
        if (id && r->n_models < PROBE_MODELS_MAX) {
            r->models[r->n_models] = mem_strdup(id);
            r->n_models += r->models[r->n_models] != NULL;
        }
    }
    return 0;
}

static int find_model(struct work *w, struct err *err) {
    struct http_answer answer = {0};
    struct probe_report *r = w->report;
    int rc = ask(w, w->models_url, (struct sv){0}, &answer, err);
    if (rc < 0) {
        return rc;
    }
    int status = answer.status;
    rc = status == 200 ? keep_models(r, buf_sv(&answer.body)) : 0;
    http_answer_deinit(&answer);
    if (status == 401) {
        return err_set(err, ERR_ENVIRONMENT,
                       "the endpoint refuses the key (HTTP 401): name the variable that holds a "
                       "valid one with --api-key-env");
    }
    const char *model = w->o->model ? w->o->model : r->n_models > 0 ? r->models[0] : NULL;
    if (!model) {
        return err_set(err, ERR_USAGE, "the endpoint lists no models: name one with --model");
    }
    r->model = mem_strdup(model);
    return r->model ? rc : err_set(err, ERR_NOMEM, "out of memory");
}

/* --- one measurement --- */

static const char tool[] =
    ",\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"get_time\",\"description\":"
    "\"Tells "
    "the time in a city.\",\"parameters\":{\"type\":\"object\",\"properties\":{\"city\":{\"type\":"
    "\"string\"}},\"required\":[\"city\"]}}}]";

static int put_question(const struct work *w, const struct question *q, struct buf *out) {
    int rc = buf_adds(out, "{\"model\":");
    rc = rc < 0 ? rc : json_quote(sv_from(w->report->model), out);
    rc = rc < 0 ? rc
                : buf_addf(out, ",\"messages\":[{\"role\":\"user\",\"content\":\"%s\"}],\"%s\":%d",
                           q->tools ? "What time is it in Paris? Use the tool."
                                    : "Name a colour, then an animal.",
                           w->completion_tokens ? "max_completion_tokens" : "max_tokens",
                           PROBE_TOKENS_MAX);
    rc = rc < 0 || w->no_temperature ? rc : buf_addf(out, ",\"temperature\":%d", q->temperature);
    rc = rc < 0 || !q->stream ? rc : buf_adds(out, ",\"stream\":true");
    rc = rc < 0 || !q->tools ? rc : buf_adds(out, tool);
    return rc < 0 ? rc : buf_addc(out, '}');
}

static int take(struct capture *k, struct chunk *c, struct sv text) {
    int rc = chunk_parse(c, text);
    return rc < 0 ? rc : capture_add(k, c);
}

static int take_stream(struct capture *k, struct chunk *c, struct sv body) {
    struct sse sse = {0};
    struct sse_event event;
    size_t used;
    int rc = 0;
    while (rc == 0 && (rc = sse_feed(&sse, body, &used, &event, NULL)) > 0) {
        body = sv_cut(body, used);
        bool is_chunk = event.has_data && !sv_eq(sv_trim(event.data), SV("[DONE]"));
        rc = is_chunk ? take(k, c, event.data) : 0;
        rc = rc == ERR_INPUT ? 0 : rc; /* Pings and the like. */
    }
    sse_deinit(&sse);
    return rc;
}

/* The two best of the first row. */
static void read_gap(struct sv rows, struct probe_call *out) {
    AUTO_JSON json_t *root = NULL;
    out->gap = -1;
    if (rows.n == 0 || json_parse(rows, "rows", &root, NULL) < 0) {
        return;
    }
    const json_t *top = json_object_get(json_array_get(root, 0), "top_logprobs");
    const json_t *first = json_array_get(top, 0);
    const json_t *second = json_array_get(top, 1);
    const json_t *name = json_object_get(first, "token");
    if (first && second) {
        out->gap = json_number_value(json_object_get(first, "logprob")) -
                   json_number_value(json_object_get(second, "logprob"));
        (void)snprintf(out->best, sizeof out->best, "%s",
                       json_string_value(name) ? json_string_value(name) : "");
    }
}

static void measure(const struct capture *k, struct probe_call *out) {
    const struct capture_choice *choice = &k->choices[0];
    size_t n_ids;
    out->n_choices = k->n_choices;
    (void)capture_usage_tokens(k, &out->usage);
    out->prompt_ids = k->prompt_ids.len > 2;
    if (k->n_choices == 0) {
        return;
    }
    (void)capture_ids(choice, &n_ids);
    out->n_ids = n_ids;
    out->n_rows = choice->n_rows;
    out->n_null_rows = choice->n_null_logps;
    out->n_tools = choice->n_tools;
    out->ids_in_rows = choice->n_ids == 0 && choice->n_row_ids > 0;
    out->misaligned = n_ids > 0 && choice->n_rows > 0 && n_ids != choice->n_rows;
    read_gap(buf_sv(&choice->rows), out);
}

static void note_error(struct probe_call *out, struct sv text) {
    size_t n = text.n < sizeof out->error - 1 ? text.n : sizeof out->error - 1;
    memcpy(out->error, text.p ? text.p : "", n);
    out->error[n] = '\0';
}

static bool mentions(struct sv text, const char *name) {
    return sv_find(text, sv_from(name)) != (size_t)-1;
}

/* What we ourselves put in, that some models refuse. */
static bool yields(struct work *w, struct sv refusal) {
    if (!w->completion_tokens && mentions(refusal, "max_completion_tokens")) {
        return w->completion_tokens = true;
    }
    if (!w->no_temperature && mentions(refusal, "temperature")) {
        return w->no_temperature = true;
    }
    return false;
}

static void learn_from_head(struct work *w, const struct http_answer *answer) {
    struct sv head = buf_sv(&answer->head);
    size_t at = sv_find(head, SV("\r\nServer: "));
    if (at != (size_t)-1) {
        known_learn_engine(&w->known, engine_from_server(sv_cut(head, at + 10)));
    }
}

static int take_answer(struct work *w, const struct question *q, const struct http_answer *answer,
                       struct probe_call *out) {
    struct capture k = {0};
    struct chunk c = {0};
    struct sv body = buf_sv(&answer->body);
    int rc = q->stream ? take_stream(&k, &c, body) : take(&k, &c, body);
    if (rc == 0) {
        measure(&k, out);
        known_learn_engine(&w->known, k.engine);
        w->report->tokens += out->usage;
    } else {
        note_error(out, SV("the answer is no chat completion"));
    }
    chunk_deinit(&c);
    capture_deinit(&k);
    return rc == ERR_NOMEM ? rc : 0;
}

/* One try. 1: it was refused for what can be left out. */
static int try_once(struct work *w, const struct question *q, unsigned *withdrawn,
                    struct probe_call *out, struct err *err) {
    AUTO_BUF struct buf body = {0};
    struct request request;
    struct rewrite rewrite = {0};
    struct http_answer answer = {0};
    const struct rewrite_options ro = {.profile = known_profile(&w->known),
                                       .level = LEVEL_TOKENS,
                                       .withdrawn = *withdrawn,
                                       .top_logprobs = 2};
    int rc = put_question(w, q, &body);
    rc = rc < 0 ? err_set(err, rc, "out of memory") : request_parse(&request, buf_sv(&body), err);
    rc = rc < 0 ? rc : rewrite_request(&rewrite, &request, &ro, err);
    rc = rc < 0 ? rc
                : ask(w, w->chat_url, rewrite.n_edits > 0 ? buf_sv(&rewrite.text) : buf_sv(&body),
                      &answer, err);
    if (rc == 0) {
        out->status = answer.status;
        out->asked = rewrite.rung->level;
        learn_from_head(w, &answer);
        struct sv text = buf_sv(&answer.body);
        bool refused = answer.status == 400 || answer.status == 422;
        unsigned named = refused ? rewrite_named(&rewrite, text) : 0;
        *withdrawn |= named | (named & ASK_IDS ? (unsigned)ASK_ID_STRINGS : 0);
        if (named || (refused && yields(w, text))) {
            rc = 1;
        } else if (answer.status != 200) {
            note_error(out, text);
        } else {
            rc = take_answer(w, q, &answer, out);
        }
    }
    http_answer_deinit(&answer);
    rewrite_deinit(&rewrite);
    return rc;
}

/* Until it is answered, and asked once more where the answer told what engine it is. */
static int measure_call(struct work *w, struct question q, struct probe_call *out,
                        struct err *err) {
    unsigned withdrawn = 0;
    const struct profile *before = known_profile(&w->known);
    int rc = 1;
    out->gap = -1;
    while (rc == 1 && out->refused <= PROBE_RESENDS_MAX) {
        rc = try_once(w, &q, &withdrawn, out, err);
        out->refused += rc == 1;
    }
    const struct profile *now = known_profile(&w->known);
    if (rc == 0 && now != before && out->refused > 0) {
        withdrawn = 0;
        unsigned refused = out->refused;
        *out = (struct probe_call){.gap = -1};
        rc = try_once(w, &q, &withdrawn, out, err);
        out->refused += refused;
    }
    return rc < 0 ? rc : 0;
}

/* --- the whole --- */

enum capture_level probe_call_level(const struct probe_call *c) {
    if (c->prompt_ids && c->n_ids > 0 && c->n_ids == c->n_rows) {
        return LEVEL_TOKENS;
    }
    return c->n_rows > 0 ? LEVEL_LOGPROBS : LEVEL_TEXT;
}

static void judge(struct probe_report *r) {
    const struct probe_call *cold = &r->unary;
    enum capture_level a = probe_call_level(&r->unary);
    enum capture_level b = probe_call_level(&r->stream);
    r->level = a < b ? a : b;
    if (cold->gap < PROBE_GAP_MIN || r->hot.gap < 0 || strcmp(cold->best, r->hot.best) != 0) {
        r->logprobs = PROBE_UNKNOWN;
    } else {
        r->logprobs = r->hot.gap / cold->gap > PROBE_RAW_RATIO ? PROBE_RAW : PROBE_PROCESSED;
    }
}

static int open_work(struct work *w, struct err *err) {
    struct url url = {0};
    struct sv base = sv_from(w->o->base_url);
    while (sv_ends_with(base, SV("/"))) {
        base.n--;
    }
    int rc = url_parse(base, &url, err);
    if (rc < 0) {
        return err_wrap(err, "--base-url");
    }
    const char *version = sv_ends_with(base, SV("/v1")) ? "" : "/v1";
    const struct profile *given = w->o->engine ? profile_named(w->o->engine) : NULL;
    known_init(&w->known, given ? given->engine : engine_at(sv_from(url.host)));
    url_deinit(&url);
    w->chat_url = mem_printf("%.*s%s/chat/completions", SV_ARG(base), version);
    w->models_url = mem_printf("%.*s%s/models", SV_ARG(base), version);
    return w->chat_url && w->models_url ? 0 : err_set(err, ERR_NOMEM, "out of memory");
}

int probe_run(const struct probe_options *o, struct probe_report *out, struct err *err) {
    struct work w = {.o = o, .report = out};
    *out = (struct probe_report){0};
    int rc = open_work(&w, err);
    if (rc == 0) {
        rc = find_model(&w, err);
        rc = rc < 0 ? rc : measure_call(&w, (struct question){.temperature = 1}, &out->unary, err);
        rc = rc < 0 ? rc
                    : measure_call(&w, (struct question){.stream = true, .temperature = 1},
                                   &out->stream, err);
        rc = rc < 0
                 ? rc
                 : measure_call(&w,
                                (struct question){.stream = true, .tools = true, .temperature = 1},
                                &out->tools, err);
        rc = rc < 0 || out->unary.gap < PROBE_GAP_MIN || w.no_temperature
                 ? rc
                 : measure_call(&w, (struct question){.temperature = 2}, &out->hot, err);
        out->engine = known_profile(&w.known)->engine;
        judge(out);
    }
    if (w.chat_url || w.models_url) {
        known_deinit(&w.known);
    }
    free(w.chat_url);
    free(w.models_url);
    return rc;
}

void probe_report_deinit(struct probe_report *r) {
    for (unsigned i = 0; i < r->n_models; i++) {
        free(r->models[i]);
    }
    free(r->model);
    *r = (struct probe_report){0};
}
