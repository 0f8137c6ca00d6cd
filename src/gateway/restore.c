/* SPDX-License-Identifier: BSD-3-Clause */
#include "gateway/restore.h"

#include <stddef.h>

bool restore_is_needed(const struct restore_plan *plan) {
    return plan->ours & ~(unsigned)ASK_NEUTRAL;
}

static bool hides_rows(const struct restore_plan *plan) {
    return plan->ours & ASK_ANY_LOGPROBS;
}

static bool hides_ids(const struct restore_plan *plan) {
    return plan->ours & (ASK_IDS | ASK_IDS_AT_END);
}

static bool is_ours(const struct restore_plan *plan, const struct chunk_choice *choice) {
    return (hides_rows(plan) && choice->logprobs.has_value) ||
           (hides_ids(plan) && choice->token_ids.has_value);
}

/* The one event of a stream that only has the ids, or the usage. */
static bool is_only_ours(const struct restore_plan *plan, const struct chunk *c) {
    bool usage = c->usage.has_value;
    bool ids = c->sglext.has_value;
    return (usage || ids) && (!usage || plan->ours & ASK_USAGE) &&
           (!ids || (hides_ids(plan) && c->sglext_is_ids));
}

bool restore_drops(const struct restore_plan *plan, const struct chunk *c) {
    if (!c->has_choices || c->error.n > 0) {
        return false;
    }
    if (c->n_choices == 0) {
        return is_only_ours(plan, c);
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
    const struct chunk_field *fields[5]; /* All that one object can lose. */
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

static void add_value(struct gone *g, const struct chunk_field *f) {
    if (f->has_value) {
        add_gone(g, f);
    }
}

static int to_null(const struct chunk_field *f, struct splice *work) {
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

static int hide_rows(const struct restore_plan *plan, const struct chunk_choice *choice,
                     struct gone *gone, struct sv text, struct splice *work) {
    struct gone of_delta = {0};
    add_value(gone, &choice->top_logprobs);
    add_value(&of_delta, &choice->token_id);
    int rc = remove_gone(&of_delta, text, work);
    if (plan->profile->leaves_logprobs_out) {
        add_value(gone, &choice->logprobs);
        return rc;
    }
    return rc < 0 ? rc : to_null(&choice->logprobs, work);
}

/* vLLM writes null where nobody asked, SGLang leaves out. */
static int hide_ids(const struct restore_plan *plan, const struct chunk_choice *choice,
                    struct gone *gone, struct splice *work) {
    add_value(gone, &choice->response_token_ids);
    add_value(gone, &choice->prompt_token_ids);
    if (plan->profile->leaves_logprobs_out) {
        add_value(gone, &choice->token_ids);
        return 0;
    }
    return to_null(&choice->token_ids, work);
}

static int restore_choice(const struct restore_plan *plan, const struct chunk *c,
                          const struct chunk_choice *choice, struct sv text, struct splice *work) {
    struct gone gone = {0};
    int rc = 0;
    if (hides_rows(plan)) {
        rc = hide_rows(plan, choice, &gone, text, work);
    } else if (plan->ours & ASK_ALTERNATIVES) {
        rc = hide_alternatives(c, choice, work);
    }
    if (rc == 0 && hides_ids(plan)) {
        rc = hide_ids(plan, choice, &gone, work);
    }
    return rc < 0 ? rc : remove_gone(&gone, text, work);
}

static int restore_top(const struct restore_plan *plan, const struct chunk *c, struct gone *gone,
                       struct sv text, struct splice *work) {
    struct gone of_sglext = {0};
    if (plan->profile->adds_null_usage && plan->ours & ASK_USAGE && c->usage.member.n > 0 &&
        !c->usage.has_value) {
        add_gone(gone, &c->usage);
    }
    if (!hides_ids(plan)) {
        return 0;
    }
    if (plan->profile->leaves_logprobs_out) {
        add_value(gone, &c->prompt_token_ids);
    } else if (to_null(&c->prompt_token_ids, work) < 0) {
        return ERR_NOMEM;
    }
    if (c->sglext_is_ids) {
        add_value(gone, &c->sglext);
        return 0;
    }
    add_value(&of_sglext, &c->input_ids);
    add_value(&of_sglext, &c->output_ids);
    return remove_gone(&of_sglext, text, work);
}

int restore_chunk(const struct restore_plan *plan, const struct chunk *c, struct sv text,
                  struct splice *work, struct buf *out) {
    struct gone gone = {0};
    int rc = 0;
    splice_reset(work);
    for (size_t i = 0; rc == 0 && i < c->n_choices; i++) {
        rc = restore_choice(plan, c, &c->choices[i], text, work);
    }
    rc = rc < 0 ? rc : restore_top(plan, c, &gone, text, work);
    rc = rc < 0 ? rc : remove_gone(&gone, text, work);
    return rc < 0 ? rc : splice_apply(work, text, out);
}
