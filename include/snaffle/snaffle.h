/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_SNAFFLE_H
#define SNAFFLE_SNAFFLE_H

#include <stddef.h>

/*
 * The public C interface of Snaffle: rollouts of coding agents in sandboxes, with every token of
 * their model calls.
 *
 *     snaffle_options o = {0};
 *     o.size = sizeof o;
 *     o.endpoint = "vllm";
 *     snaffle_factory *f = NULL;
 *     snaffle_error *error = NULL;
 *     if (snaffle_factory_new(&o, &f, &error) < 0) {
 *         fprintf(stderr, "%s\n", snaffle_error_message(error));
 *     }
 *
 * Functions that can fail return 0 (or a positive value) on success and one of the negative
 * SNAFFLE_ERR_* on failure; then, if `error` is not NULL, *error gets an object that the caller
 * frees. Outputs are written on success only. All functions may be called from any thread.
 *
 * Options structs begin with their own size, which the caller sets: so a program built against one
 * version of this header runs with a library of another. All other fields: zero is the default.
 * Strings are UTF-8 and borrowed for the call. Text that is given is freed with snaffle_free.
 */

#if defined(__GNUC__)
#define SNAFFLE_API __attribute__((visibility("default")))
#else
#define SNAFFLE_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The library's version, "0.1.0"; a static string. */
SNAFFLE_API const char *snaffle_version(void);

/* Accepts NULL. */
SNAFFLE_API void snaffle_free(void *text);

/* ---- errors ---- */

typedef struct snaffle_error snaffle_error;

enum {
    SNAFFLE_ERR_NOMEM = -1,
    SNAFFLE_ERR_SYS = -2,
    SNAFFLE_ERR_INPUT = -3,
    SNAFFLE_ERR_USAGE = -4,
    SNAFFLE_ERR_ENVIRONMENT = -5, /* The machine lacks something: the message says what to do. */
    SNAFFLE_ERR_TIMEOUT = -6,
    SNAFFLE_ERR_CANCELLED = -7,
    SNAFFLE_ERR_LIMIT = -8,
    SNAFFLE_ERR_PROTOCOL = -9,
    SNAFFLE_ERR_CLOSED = -10,
    SNAFFLE_ERR_CONNECT = -11,
    SNAFFLE_ERR_NOT_FOUND = -12,
    SNAFFLE_ERR_EXISTS = -13,
    SNAFFLE_ERR_UNSUPPORTED = -14,
    SNAFFLE_ERR_DENIED = -15,
    SNAFFLE_ERR_LOST = -16, /* The sandbox is gone. */
    SNAFFLE_ERR_CORRUPT = -17,
    SNAFFLE_ERR_FULL = -18,
    SNAFFLE_ERR_STATE = -19, /* Not now: not started, or closed. */
    SNAFFLE_ERR_UPSTREAM = -20,
    SNAFFLE_ERR_QUOTA = -21,
    SNAFFLE_ERR_INTERNAL = -22
};

/* All accept NULL. The strings are valid until the error is freed. */
SNAFFLE_API int snaffle_error_code(const snaffle_error *error);
SNAFFLE_API const char *snaffle_error_name(const snaffle_error *error);    /* "INPUT" */
SNAFFLE_API const char *snaffle_error_message(const snaffle_error *error); /* One line. */
SNAFFLE_API int snaffle_error_retryable(const snaffle_error *error);
SNAFFLE_API void snaffle_error_free(snaffle_error *error);

/* ---- cancelling ---- */

/* A switch that ends rollouts. snaffle_cancel_throw may be called from a signal handler: the first
 * time what there is gets collected, the second time everything is torn down at once. */
typedef struct snaffle_cancel snaffle_cancel;

SNAFFLE_API int snaffle_cancel_new(snaffle_cancel **out, snaffle_error **error);
SNAFFLE_API void snaffle_cancel_throw(snaffle_cancel *cancel);
SNAFFLE_API void snaffle_cancel_free(snaffle_cancel *cancel); /* No rollout uses it any more. */

/* ---- the factory ---- */

typedef struct snaffle_factory snaffle_factory;

typedef struct snaffle_options {
    size_t size; /* sizeof(snaffle_options) */

    /* The model's endpoint: a kind ("vllm", "openai", "hf_router"), whose settings come from the
     * fields below, else config_json, else the environment, else defaults; or base_url and model
     * outright. The key stays in this process. */
    const char *endpoint;
    const char *base_url;
    const char *api_key;
    const char *api_key_env; /* The name of a variable that holds the key. */
    const char *model;

    const char *config_json; /* An object with the agent's configuration fields. */
    const char *mode;        /* "black_box" (default) or "transparent_proxy". */
    const char *backend;     /* "local" (default) or "hf" */
    const char *agent;       /* "opencode"; or "command", with agent_cmd in config_json. */
    const char *runs_dir;    /* "./runs" */
    const char *run;         /* Made from the time and chance. */
    const char *verify_on;   /* "always" (default) or "clean". */

    int strict;             /* Refuse what the backend can't enforce. */
    int keep_raw;           /* Keep the engine's raw answers. */
    int durable;            /* Records count when they are on the disk. */
    int require_calls;      /* A run without a model call is a failure. */
    int setup_offline;      /* Setup has the agent's network unless the task asks for another. */
    int logprobs_processed; /* The engine's log-probabilities are those it sampled from. */
    int neutral_sampling;   /* Calls are sampled without truncation and penalties. */

    unsigned create_attempts; /* 3 */
    double create_backoff_s;  /* 2; doubles. */
    unsigned retries;         /* Of snaffle_run, after causes worth one. */

    double create_s; /* Seconds; 0: the task's own, else the default. */
    double install_s;
    double setup_s;
    double agent_s;
    double verify_command_s;
    double verify_s;
    double budget_s;        /* Of the whole rollout; 0: none. */
    double upstream_down_s; /* Ten failed calls in a row over this long end it; 0: 120. */

    const char
        *verify_in; /* "same" (default), or "fresh": in a sandbox that the agent never saw. */
} snaffle_options;

SNAFFLE_API int snaffle_factory_new(const snaffle_options *options, snaffle_factory **out,
                                    snaffle_error **error);
SNAFFLE_API const char *snaffle_factory_run(const snaffle_factory *factory);

/* Whether something answers at the model's endpoint: SNAFFLE_ERR_ENVIRONMENT when not. */
SNAFFLE_API int snaffle_factory_check_endpoint(const snaffle_factory *factory,
                                               snaffle_error **error);
/* Which weights the engine runs from now on: stands in the record of each call to come, in all
 * sessions that there are and will be, unless the engine itself says. NULL: not known. The
 * configuration's policy_version is the one to begin with. */
SNAFFLE_API int snaffle_factory_set_policy_version(snaffle_factory *factory, const char *version,
                                                   snaffle_error **error);
SNAFFLE_API void snaffle_factory_free(snaffle_factory *factory); /* Its sessions were freed. */

/* ---- sessions ---- */

typedef struct snaffle_session snaffle_session;

typedef struct snaffle_event {
    size_t size;
    const char *phase;  /* "create", "install", "setup", "agent", "verify", "collect", "teardown" */
    const char *text;   /* One line for people. */
    const char *detail; /* The command of that step, or NULL. */
    int tick;           /* Only the figures are new. */
    double elapsed_s;
    unsigned long long calls;
    unsigned long long completion_tokens;
} snaffle_event;

/* Called on the thread that does the work; must not call back. The event is borrowed. */
typedef void (*snaffle_progress_fn)(void *arg, const snaffle_event *event);

typedef struct snaffle_session_options {
    size_t size;            /* sizeof(snaffle_session_options) */
    const char *task_json;  /* A task: an object as in task.json, or a string (the instruction). */
    const char *task_path;  /* Or a task file, or a folder that holds task.json. */
    const char *group;      /* The rollout's own name. */
    const char *rollout;    /* Made from the task's id and chance. */
    unsigned attempt;       /* 1 */
    snaffle_cancel *cancel; /* Kept. */
    snaffle_progress_fn progress;
    void *progress_arg;
} snaffle_session_options;

/* Gives a session whose sandbox stands and whose setup is done; its agent is not started. */
SNAFFLE_API int snaffle_factory_create(snaffle_factory *factory,
                                       const snaffle_session_options *options,
                                       snaffle_session **out, snaffle_error **error);

SNAFFLE_API const char *snaffle_session_rollout(const snaffle_session *session);
SNAFFLE_API const char *snaffle_session_sandbox_id(const snaffle_session *session);
SNAFFLE_API const char *snaffle_session_dir(const snaffle_session *session);

/* Idempotent. */
SNAFFLE_API int snaffle_session_start_agent(snaffle_session *session, snaffle_error **error);

/* As snaffle_factory_set_policy_version, for this session's calls only. SNAFFLE_ERR_STATE once its
 * agent has ended. */
SNAFFLE_API int snaffle_session_set_policy_version(snaffle_session *session, const char *version,
                                                   snaffle_error **error);

/* SNAFFLE_ERR_TIMEOUT after timeout_s, when the agent goes on, or at the end of the agent's own
 * time (timeout_s 0: only then), when it was stopped; it may be verified all the same. */
SNAFFLE_API int snaffle_session_wait(snaffle_session *session, double timeout_s, int *exit_code,
                                     snaffle_error **error);

/* The calls so far, one JSON object a line as in trace.jsonl; empty in black_box mode. */
SNAFFLE_API int snaffle_session_fetch_trace(snaffle_session *session, char **text, size_t *length,
                                            snaffle_error **error);

/* The agent's own output so far: bytes, with a NUL after them. */
SNAFFLE_API int snaffle_session_fetch_log(snaffle_session *session, char **text, size_t *length,
                                          snaffle_error **error);

/* Stops the agent and grades its work. Gives 1 and the reward, or 0 when there is none. */
SNAFFLE_API int snaffle_session_verify(snaffle_session *session, double *reward,
                                       snaffle_error **error);

/* May be called at any time from any thread, and again: ends a wait, collects, tears down. */
SNAFFLE_API int snaffle_session_close(snaffle_session *session, snaffle_error **error);

/* result.json; after close. */
SNAFFLE_API int snaffle_session_result(const snaffle_session *session, char **json,
                                       snaffle_error **error);
SNAFFLE_API void snaffle_session_free(snaffle_session *session); /* Closes too. Accepts NULL. */

/* ---- in one call ---- */

/* Create, start, wait, verify, close, with further attempts where the cause is worth one. Gives
 * result.json, also of rollouts that failed; an error means that none was begun. */
SNAFFLE_API int snaffle_run(snaffle_factory *factory, const snaffle_session_options *options,
                            char **result_json, snaffle_error **error);

/* The kinds of endpoints, as a JSON array. */
SNAFFLE_API int snaffle_catalog_summary(char **json, snaffle_error **error);

#ifdef __cplusplus
}
#endif

#endif
