/* SPDX-License-Identifier: BSD-3-Clause */
#include "rollout/command.h"

#include <math.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/utf8.h"

#define COMMAND_OUTPUT_MAX                                                                         \
    (16u * 1024) /* Twice what COMMAND_TAIL_CHARS of the widest characters need. */

static json_t *tail(const struct buf *bytes) {
    return json_text(utf8_last(buf_sv(bytes), COMMAND_TAIL_CHARS));
}

static json_t *failure(const struct err *why) {
    AUTO_FREE char *text = mem_printf("%s: %s", err_name(why->code), why->msg);
    return json_text(sv_from(text));
}

int command_run(struct sandbox *sandbox, const struct sandbox_exec *what, json_t *results,
                struct command_end *out, struct err *err) {
    struct sandbox_exec bounded = *what;
    bounded.output_max = COMMAND_OUTPUT_MAX;
    struct sandbox_output output = {0};
    struct err own = {0};
    int64_t began = clock_us();
    int r = sandbox_exec(sandbox, &bounded, &output, &own);
    double seconds = round((double)(clock_us() - began) / 1e3) / 1e3;
    out->exit_code = r < 0 ? -1 : output.exit_code;
    out->timed_out = r >= 0 && output.timed_out;
    json_t *entry = json_pack("{s:o, s:i, s:o, s:o, s:f}", "cmd", json_text(sv_from(what->shell)),
                              "exit_code", out->exit_code, "stdout", tail(&output.out), "stderr",
                              r < 0 ? failure(&own) : tail(&output.err), "duration_s", seconds);
    sandbox_output_deinit(&output);
    if (!entry || json_array_append_new(results, entry) < 0) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    if (r < 0 && err) {
        *err = own;
    }
    return r;
}
