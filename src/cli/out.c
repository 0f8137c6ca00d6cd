/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/out.h"

#include <errno.h>
#include <stdio.h>

#include "base/json.h"

int out_json(json_t *value, struct err *err) {
    AUTO_JSON json_t *owned = value;
    AUTO_BUF struct buf text = {0};
    if (!owned || json_pretty(owned, &text) < 0) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    (void)fwrite(text.data, 1, text.len, stdout);
    return 0;
}

int out_finish(struct err *err) {
    if (ferror(stdout) || fflush(stdout) != 0) {
        return err_sys(err, ERR_SYS, errno, "cannot write to standard output");
    }
    return 0;
}
