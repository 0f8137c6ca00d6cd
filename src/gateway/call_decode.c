/* SPDX-License-Identifier: BSD-3-Clause */
/* An encoded answer. When something of it must be taken out, the agent gets it decoded; else it
 * gets the engine's bytes, and a copy is decoded for the record. */
#include "base/clock.h"
#include "gateway/call.h"

void call_decode_begin(struct call *c, const struct http1_head *head) {
    c->is_unreadable = c->copies = false;
    /* An error may quote the key, which can only be covered in what is decoded. */
    bool may_quote = c->status >= 400 && c->use.target->api_key;
    if (c->is_models || !(c->record || c->restores || may_quote)) {
        return; /* Nothing is read. */
    }
    c->is_unreadable = decode_new(head, DECODE_ANSWER_MAX, &c->decode, NULL) < 0;
    /* A refusal that may lead to another try is read as a whole. */
    bool may_refuse = call_may_be_refused(c);
    c->copies = c->decode && !c->restores && !may_quote && !may_refuse;
    if (c->decode && !c->copies) {
        c->has_length = false; /* It was that of the encoded bytes. */
    }
}

static int take_plain(void *arg, struct sv plain, struct err *err) {
    return call_take_plain(arg, plain, err);
}

/* What can't be decoded goes on all the same when it need not be read; the record says so. */
static int bear(struct call *c, int rc, struct err *err) {
    if (rc == 0 || rc == ERR_NOMEM) {
        return rc;
    }
    if (!c->copies) {
        err_wrap(err, "the engine's answer");
        return err->code = ERR_PROTOCOL;
    }
    c->is_unreadable = true;
    *err = (struct err){0};
    return 0;
}

int call_decode_body(struct call *c, struct sv payload, struct err *err) {
    if (c->first_us == 0) {
        c->first_us = clock_us();
    }
    int rc = 0;
    if (!c->is_unreadable) {
        rc = bear(c, decode_feed(c->decode, payload, take_plain, c, err), err);
    }
    if (rc == 0 && c->copies) {
        rc = c->mode == MODE_STREAM ? call_stream_pass(c, payload) : call_whole_pass(c, payload);
    }
    return rc;
}

int call_decode_end(struct call *c, struct err *err) {
    return c->is_unreadable ? 0 : bear(c, decode_end(c->decode, err), err);
}
