/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_AGENT_AGENT_H
#define SNAFFLE_AGENT_AGENT_H

#include <jansson.h>
#include <stdbool.h>

#include "base/err.h"
#include "base/sv.h"

/*
 * The contract of an agent: a command-line program that does a task against a model endpoint. Pure
 * builders: no input or output happens here, all follows from the settings.
 */

/* The reference's configuration fields, by the same names, with its defaults. */
struct agent_config {
    const char *provider; /* "openai_compatible" */
    const char *base_url; /* Of the real endpoint; the agent gets another. */
    const char *api_key;  /* Of the real endpoint; the agent never gets it in a captured mode. */
    const char *model;
    long long request_timeout_ms; /* 600000 */
    const char *opencode_version; /* Our pin; or "latest", resolved at installation. */
    const json_t *disabled_tools; /* ["webfetch", "question"] */
    const json_t *enabled_tools;  /* NULL: not set; else a whitelist. */
    const char *system_prompt;    /* NULL: none. */
    const json_t *extra_opencode_json;
    const char *run_format;        /* "json" or "default" */
    double agent_timeout_s;        /* 900 */
    const json_t *extra_env;       /* {NAME: value} */
    const char *extra_setup_shell; /* NULL: none. */
    const char *sandbox_home;      /* "/home/user" */
    const char *agent_cmd;         /* Of the agent `command`: shell text; NULL: none. */
    const char *rootfs;     /* The sandbox's system: a folder or OCI layout; NULL: the host's. */
    const json_t *mounts;   /* ["HOST_PATH:PATH"], seen read-only inside; NULL: none. */
    const char *capture;    /* "tunnel", "public" or "sandbox"; NULL: as the backend can. */
    const char *public_url; /* Of `public`: where sandboxes reach the gateway. */
    const char *listen;     /* Of `public`: ADDRESS:PORT to bind; NULL: 127.0.0.1:7000. */
    long long proxy_max_tokens_cap; /* 16384; 0: none (null in JSON). */
    int proxy_top_logprobs;         /* 5 */
    bool proxy_disable_thinking;
    const char *engine;         /* What the endpoint is, by the gateway's names; NULL: told. */
    bool neutral_sampling;      /* Truncation and penalties are switched off. */
    const char *policy_version; /* Which weights the engine runs; NULL: not said. */
    long long loop_break_calls; /* Refuse a body that failed so often; 0: never. */
    double loop_break_s;        /* Within this time: 60 */
};

/* Where this run's agent finds its model, and its task. */
struct agent_job {
    const char *instruction;
    const char *base_url; /* What the agent is told: http://127.0.0.1:7000/v1 */
    const char *api_key;  /* The rollout's token. */
    const char *program;  /* Inside; NULL: the agent's own program_path. */
    const char *title;    /* The rollout's name, for agents that would ask a model for one. */
    double deadline_unix; /* SNAFFLE_DEADLINE; 0: none. */
    long long
        context_tokens; /* The model's context window, where the endpoint tells; 0: unknown. */
};

struct agent_file {
    char *path; /* Absolute, inside. */
    char *content;
    unsigned mode;
};

/* What to place and what to start. All owned by the plan; agent_plan_deinit frees. */
struct agent_plan {
    struct agent_file *files;
    size_t n_files;
    char **argv;    /* NULL-ended; no shell in between. */
    char *input;    /* What its stdin gives before it ends; NULL: /dev/null. */
    char **env;     /* NULL-ended NAME=value: all of it, nothing is inherited. */
    char *cwd;      /* <home>/workdir; made before the start, if need be. */
    char *log_path; /* <home>/logs/agent/opencode.jsonl: its stdout and stderr. */
};

void agent_plan_deinit(struct agent_plan *p);

/* What a recorded call was for. */
enum agent_call { AGENT_CALL_MAIN, AGENT_CALL_TITLE, AGENT_CALL_SUMMARY, AGENT_CALL_SUBAGENT };

struct agent {
    const char *name;         /* "opencode" */
    const char *mount_path;   /* Its installed folder is mounted here inside, read-only; NULL:
                                 nothing is installed for it. */
    const char *program_path; /* Where its program then is. */
    const char *home_path;    /* Below the home: where it is put in sandboxes that nothing can be
                                 mounted in; its installer puts it there too. */
    const char *installer;    /* The address of a shell script; NULL: there is none. */
    const char *default_version;
    bool must_call; /* A run without a model call is a failure (agent_no_calls). */
    int (*plan)(const struct agent_config *config, const struct agent_job *job,
                struct agent_plan *out, struct err *err);
    /* `request` is the agent's chat request; `session` and `parent` the agent's own ids, from its
     * headers, or empty. */
    enum agent_call (*classify)(const json_t *request, struct sv session, struct sv parent);
};

extern const struct agent agent_opencode;
extern const struct agent agent_command;          /* Whatever config->agent_cmd says. */
const struct agent *agent_find(const char *name); /* NULL: none such. */
extern const char *const agent_names[];           /* NULL-ended, for messages. */

#endif
