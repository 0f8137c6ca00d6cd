/* SPDX-License-Identifier: BSD-3-Clause */
/* Whatever a guest tells of a command, or left of it: there is an end that a command can have, or
 * an error that says why; output keeps its totals; and a parcel is put and read alike. */
#include <stdint.h>

#include "guest/parcel.h"
#include "sandbox/hf/report.h"

static void check(int r, const struct hf_report *report, const struct err *err) {
    BUG_IF(r > 0 || (r < 0 && !err->msg[0]));
    BUG_IF(report->exit_code < 0 || report->exit_code > 255);
    BUG_IF(report->has_ended && !report->is_there);
    BUG_IF(report->has_output && (report->out.len > report->out_total ||
                                  report->err.len > report->err_total || !report->has_ended));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct sv bytes = {(const char *)data, size};
    struct hf_report direct = {0};
    struct hf_report told = {0};
    struct hf_report raw = {0};
    struct buf text = {0};
    struct err err = {0};
    bool whole = false;
    int r = hf_report_read(bytes, &direct, &err);
    check(r, &direct, &err);
    BUG_IF(parcel_put(bytes, &text) < 0);
    BUG_IF(hf_report_open(buf_sv(&text), &told, &whole, &err) != r || !whole);
    BUG_IF(told.exit_code != direct.exit_code || told.out.len != direct.out.len);
    check(hf_report_open(bytes, &raw, &whole, &err), &raw, &err);
    hf_report_deinit(&direct);
    hf_report_deinit(&told);
    hf_report_deinit(&raw);
    buf_deinit(&text);
    return 0;
}
