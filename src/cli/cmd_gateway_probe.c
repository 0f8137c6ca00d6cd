/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <string.h>

#include "base/env.h"
#include "base/json.h"
#include "cli/call_options.h"
#include "cli/commands.h"
#include "cli/out.h"
#include "cli/text.h"
#include "gateway/probe.h"

static const char *const logprobs_words[] = {
    [PROBE_UNKNOWN] = "unknown", [PROBE_RAW] = "raw", [PROBE_PROCESSED] = "processed"};

/* --- what is to be said of it --- */

struct words {
    json_t *findings; /* [{code, fatal, detail}] */
    json_t *flags;
};

static void find(struct words *w, const char *code, bool fatal, const char *detail) {
    (void)json_array_append_new(
        w->findings, json_pack("{s:s, s:b, s:s}", "code", code, "fatal", fatal, "detail", detail));
}

static void find_in_calls(struct words *w, const struct probe_report *r) {
    const struct probe_call *u = &r->unary;
    const struct probe_call *s = &r->stream;
    if (u->n_choices == 0 || s->n_choices == 0) {
        find(w, "no_choices", true, "a plain request is not answered");
        return;
    }
    if (!u->prompt_ids || !s->prompt_ids) {
        find(w, "no_prompt_token_ids", true, "no token ids of the prompt");
    }
    if (u->n_ids == 0 || s->n_ids == 0) {
        find(w, "no_completion_token_ids", true, "no token ids of the answer");
    }
    if (u->n_rows == 0 || s->n_rows == 0) {
        find(w, "no_logprobs", true, "no log-probabilities");
    }
    if (u->misaligned || s->misaligned) {
        find(w, "logprob_misalign", true, "ids and log-probabilities differ in number");
    }
    if (u->ids_in_rows || s->ids_in_rows) {
        find(w, "token_strings", false, "ids come only with the log-probabilities' rows");
    }
}

static void find_rest(struct words *w, const struct probe_report *r) {
    if (r->tools.status != 200) {
        find(w, "no_tool_calling", true, "a request with tools is refused");
    } else if (r->tools.n_tools == 0) {
        find(w, "no_tool_call_emitted", false, "the model was offered a tool and did not call it");
    }
    if (r->logprobs == PROBE_RAW) {
        find(w, "raw_logprobs", true,
             "the log-probabilities are those before the temperature: train only on neutral "
             "sampling, or start vLLM with --logprobs-mode processed_logprobs");
        (void)json_array_append_new(w->flags, json_string("--neutral-sampling"));
    } else if (r->logprobs == PROBE_PROCESSED) {
        (void)json_array_append_new(w->flags, json_string("--logprobs-processed"));
    }
}

static int words_of(const struct probe_report *r, struct words *w) {
    w->findings = json_array();
    w->flags = json_array();
    if (!w->findings || !w->flags) {
        return ERR_NOMEM;
    }
    find_in_calls(w, r);
    find_rest(w, r);
    return 0;
}

/* --- as JSON --- */

static json_t *call_json(const struct probe_call *c) {
    return json_pack(
        "{s:i, s:i, s:s, s:s, s:b, s:I, s:I, s:I, s:I, s:I, s:s?}", "status", c->status, "refused",
        (int)c->refused, "asked", level_name(c->asked), "level", level_name(probe_call_level(c)),
        "prompt_ids", c->prompt_ids, "ids", (json_int_t)c->n_ids, "logprobs", (json_int_t)c->n_rows,
        "null_logprobs", (json_int_t)c->n_null_rows, "tool_calls", (json_int_t)c->n_tools,
        "usage_completion_tokens", (json_int_t)c->usage, "error", c->error[0] ? c->error : NULL);
}

static json_t *report_json(const char *url, const struct probe_report *r, const struct words *w) {
    json_t *models = json_array();
    for (unsigned i = 0; models && i < r->n_models; i++) {
        (void)json_array_append_new(models, json_string(r->models[i]));
    }
    return json_pack("{s:s, s:s, s:s, s:o, s:s, s:s, s:o, s:o, s:o, s:O, s:O, s:i, s:I}",
                     "base_url", url, "engine", profile_of(r->engine)->name, "model", r->model,
                     "models", models, "level", level_name(r->level), "logprobs",
                     logprobs_words[r->logprobs], "unary", call_json(&r->unary), "stream",
                     call_json(&r->stream), "tools", call_json(&r->tools), "findings", w->findings,
                     "flags", w->flags, "calls", (int)r->calls, "completion_tokens",
                     (json_int_t)r->tokens);
}

/* --- in words --- */

static void print_call(const char *name, const struct probe_call *c) {
    AUTO_BUF struct buf error = {0};
    if (c->status != 200 || c->error[0]) {
        const char *text = text_printable(sv_from(c->error), &error) < 0 ? "" : buf_cstr(&error);
        (void)printf("  %-12s no answer (HTTP %d): %.120s\n", name, c->status, text);
        return;
    }
    (void)printf("  %-12s %s of the prompt, %llu of the answer, %llu log-probabilities, usage says "
                 "%llu tokens",
                 name, c->prompt_ids ? "ids" : "no ids", (unsigned long long)c->n_ids,
                 (unsigned long long)c->n_rows, (unsigned long long)c->usage);
    if (c->refused > 0) {
        (void)printf("; %u refused before", c->refused);
    }
    (void)putchar('\n');
}

static void print_report(const char *url, const struct probe_report *r, const struct words *w) {
    static const char *const level_words[] = {
        [LEVEL_TEXT] = "the text only: nothing to train on",
        [LEVEL_LOGPROBS] = "log-probabilities, but not all token ids: not trainable as it is",
        [LEVEL_TOKENS] = "token ids and log-probabilities: what training needs"};
    static const char *const kind_words[] = {
        [PROBE_UNKNOWN] = "could not be told (no two alternatives, or the model is too certain)",
        [PROBE_RAW] = "raw: those before temperature and truncation",
        [PROBE_PROCESSED] = "processed: those that were sampled from"};
    size_t i = 0;
    const json_t *one = NULL;
    AUTO_BUF struct buf model = {0};
    const char *name = text_printable(sv_from(r->model), &model) < 0 ? "" : buf_cstr(&model);
    (void)printf("%s answers as %s; model '%s' (%u listed)\n", url, profile_of(r->engine)->name,
                 name, r->n_models);
    print_call("unary", &r->unary);
    print_call("streamed", &r->stream);
    print_call("with tools", &r->tools);
    (void)printf("it gives %s\nlog-probabilities: %s\n", level_words[r->level],
                 kind_words[r->logprobs]);
    json_array_foreach(w->findings, i, one) {
        (void)printf("%s: %s (%s)\n",
                     json_is_true(json_object_get(one, "fatal")) ? "lacks" : "note",
                     json_string_value(json_object_get(one, "detail")),
                     json_string_value(json_object_get(one, "code")));
    }
    json_array_foreach(w->flags, i, one) {
        (void)printf("%s%s", i ? " " : "flags to use: ", json_string_value(one));
    }
    (void)printf("%sasked %u times, %llu tokens generated\n", i ? "\n" : "", r->calls,
                 (unsigned long long)r->tokens);
}

static int run(const struct args *a, struct err *err) {
    struct probe_report r = {0};
    struct words w = {0};
    const char *url = args_text(a, "base-url");
    const char *key_name = args_text(a, "api-key-env");
    if (!url) {
        return err_set(err, ERR_USAGE, "gateway probe: want --base-url URL, the model's endpoint");
    }
    const char *key = key_name ? env_get(key_name) : NULL;
    if (key_name && !key) {
        return err_set(err, ERR_USAGE, "--api-key-env: '%s' is not set", key_name);
    }
    const struct probe_options o = {.base_url = url,
                                    .api_key = key,
                                    .engine = args_text(a, "engine"),
                                    .model = args_text(a, "model")};
    int rc = probe_run(&o, &r, err);
    if (rc == 0 && words_of(&r, &w) < 0) {
        rc = err_set(err, ERR_NOMEM, "out of memory");
    }
    if (rc == 0 && args_has(a, "json")) {
        rc = out_json(report_json(url, &r, &w), err);
    } else if (rc == 0) {
        print_report(url, &r, &w);
    }
    json_decref(w.findings);
    json_decref(w.flags);
    probe_report_deinit(&r);
    return rc;
}

const struct command cmd_gateway_probe = {
    .name = "gateway probe",
    .summary = "measure what an endpoint gives",
    .operands = "",
    .options =
        (const struct option[]){
            {"base-url", OPTION_TEXT, "URL", "the model's endpoint", NULL},
            {"api-key-env", OPTION_TEXT, "NAME", "the variable that holds its key", NULL},
            {"model", OPTION_TEXT, "NAME", "the model to ask (default: the first listed)", NULL},
            ENGINE_OPTION,
            {"json", OPTION_SWITCH, NULL, "print JSON", NULL},
            {0},
        },
    .notes = "Five requests as a rule, 24 at most, of at most 64 tokens each.",
    .run = run,
};
