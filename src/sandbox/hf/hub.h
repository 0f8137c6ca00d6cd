/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_SANDBOX_HF_HUB_H
#define SNAFFLE_SANDBOX_HF_HUB_H

#include <jansson.h>
#include <stdbool.h>

#include "base/buf.h"
#include "base/cancel.h"
#include "base/clock.h"
#include "base/err.h"

/*
 * The Hub's Jobs API over one account and namespace. One object serves every rollout of the
 * process: they share its rate limit, and ask for their jobs' stages through one list. Any thread.
 */
struct hf_hub;

/* The hub of this process for `namespace` (NULL: the token's own, asked once); it lives as long as
 * the process. `token` as in hf_account_open. */
int hf_hub_of(const char *token, const char *namespace, deadline_ms until,
              const struct cancel *cancel, struct hf_hub **out, struct err *err) CHECK_RESULT;

const char *hf_hub_endpoint(const struct hf_hub *h);
const char *hf_hub_token(const struct hf_hub *h); /* A secret. */
const char *hf_hub_namespace(const struct hf_hub *h);

/* Creates a job; gives its object, owned by the caller. When it can't be known whether there is one
 * (no answer, a 5xx), jobs with the label `nonce_label`=`nonce` of the spec are cancelled before it
 * returns. ERR_ENVIRONMENT: the token's rights or the credit; ERR_QUOTA: the rate limit. */
int hf_hub_create(struct hf_hub *h, const json_t *spec, deadline_ms until,
                  const struct cancel *cancel, json_t **out, struct err *err) CHECK_RESULT;

/* A job that is over or unknown counts as cancelled. */
int hf_hub_cancel(struct hf_hub *h, const char *id, struct err *err) CHECK_RESULT;

/* Gives the job's object, owned by the caller. ERR_NOT_FOUND. */
int hf_hub_job(struct hf_hub *h, const char *id, deadline_ms until, const struct cancel *cancel,
               json_t **out, struct err *err) CHECK_RESULT;
bool hf_hub_job_is_over(const json_t *job);

/* Gives the array of jobs that are not over and have all labels of `labels`, an object of strings.
 */
int hf_hub_list(struct hf_hub *h, const json_t *labels, deadline_ms until,
                const struct cancel *cancel, json_t **out, struct err *err) CHECK_RESULT;

enum hf_stage { HF_WAITING, HF_RUNNING, HF_OVER };

/* How a stage is asked for. */
struct hf_look {
    int64_t since_ms; /* When the job was created, by the monotonic clock. */
    int64_t as_of_ms; /* The answer is no older than this; 0: than 2 s. */
    deadline_ms until;
    const struct cancel *cancel;
};

/* The stage of a job of ours; threads that ask at once share one list. `why` gets the stage and
 * message of one that is over, and the end of its log. */
int hf_hub_stage(struct hf_hub *h, const char *id, const struct hf_look *look, enum hf_stage *out,
                 struct buf *why, struct err *err) CHECK_RESULT;

/* Every job of ours has it; the list asks for it. */
#define HF_LABEL "snaffle"
#define HF_LABEL_NONCE "hf-sandbox-nonce"

#endif
