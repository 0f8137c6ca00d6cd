/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "sandbox/digest.h"
#include "tests/sandbox/contract.h"
#include "tests/sandbox/hf_hub.h"
#include "tests/testing.h"

/* A sandbox of an image that has the guest: nothing of it is sent. */

#define IMAGE_GUEST "/opt/snaffle/bin/snaffle-guest"

static char layer[] = "/tmp/snaffle-layer-XXXXXX";

static void put(const char *path, struct sv content, unsigned mode) {
    struct err err = {0};
    AUTO_FREE char *full = mem_printf("%s%s", layer, path);
    AUTO_FREE char *folder = mem_strdup(full);
    *strrchr(folder, '/') = '\0';
    assert_ok(file_mkdirs(folder, 0755, &err), &err);
    assert_ok(file_write(full, content, mode, &err), &err);
}

/* The program, under its digest, or under another's. */
static void make_image(bool ours) {
    AUTO_BUF struct buf guest = {0};
    struct err err = {0};
    char digest[DIGEST_HEX_MAX];
    assert_ok(file_read(getenv("SNAFFLE_GUEST"), 64 << 20, &guest, &err), &err);
    assert_int_equal(digest_hex(guest.data, guest.len - !ours, digest), 0);
    put(IMAGE_GUEST, buf_sv(&guest), 0755);
    AUTO_FREE char *note = mem_printf("/opt/snaffle/by-digest/%s", digest);
    put(note, SV(IMAGE_GUEST "\n"), 0644);
}

static const char sent[] = "ls -d /.snaffle-*/guest 2>/dev/null | wc -l";
static const char who[] = "tr '\\0' '\\n' </proc/$PPID/cmdline | head -n 1";

static void the_guest_of_the_image_serves_and_none_is_sent(void **state) {
    (void)state;
    struct sandbox *s = contract_make(NULL);
    assert_string_equal(contract_says(s, sent), "0\n");
    assert_string_equal(contract_says(s, who), IMAGE_GUEST "\n");
    contract_end(s);
}

static void another_guest_of_the_image_is_left_alone_and_ours_sent(void **state) {
    (void)state;
    struct sandbox *s = contract_make(NULL);
    assert_string_equal(contract_says(s, sent), "1\n");
    assert_string_not_equal(contract_says(s, who), IMAGE_GUEST "\n");
    contract_end(s);
}

static const struct CMUnitTest with_ours[] = {
    cmocka_unit_test(the_guest_of_the_image_serves_and_none_is_sent),
};
static const struct CMUnitTest with_another[] = {
    cmocka_unit_test(another_guest_of_the_image_is_left_alone_and_ours_sent),
};

/* PROTOCOL ours|another */
int main(int argc, char **argv) {
    bool ours = argc < 3 || strcmp(argv[2], "ours") == 0;
    if (!mkdtemp(layer)) {
        return 1;
    }
    make_image(ours);
    hub_layer(layer);
    if (!hub_start(argc > 1 ? argv[1] : "protocol=3")) {
        (void)printf("1..0 # SKIP no fake Hub here\n");
        return 0;
    }
    int failed = contract_run_cases(&sandbox_hf, ours ? with_ours : with_another, 1);
    long left = hub_alive();
    hub_stop();
    struct err err = {0};
    return failed || left > 0 || file_remove_tree(layer, &err) < 0;
}
