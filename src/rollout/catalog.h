/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_ROLLOUT_CATALOG_H
#define SNAFFLE_ROLLOUT_CATALOG_H

#include <jansson.h>
#include <stdbool.h>

#include "base/err.h"

/*
 * The model's endpoint: a kind from the catalog (vllm, openai, hf_router), whose address, key and
 * model come from arguments, else the environment, else defaults; or an address given outright.
 * Reads the environment through env_get; asks no network.
 */

struct catalog_entry {
    const char *kind;
    const char *base_url_env;
    const char *api_key_env;
    const char *model_env;
    const char *default_base_url; /* NULL: required. */
    const char *default_api_key;  /* NULL: required. */
    const char *default_model;    /* NULL: required. */
    bool disable_thinking;
};

extern const struct catalog_entry catalog[]; /* Ends with a NULL kind. */
extern const char *const catalog_kinds[];    /* NULL-ended. */

struct endpoint_args {
    const char *kind; /* NULL or "": none, then base_url and model are required. */
    const char *base_url;
    const char *api_key;     /* The key itself. */
    const char *api_key_env; /* The variable that holds it, which must be set; wins. */
    const char *model;
    const bool *disable_thinking; /* NULL: not said. */
    bool is_call; /* Messages tell how a call gives what is missing, not a command line. */
};

struct endpoint {
    char *kind;     /* NULL: given outright. */
    char *base_url; /* With a kind: no slash at the end, and ends in /v1. Else as given. */
    char *api_key;  /* "intercepted" where none is needed. */
    char *key_name; /* The variable the key came from; NULL: given inline, or no key. */
    char *model;
    bool disable_thinking;
};

/* ERR_INPUT: "unknown endpoint kind: 'x' ...", "vllm: no base_url ...", "openai: no api_key ...",
 * "...: no model ...". */
int endpoint_resolve(const struct endpoint_args *args, struct endpoint *out,
                     struct err *err) CHECK_RESULT;
void endpoint_deinit(struct endpoint *e); /* Wipes the key. Accepts zero. */

/* Gives an array of {kind, base_url_env, api_key_env, model_env, default_base_url, default_model,
 * disable_thinking_default, configured}. NULL: no memory. */
json_t *catalog_summary(void);

#endif
