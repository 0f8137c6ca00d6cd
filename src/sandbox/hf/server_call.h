/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_SANDBOX_HF_SERVER_CALL_H
#define SNAFFLE_SANDBOX_HF_SERVER_CALL_H

#include "net/http_client.h"
#include "sandbox/hf/server.h"

/* One call of sbx-server: server.c's commands and server_files.c's files go through it. */
struct hf_server_ask {
    const char *what; /* For messages. */
    const char *method;
    const char *route; /* "/v1/files/read" */
    const char *path;  /* Of the query; NULL: none. */
    const char *query; /* Further fields, escaped. */
    struct sv body;
    bool is_json;
    bool once;         /* As in http_client.h. */
    unsigned attempts; /* What may pass is tried so often; 0: once. */
    size_t answer_max;
    double seconds; /* At most; 0: 60. */
    deadline_ms until;
    const struct cancel *cancel;
};

/* 2xx is success; release the answer with http_answer_deinit. */
int hf_server_call(struct hf_server *s, const struct hf_server_ask *ask, struct http_answer *out,
                   struct err *err) CHECK_RESULT;

#endif
