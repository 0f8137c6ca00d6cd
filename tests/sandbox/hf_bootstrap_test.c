/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "sandbox/digest.h"
#include "tests/sandbox/contract.h"
#include "tests/sandbox/hf_hub.h"

/* The job's first process, for real: it brings the server and checks it against a digest of the
 * user's own. What brings it is a script that stands for wget. */

#define VARIABLE "HF_SANDBOX_SERVER_SHA256"

static char layer[] = "/tmp/hf-bootstrap-test-XXXXXX";
static char digest[DIGEST_HEX_MAX];

static int create(struct sandbox **out, struct err *err) {
    static const struct sandbox_spec spec = {
        .owner = "test", .run = CONTRACT_RUN, .rollout = "boot", .lifetime_s = 600};
    return sandbox_create(&sandbox_hf, &spec, deadline_in_s(PATIENCE_S), NULL, out, err);
}

static void the_server_whose_digest_is_given_is_run(void **state) {
    (void)state;
    struct sandbox *s = NULL;
    struct err err = {0};
    assert_int_equal(setenv(VARIABLE, digest, 1), 0);
    assert_ok(create(&s, &err), &err);
    assert_string_equal(contract_says(s, "tr '\\0' '\\n' </proc/1/cmdline; cat /tmp/brought; "
                                         "env | grep -c SBX_SERVER_"),
                        "/tmp/.sbx-server\nbrought\n0\n");
    contract_end(s);
    assert_int_equal(hub_alive(), 0);
}

static void a_server_with_another_digest_is_not_run(void **state) {
    (void)state;
    struct sandbox *s = NULL;
    struct err err = {0};
    char wrong[DIGEST_HEX_MAX];
    memcpy(wrong, digest, sizeof wrong);
    wrong[0] = wrong[0] == '0' ? '1' : '0';
    assert_int_equal(setenv(VARIABLE, wrong, 1), 0);
    assert_err(create(&s, &err), ERR_LOST, &err,
               "the sandbox's server is not the one that is pinned");
    assert_non_null(strstr(err.msg, digest)); /* What it is, for who trusts it. */
    assert_int_equal(hub_alive(), 0);
}

static int write_layer(struct err *err) {
    AUTO_FREE char *folder = mem_printf("%s/usr/bin", layer);
    AUTO_FREE char *wget = mem_printf("%s/wget", folder);
    AUTO_BUF struct buf program = {0};
    int r = file_mkdirs(folder, 0755, err);
    r = r < 0 ? r
              : file_write(wget,
                           SV("#!/bin/sh\n# -q -O FILE URL\necho brought >/tmp/brought\n"
                              "exec cp /.hf-sbx-server/sbx-server \"$3\"\n"),
                           0755, err);
    r = r < 0 ? r : file_read(getenv("SNAFFLE_SBX_DOUBLE"), 64u << 20, &program, err);
    return r < 0 ? r : digest_hex(program.data, program.len, digest);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(the_server_whose_digest_is_given_is_run),
    cmocka_unit_test(a_server_with_another_digest_is_not_run),
};

int main(void) {
    struct err err = {0};
    int failed = 1;
    if (!getenv("SNAFFLE_SBX_DOUBLE") || !mkdtemp(layer) || chmod(layer, 0755) < 0 ||
        write_layer(&err) < 0) {
        (void)printf("Bail out! cannot make an image: %s\n", err.msg);
        return 1;
    }
    hub_layer(layer);
    if (hub_start("protocol=3")) {
        failed = contract_run_cases(&sandbox_hf, cases, ARRAY_LEN(cases));
        hub_stop();
    } else {
        (void)printf("1..0 # SKIP no fake Hub here\n");
        failed = 0;
    }
    return file_remove_tree(layer, &err) < 0 ? 1 : failed;
}
