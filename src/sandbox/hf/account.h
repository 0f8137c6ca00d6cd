/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_SANDBOX_HF_ACCOUNT_H
#define SNAFFLE_SANDBOX_HF_ACCOUNT_H

#include "base/err.h"

/* Who asks, and where: read as the Hub's official client reads it. Release with
 * hf_account_deinit. */
struct hf_account {
    char *endpoint; /* Without a slash at its end. */
    char *token;
};

/* The endpoint is HF_ENDPOINT, or the staging Hub with HUGGINGFACE_CO_STAGING, or the Hub. The
 * token is the first of `token` (may be NULL), HF_TOKEN, HUGGING_FACE_HUB_TOKEN, and the file
 * HF_TOKEN_PATH, else $HF_HOME/token, else token in $XDG_CACHE_HOME/huggingface or
 * ~/.cache/huggingface. ERR_ENVIRONMENT, with what to do, when there is none. */
int hf_account_open(const char *token, struct hf_account *out, struct err *err) CHECK_RESULT;
void hf_account_deinit(struct hf_account *a);

#endif
