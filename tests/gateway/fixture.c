/* SPDX-License-Identifier: BSD-3-Clause */
#include "fixture.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "journal/splices.h"

static void open_all(struct fixture *f, engine_fn fn, void *arg, struct gateway_options go,
                     void (*change)(struct gateway_session_options *o), bool durable) {
    struct err e = {0};
    *f = (struct fixture){.dir = "/tmp/snaffle-gateway-XXXXXX"};
    assert_non_null(mkdtemp(f->dir));
    snprintf(f->journal_dir, sizeof f->journal_dir, "%s/journal", f->dir);
    snprintf(f->unix_path, sizeof f->unix_path, "%s/gw.sock", f->dir);
    const struct journal_options jo = {.dir = f->journal_dir, .durable = durable};
    f->engine = engine_start(fn, arg);
    assert_ok(journal_open(&jo, &f->journal, &e), &e);
    go.journal = f->journal;
    assert_ok(gateway_start(&go, &f->gateway, &e), &e);
    f->port = gateway_port(f->gateway);
    struct gateway_session_options o = {
        .name = "r-0.1",
        .upstream_url = engine_url(f->engine),
        .api_key = "sk-real",
        .key_name = "REAL_KEY",
        .edits = true,
        .record = true,
        .top_logprobs = 5,
    };
    if (change) {
        change(&o);
    }
    assert_ok(gateway_session_open(f->gateway, &o, &f->session, &e), &e);
    assert_ok(gateway_session_listen_unix(f->session, f->unix_path, &e), &e);
}

void fixture_open(struct fixture *f, engine_fn fn, void *arg,
                  void (*change)(struct gateway_session_options *o)) {
    fixture_open_with(f, fn, arg, (struct gateway_options){.host = "127.0.0.1"}, change);
}

void fixture_open_with(struct fixture *f, engine_fn fn, void *arg, struct gateway_options go,
                       void (*change)(struct gateway_session_options *o)) {
    open_all(f, fn, arg, go, change, /* durable= */ false);
}

void fixture_open_durable(struct fixture *f, engine_fn fn, void *arg) {
    open_all(f, fn, arg, (struct gateway_options){.host = "127.0.0.1"}, NULL, /* durable= */ true);
}

void fixture_close_session(struct fixture *f) {
    struct err e = {0};
    if (f->session) {
        assert_ok(gateway_session_close(f->session, deadline_in_s(5), &e), &e);
        f->session = NULL;
    }
}

void fixture_close(struct fixture *f) {
    struct err e = {0};
    fixture_close_session(f);
    gateway_stop(f->gateway);
    journal_close(f->journal);
    engine_stop(f->engine);
    assert_ok(file_remove_tree(f->dir, &e), &e);
}

struct answer fixture_call(struct fixture *f, const char *body) {
    struct agent a = agent_connect_tcp(f->port);
    agent_post(&a, "/v1/chat/completions", gateway_session_token(f->session), sv_from(body));
    struct answer r = agent_read(&a);
    agent_close(&a);
    return r;
}

static void keep_head(json_t **to, struct sv head) {
    json_error_t at;
    json_decref(*to);
    *to = json_loadb(head.p, head.n, 0, &at);
    if (!*to) {
        fail_msg("a head is no JSON: %s: %.*s", at.text, SV_ARG(head));
    }
}

static void keep_part(struct recorded *r, const struct journal_part *part) {
    const struct {
        const char *name;
        struct buf *to;
    } parts[] = {
        {"agent_body", &r->agent_body},
        {"sent_body", &r->sent_body},
        {"response", &r->response},
        {"logprobs", &r->logprobs},
        {"completion_tokens", &r->tokens},
        {"completion_token_ids", &r->ids},
        {"per_token_logps", &r->logps},
        {"prompt_token_ids", &r->prompt_ids},
        {"usage", &r->usage},
        {"raw_answer", &r->raw},
    };
    if (sv_eq(part->name, SV("splices"))) {
        buf_reset(&r->sent_body);
        assert_int_equal(splices_apply(buf_sv(&r->agent_body), part->bytes, &r->sent_body), 0);
        return;
    }
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (sv_eq(part->name, sv_from(parts[i].name))) {
            buf_reset(parts[i].to);
            assert_int_equal(buf_add_sv(parts[i].to, part->bytes), 0);
            return;
        }
    }
    fail_msg("unknown part '%.*s'", SV_ARG(part->name));
}

static void keep_record(struct recorded *r, const struct journal_record *record) {
    if (record->type == JOURNAL_INTENT) {
        r->intents++;
        keep_head(&r->intent, record->head);
    } else if (record->type == JOURNAL_RESULT) {
        r->results++;
        keep_head(&r->result, record->head);
    } else {
        r->tails++;
        keep_head(&r->tail, record->head);
    }
    for (unsigned i = 0; i < record->n_parts; i++) {
        keep_part(r, &record->parts[i]);
    }
}

struct recorded fixture_read(struct fixture *f, uint64_t call) {
    struct recorded r = {0};
    struct journal_reader *reader;
    struct journal_record record;
    struct err e = {0};
    int rc;
    assert_ok(journal_flush(f->journal, &e), &e);
    assert_ok(journal_reader_open(f->journal_dir, &reader, &e), &e);
    while ((rc = journal_reader_next(reader, &record, &e)) == 1) {
        if (record.call == call && call > 0) {
            keep_record(&r, &record);
        }
    }
    assert_ok(rc, &e);
    journal_reader_close(reader);
    return r;
}

void recorded_deinit(struct recorded *r) {
    struct buf *bufs[] = {&r->agent_body, &r->sent_body, &r->response,   &r->logprobs, &r->tokens,
                          &r->ids,        &r->logps,     &r->prompt_ids, &r->usage,    &r->raw};
    for (size_t i = 0; i < sizeof bufs / sizeof bufs[0]; i++) {
        buf_deinit(bufs[i]);
    }
    json_decref(r->intent);
    json_decref(r->result);
    json_decref(r->tail);
}

void fixture_await_result(struct fixture *f, uint64_t call) {
    deadline_ms until = deadline_in_s(5);
    while (!deadline_passed(until)) {
        struct recorded r = fixture_read(f, call);
        bool there = r.results > 0;
        recorded_deinit(&r);
        if (there) {
            return;
        }
        clock_sleep_ms(5);
    }
    fail_msg("call %llu has no result", (unsigned long long)call);
}

const char *text_of(const json_t *object, const char *field) {
    const char *text = json_string_value(json_object_get(object, field));
    return text ? text : "";
}

bool lists(const json_t *object, const char *field, const char *word) {
    size_t i;
    json_t *item;
    json_array_foreach(json_object_get(object, field), i, item) {
        if (strcmp(json_string_value(item) ? json_string_value(item) : "", word) == 0) {
            return true;
        }
    }
    return false;
}
