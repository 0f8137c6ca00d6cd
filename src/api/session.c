/* SPDX-License-Identifier: BSD-3-Clause */
#include "api/error.h"
#include "api/factory.h"
#include "api/text.h"
#include "base/json.h"
#include "rollout/result.h"

int snaffle_factory_create(snaffle_factory *factory, const snaffle_session_options *options,
                           snaffle_session **out, snaffle_error **error) {
    struct err err = {0};
    snaffle_session *s = NULL;
    int r = api_session_begin(options, &s, &err);
    if (r >= 0) {
        r = rollout_factory_create(factory->inner, &s->task, &s->names, &s->control, &s->inner,
                                   &err);
    }
    if (r < 0) {
        api_session_free(s);
        return api_error(&err, error);
    }
    s->names = (struct rollout_names){0}; /* They were the caller's for the call only. */
    *out = s;
    return 0;
}

const char *snaffle_session_rollout(const snaffle_session *session) {
    return rollout_session_rollout(session->inner);
}

const char *snaffle_session_sandbox_id(const snaffle_session *session) {
    return rollout_session_sandbox_id(session->inner);
}

const char *snaffle_session_dir(const snaffle_session *session) {
    return rollout_session_dir(session->inner);
}

int snaffle_session_start_agent(snaffle_session *session, snaffle_error **error) {
    struct err err = {0};
    int r = rollout_session_start_agent(session->inner, &err);
    return r < 0 ? api_error(&err, error) : 0;
}

int snaffle_session_wait(snaffle_session *session, double timeout_s, int *exit_code,
                         snaffle_error **error) {
    struct err err = {0};
    int r = rollout_session_wait(session->inner, timeout_s, exit_code, &err);
    return r < 0 ? api_error(&err, error) : 0;
}

typedef int (*fetch_fn)(struct rollout_session *s, struct buf *out, struct err *err);

static int fetch(fetch_fn from, snaffle_session *session, char **text, size_t *length,
                 snaffle_error **error) {
    struct err err = {0};
    AUTO_BUF struct buf bytes = {0};
    int r = from(session->inner, &bytes, &err);
    return r < 0 ? api_error(&err, error) : api_text(&bytes, text, length, error);
}

int snaffle_session_fetch_trace(snaffle_session *session, char **text, size_t *length,
                                snaffle_error **error) {
    return fetch(rollout_session_fetch_trace, session, text, length, error);
}

int snaffle_session_fetch_log(snaffle_session *session, char **text, size_t *length,
                              snaffle_error **error) {
    return fetch(rollout_session_fetch_log, session, text, length, error);
}

int snaffle_session_verify(snaffle_session *session, double *reward, snaffle_error **error) {
    struct err err = {0};
    struct rollout_verdict verdict = {0};
    int r = rollout_session_verify(session->inner, &verdict, &err);
    if (r < 0) {
        return api_error(&err, error);
    }
    if (verdict.has_reward && reward) {
        *reward = verdict.reward;
    }
    return verdict.has_reward;
}

int snaffle_session_close(snaffle_session *session, snaffle_error **error) {
    struct err err = {0};
    int r = rollout_session_close(session->inner, &err);
    return r < 0 ? api_error(&err, error) : 0;
}

int snaffle_session_result(const snaffle_session *session, char **json, snaffle_error **error) {
    struct err err = {0};
    AUTO_JSON json_t *result = NULL;
    int r = rollout_session_result(session->inner, &result, &err);
    return r < 0 ? api_error(&err, error) : api_json(result, json, error);
}

void snaffle_session_free(snaffle_session *session) {
    api_session_free(session);
}

int snaffle_run(snaffle_factory *factory, const snaffle_session_options *options,
                char **result_json, snaffle_error **error) {
    struct err err = {0};
    snaffle_session *s = NULL;
    struct rollout_result result = {0};
    int r = api_session_begin(options, &s, &err);
    if (r >= 0) {
        r = rollout_run(factory->inner, &s->task, &s->names, &s->control, &result, &err);
    }
    r = r < 0 ? api_error(&err, error) : api_json(result.json, result_json, error);
    rollout_result_deinit(&result);
    api_session_free(s);
    return r;
}
