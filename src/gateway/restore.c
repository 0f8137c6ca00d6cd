/* SPDX-License-Identifier: BSD-3-Clause */
#include "gateway/restore.h"

#include <stddef.h>

const char *engine_name(enum engine e) {
    static const char *const names[] = {
        [ENGINE_VLLM] = "vllm",
        [ENGINE_LLAMA_CPP] = "llama.cpp",
        [ENGINE_SGLANG] = "sglang",
        [ENGINE_OPENAI] = "openai",
    };
    return names[e];
}

bool restore_is_needed(const struct restore_plan *plan) {
    return plan->logprobs || plan->top_logprobs || plan->token_ids || plan->usage;
}

static bool is_ours(const struct restore_plan *plan, const struct chunk_choice *choice) {
    return (plan->logprobs && choice->logprobs.has_value) ||
           (plan->token_ids && choice->token_ids.has_value);
}

bool restore_drops(const struct restore_plan *plan, const struct chunk *c) {
    if (!c->has_choices || c->error.n > 0) {
        return false;
    }
    if (c->n_choices == 0) {
        return plan->usage && c->usage.has_value;
    }
    if (c->usage.has_value) {
        return false;
    }
    for (size_t i = 0; i < c->n_choices; i++) {
        const struct chunk_choice *choice = &c->choices[i];
        if (!choice->message_is_empty || choice->finish_reason.n > 0 || !is_ours(plan, choice)) {
            return false;
        }
    }
    return true;
}

/* Members of one object that are to go, in the order they stand there. */
struct gone {
    const struct chunk_field *fields[3];
    size_t n;
};

static void add_gone(struct gone *g, const struct chunk_field *f) {
    size_t i = g->n++;
    while (i > 0 && g->fields[i - 1]->ordinal > f->ordinal) {
        g->fields[i] = g->fields[i - 1];
        i--;
    }
    g->fields[i] = f;
}

static int remove_gone(const struct gone *g, struct sv text, struct splice *work) {
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < g->n; i++) {
        /* Those before it that go are exactly i. */
        rc = splice_remove_member(work, text, g->fields[i]->member, g->fields[i]->ordinal > i);
    }
    return rc;
}

/* One field that only we asked for: to null, or out. */
static int hide(const struct restore_plan *plan, const struct chunk_field *f, struct gone *gone,
                struct splice *work) {
    if (f->member.n == 0) {
        return 0;
    }
    if (plan->engine == ENGINE_LLAMA_CPP) {
        add_gone(gone, f);
        return 0;
    }
    return f->has_value ? splice_replace(work, f->value, SV("null")) : 0;
}

static int hide_alternatives(const struct chunk *c, const struct chunk_choice *choice,
                             struct splice *work) {
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < choice->n_rows; i++) {
        struct sv top = c->rows[choice->first_row + i].top_logprobs;
        if (top.n > 2) {
            rc = splice_replace(work, top, SV("[]"));
        }
    }
    return rc;
}

static int restore_choice(const struct restore_plan *plan, const struct chunk *c,
                          const struct chunk_choice *choice, struct sv text, struct splice *work) {
    struct gone gone = {0};
    int rc = 0;
    if (plan->logprobs) {
        rc = hide(plan, &choice->logprobs, &gone, work);
    } else if (plan->top_logprobs) {
        rc = hide_alternatives(c, choice, work);
    }
    if (rc == 0 && plan->token_ids) {
        rc = hide(plan, &choice->token_ids, &gone, work);
        rc = rc < 0 ? rc : hide(plan, &choice->prompt_token_ids, &gone, work);
    }
    return rc < 0 ? rc : remove_gone(&gone, text, work);
}

int restore_chunk(const struct restore_plan *plan, const struct chunk *c, struct sv text,
                  struct splice *work, struct buf *out) {
    struct gone gone = {0};
    int rc = 0;
    splice_reset(work);
    for (size_t i = 0; rc == 0 && i < c->n_choices; i++) {
        rc = restore_choice(plan, c, &c->choices[i], text, work);
    }
    if (rc == 0 && plan->token_ids) {
        rc = hide(plan, &c->prompt_token_ids, &gone, work);
    }
    if (rc == 0 && plan->usage && plan->engine == ENGINE_OPENAI && c->usage.member.n > 0 &&
        !c->usage.has_value) {
        add_gone(&gone, &c->usage);
    }
    rc = rc < 0 ? rc : remove_gone(&gone, text, work);
    return rc < 0 ? rc : splice_apply(work, text, out);
}
