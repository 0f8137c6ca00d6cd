/* SPDX-License-Identifier: BSD-3-Clause */
#include "sandbox/hf/report.h"

#include "guest/parcel.h"
#include "guest/protocol.h"
#include "sandbox/hf/answer.h"

#define MESSAGE_MAX 300

/* In one line: the words may be an agent's, who was root. */
static int failure_of(struct sv fields, uint64_t code, struct err *err) {
    struct sv message = {0};
    AUTO_BUF struct buf line = {0};
    int known = code < ERR_POS_COUNT_ ? -(int)code : ERR_PROTOCOL;
    (void)protocol_find(fields, PROTOCOL_MESSAGE, &message);
    if (hf_answer_line(message, MESSAGE_MAX, &line) < 0) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    return err_set(err, known, "%s", line.len > 0 ? buf_cstr(&line) : "it says not why");
}

/* Each stream's bytes stand behind its total. */
static int take_outputs(struct sv fields, struct hf_report *r) {
    struct buf *into = NULL;
    uint8_t tag;
    struct sv value;
    int code = 0;
    while (code == 0 && protocol_each(&fields, &tag, &value)) {
        if (tag == PROTOCOL_OUT_TOTAL || tag == PROTOCOL_ERR_TOTAL) {
            into = tag == PROTOCOL_OUT_TOTAL ? &r->out : &r->err;
        } else if (tag == PROTOCOL_BYTES && into) {
            buf_reset(into);
            code = buf_add_sv(into, value);
        }
    }
    return code;
}

int hf_report_read(struct sv fields, struct hf_report *out, struct err *err) {
    int r = protocol_check(fields, err);
    if (r < 0) {
        return r;
    }
    const uint64_t none = UINT64_MAX;
    uint64_t failed = protocol_u64(fields, PROTOCOL_CODE, 0);
    uint64_t code = protocol_u64(fields, PROTOCOL_EXIT_CODE, none);
    if (failed > 0) {
        return failure_of(fields, failed, err);
    }
    if (code > 255 && code != none) {
        return err_set(err, ERR_PROTOCOL, "a command's record tells no exit code");
    }
    out->is_there = protocol_u64(fields, PROTOCOL_MAJOR_VERSION, 0) == PROTOCOL_MAJOR;
    out->has_ended = out->is_there && code != none;
    out->exit_code = out->has_ended ? (int)code : 0;
    out->timed_out = protocol_u64(fields, PROTOCOL_TIMED_OUT, 0) != 0;
    out->out_total = protocol_u64(fields, PROTOCOL_OUT_TOTAL, none);
    out->err_total = protocol_u64(fields, PROTOCOL_ERR_TOTAL, none);
    if (take_outputs(fields, out) < 0) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    out->has_output = out->has_ended && out->out_total != none && out->err_total != none &&
                      out->out.len <= out->out_total && out->err.len <= out->err_total;
    return out->is_there ? 0 : err_set(err, ERR_PROTOCOL, "what stands there is no record");
}

int hf_report_open(struct sv text, struct hf_report *out, bool *whole, struct err *err) {
    AUTO_BUF struct buf fields = {0};
    int r = parcel_read(text, &fields, err);
    if (r < 0) {
        return r;
    }
    *whole = true;
    return hf_report_read(buf_sv(&fields), out, err);
}

void hf_report_deinit(struct hf_report *r) {
    buf_deinit(&r->out);
    buf_deinit(&r->err);
    *r = (struct hf_report){0};
}
