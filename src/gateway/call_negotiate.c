/* SPDX-License-Identifier: BSD-3-Clause */
/* What a call asks the engine for, and what its answer teaches for the next. */
#include "base/clock.h"
#include "base/mem.h"
#include "gateway/call.h"
#include "gateway/scan.h"

/* What one call may be refused before it goes out clean: each refusal is a round trip that the
 * agent waits for. */
#define CALL_RESENDS_MAX 3u

static struct known *known_of(const struct call *c) {
    return &c->use.endpoint->known;
}

void call_plan_ask(struct call *c) {
    c->profile = known_profile(known_of(c));
    c->level = c->use.target->level_max;
    c->withdrawn = known_withdrawn(known_of(c), c->rewrite.model, request_is_stream(&c->request),
                                   request_has_tools(&c->request), clock_ms());
}

void call_learn_from_head(struct call *c, const struct http1_head *head) {
    known_learn_engine(known_of(c), engine_from_server(http1_get(head, SV("Server"))));
    c->plan = (struct restore_plan){
        .profile = known_profile(known_of(c)),
        .ours = c->rewrite.ours,
    };
    if (!(c->plan.ours & ASK_ANY_LOGPROBS)) {
        return;
    }
    c->plan.ours &= ~(unsigned)ASK_ALTERNATIVES; /* They go with the rows. */
}

bool call_may_be_refused(const struct call *c) {
    return (c->status == 400 || c->status == 422) && c->rewrite.ours != 0;
}

bool call_asks_again(struct call *c) {
    if (c->mode != MODE_PROBE || !c->x || c->is_ending) {
        return false;
    }
    unsigned named = rewrite_named(&c->rewrite, buf_sv(&c->answer));
    if (named == 0) {
        return false;
    }
    if (named & ASK_IDS) {
        named |=
            ASK_ID_STRINGS; /* Who refuses one field that it does not know refuses the other. */
    }
    c->withdrawn |= ++c->resends < CALL_RESENDS_MAX ? named : (unsigned)ASK_EVERYTHING;
    c->profile = known_profile(known_of(c)); /* Its refusal may have told what it is. */
    c->refused_status = c->status;
    c->status = 0;
    c->mode = MODE_NONE;
    c->first_us = 0;
    decode_free(TAKE(c->decode));
    buf_reset(&c->answer);
    buf_reset(&c->raw);
    return true;
}

void call_learn_from_success(struct call *c) {
    if (c->resends > 0 && c->status < 300) {
        known_withdraw(known_of(c), c->rewrite.model, request_is_stream(&c->request),
                       request_has_tools(&c->request), c->withdrawn, clock_ms());
    }
}

/* Engines then keep the ids of what they hide, too. */
static bool hides_reasoning(const struct call *c) {
    return c->request.fields[REQUEST_INCLUDE_REASONING].kind == SCAN_FALSE;
}

/* Says something, and to one who did not tell the engine to hide it. */
static bool ought_to_have_ids(const struct call *c, const struct capture_choice *choice) {
    return c->end == END_COMPLETE && choice->finish_reason.len > 0 &&
           (choice->n_rows > 0 || choice->content.len > 0 || choice->n_tools > 0) &&
           !hides_reasoning(c);
}

/* Asked for, and passed over in silence: worth another way, if there is one. */
static bool has_another_way(const struct call *c, unsigned ids) {
    const struct profile_rung *next =
        profile_rung(known_profile(known_of(c)), c->level, request_is_stream(&c->request),
                     request_has_tools(&c->request), c->withdrawn | ids);
    return profile_asks(next) & ASK_ANY_IDS;
}

void call_learn_from_answer(struct call *c) {
    known_learn_engine(known_of(c), c->capture.engine);
    const struct capture_choice *choice = c->capture.n_choices > 0 ? &c->capture.choices[0] : NULL;
    unsigned ids = c->rewrite.ours & ASK_ANY_IDS;
    size_t n = 0;
    if (!choice || !ids) {
        return;
    }
    (void)capture_ids(choice, &n);
    if (n > 0 || (ought_to_have_ids(c, choice) && has_another_way(c, ids))) {
        known_note_ids(known_of(c), c->rewrite.model, request_is_stream(&c->request),
                       request_has_tools(&c->request), ids, n > 0, clock_ms());
    }
}
