/* SPDX-License-Identifier: BSD-3-Clause */
/* snaffle-gateway: 'snaffle gateway' as a program of its own, that needs nothing of the machine it
 * runs on. */
#include <nss.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

#include "base/env.h"
#include "cli/commands.h"
#include "cli/out.h"
#include "cli/text.h"
#include "net/tls.h"
#include "server/capture/roots.h"

static int complain(const struct err *err) {
    AUTO_BUF struct buf line = {0};
    const char *text = text_printable(sv_from(err->msg), &line) < 0 ? err->msg : buf_cstr(&line);
    (void)fflush(stdout);
    (void)fprintf(stderr, "snaffle-gateway: error: %s\n", text);
    return err_exit_status(err->code);
}

static int run(size_t argc, char *const *argv, struct err *err) {
    struct args args = {0};
    if (argc > 0 && (strcmp(argv[0], "--version") == 0 || strcmp(argv[0], "-V") == 0)) {
        (void)printf("snaffle-gateway %s\n", SNAFFLE_VERSION);
        return 0;
    }
    int r = args_parse(&cmd_gateway, argc, argv, &args, err);
    if (r < 0) {
        return r;
    }
    if (args_has(&args, "help")) {
        command_print_help(&cmd_gateway, stdout);
    } else {
        r = env_load_dotenv(".env", err);
        r = r < 0 ? r : cmd_gateway.run(&args, err);
    }
    args_deinit(&args);
    return r;
}

int main(int argc, char **argv) {
    struct err err = {0};
    /* The endpoint's key is in its memory: no other process of the same user is to read that. */
    (void)prctl(PR_SET_DUMPABLE, 0);
    /* Other sources of names are libraries of the machine's own C library, of which there may be
     * another or none. */
    (void)__nss_configure_lookup("hosts", "files dns");
    tls_set_roots(capture_roots);
    int r = run(argc > 0 ? (size_t)argc - 1 : 0, argv + 1, &err);
    if (r >= 0) {
        int end = out_finish(&err);
        r = end < 0 ? end : r;
    }
    return r < 0 ? complain(&err) : r;
}
