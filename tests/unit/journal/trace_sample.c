/* SPDX-License-Identifier: BSD-3-Clause */
/* Prints the trace of a session with a call of each kind: whole, open, failed, damaged, without its
 * intent, completed late. */
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "journal/journal.h"
#include "journal/trace.h"

#define SESSION SV("r1.1")
#define INTENT                                                                                     \
    {                                                                                              \
        .type = JOURNAL_INTENT, .session = SESSION, .n_parts = 1,                                  \
        .head = SV("{\"dialect\":\"openai_chat\",\"model\":\"m\",\"edits\":[{\"field\":"           \
                   "\"model\",\"action\":\"changed\",\"from\":\"a\",\"to\":\"m\"}],"               \
                   "\"sampling\":{\"asked\":{},\"sent\":{\"temperature\":1}},"                     \
                   "\"agent_session\":\"s\"}"),                                                    \
        .parts = {{SV("agent_body"), SV("{\"model\":\"m\",\n\"messages\":[]}")}},                  \
    }
#define RESULT(head_, response)                                                                    \
    {                                                                                              \
        .type = JOURNAL_RESULT, .session = SESSION, .head = SV(head_), .n_parts = 5, .parts = {    \
            {SV("response"), SV(response)},                                                        \
            {SV("completion_tokens"), SV("[\"a\"]")},                                              \
            {SV("completion_token_ids"), SV("[5]")},                                               \
            {SV("per_token_logps"), SV("[-0.5]")},                                                 \
            {SV("prompt_token_ids"), SV("[1,2]")}                                                  \
        }                                                                                          \
    }
#define WHOLE                                                                                      \
    "{\"status\":200,\"end\":\"complete\",\"finish_reason\":\"stop\",\"latency_s\":0.5,"           \
    "\"ttft_s\":0.1,\"engine\":\"vllm\",\"model\":\"m\",\"findings\":[\"f\"]"

static struct journal_record records[] = {
    {.type = JOURNAL_SESSION_OPEN, .session = SESSION, .head = SV("{\"policy_version\":1}")},
    INTENT,
    RESULT(WHOLE "}", "{\"choices\":[]}"),
    INTENT,
    INTENT,
    {.type = JOURNAL_RESULT,
     .session = SESSION,
     .head = SV("{\"status\":502,\"end\":\"error\",\"upstream_error\":\"no connection\"}")},
    INTENT,
    {.type = JOURNAL_RESULT,
     .session = SESSION,
     .head = SV("{\"status\":400,\"end\":\"error\",\"upstream_status\":400,"
                "\"upstream_error\":\"bad\"}")},
    INTENT,
    RESULT("{", "{"),
    RESULT(WHOLE "}", "{}"),
    INTENT,
    RESULT(WHOLE ",\"tail_open\":true}", "{}"),
    {.type = JOURNAL_TAIL,
     .session = SESSION,
     .head = SV("{\"findings\":[\"late\"]}"),
     .parts = {{SV("usage"), SV("{}")}},
     .n_parts = 1},
};
static const uint64_t calls[] = {0, 1, 1, 2, 3, 3, 4, 4, 5, 5, 6, 7, 7, 7};

static int write_journal(const char *dir, struct err *err) {
    struct journal *j = NULL;
    int r = journal_open(&(struct journal_options){.dir = dir}, &j, err);
    for (size_t i = 0; i < sizeof calls / sizeof calls[0] && r == 0; i++) {
        records[i].call = calls[i];
        r = journal_append_wait(j, &records[i], err);
    }
    journal_close(j);
    return r;
}

int main(void) {
    char dir[] = "/tmp/snaffle-trace-sample.XXXXXX";
    struct err err = {0};
    AUTO_BUF struct buf out = {0};
    if (!mkdtemp(dir)) {
        return 1;
    }
    const struct trace_source from = {.journal_dir = dir, .session = "r1.1"};
    int r = write_journal(dir, &err);
    r = r < 0 ? r : trace_to_buf(&from, &out, NULL, &err);
    if (file_remove_tree(dir, NULL) < 0 || r < 0) {
        fprintf(stderr, "%s\n", err.msg);
        return 1;
    }
    return fputs(buf_cstr(&out), stdout) < 0;
}
