/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "sandbox/hf/hf.h"
#include "tests/sandbox/contract.h"
#include "tests/sandbox/hf_cases.h"
#include "tests/sandbox/hf_hub.h"
#include "tests/testing.h"

/* What the server's generations do to bytes and connections, and nobody notices. */

/* A ranged write never cuts in the first generation. */
static void a_shorter_file_keeps_no_tail_of_a_longer_one(void **state) {
    (void)state;
    static const size_t sizes[] = {3 * HF_SERVER_RANGE + 17, 2 * HF_SERVER_RANGE + 9, 5, 0};
    struct sandbox *s = contract_make(NULL);
    struct hf_server *server = &((struct hf *)s)->server;
    AUTO_FREE char *bytes = malloc(sizes[0]);
    struct err err = {0};
    assert_non_null(bytes);
    for (size_t i = 0; i < sizes[0]; i++) {
        bytes[i] = (char)('a' + i % 23);
    }
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        AUTO_BUF struct buf back = {0};
        assert_ok(hf_server_write(server, "/opt/long", (struct sv){bytes, sizes[i]}, 0644,
                                  deadline_in_s(PATIENCE_S), NULL, &err),
                  &err);
        assert_ok(sandbox_read_file(s, "/opt/long", 0, sizes[0], &back, &err), &err);
        assert_int_equal(back.len, sizes[i]);
        assert_true(sizes[i] == 0 || memcmp(back.data, bytes, sizes[i]) == 0);
    }
    contract_end(s);
}

/* A container's /tmp is another than that on which uploads wait: no link leads there. */
static void a_file_for_another_file_system_comes_whole(void **state) {
    (void)state;
    struct sandbox *s = contract_make(NULL);
    size_t n = 2 * HF_SERVER_RANGE + 5;
    AUTO_FREE char *bytes = calloc(1, n);
    AUTO_BUF struct buf back = {0};
    struct err err = {0};
    assert_non_null(bytes);
    assert_string_equal(contract_says(s, "[ $(stat -c %d /tmp) != $(stat -c %d /) ] && echo so"),
                        "so\n");
    assert_ok(sandbox_write_file(s, "/tmp/far", (struct sv){bytes, n}, 0640, &err), &err);
    assert_ok(sandbox_read_file(s, "/tmp/far", 0, n + 1, &back, &err), &err);
    assert_int_equal(back.len, n);
    assert_memory_equal(back.data, bytes, n);
    assert_string_equal(contract_says(s, "stat -c %a-%h /tmp/far; ls /.snaffle-*/*.up | wc -l"),
                        "640-1\n0\n");
    contract_end(s);
}

/* It tells 32 KB at a time, each read for itself: a character on the border is two halves. */
static void characters_on_the_servers_borders_come_whole(void **state) {
    (void)state;
    static const size_t counts[] = {40000, 400000}; /* Told with the end, and by its file. */
    struct sandbox *s = contract_make(NULL);
    for (size_t i = 0; i < ARRAY_LEN(counts); i++) {
        AUTO_FREE char *shell = mem_printf(
            "printf x; head -c %zu /dev/zero | sed 's/\\x00/\\xe2\\x82\\xac/g'", counts[i]);
        struct sandbox_output out = {0};
        struct err err = {0};
        struct sandbox_exec what = {.shell = shell, .output_max = 4u << 20};
        assert_ok(sandbox_exec(s, &what, &out, &err), &err);
        assert_int_equal(out.out.len, 1 + 3 * counts[i]);
        for (size_t at = 1; at < out.out.len; at += 3) {
            assert_memory_equal(out.out.data + at, "\xe2\x82\xac", 3);
        }
        sandbox_output_deinit(&out);
    }
    contract_end(s);
}

/* A later generation writes an answer to nothing, 408, on a connection that was quiet for 10 s. */
static void a_connection_that_was_kept_too_long_costs_no_call(void **state) {
    (void)state;
    struct sandbox *s = contract_make(NULL);
    struct err err = {0};
    assert_string_equal(contract_says(s, "echo before"), "before\n");
    clock_sleep_ms(11000);
    assert_ok(sandbox_write_file(s, "after", SV("whole"), 0644, &err), &err);
    assert_string_equal(contract_says(s, "cat after"), "whole");
    contract_end(s);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(a_shorter_file_keeps_no_tail_of_a_longer_one),
    cmocka_unit_test(a_file_for_another_file_system_comes_whole),
    cmocka_unit_test(characters_on_the_servers_borders_come_whole),
    cmocka_unit_test(a_connection_that_was_kept_too_long_costs_no_call),
};

int main(int argc, char **argv) {
    return hub_run_cases(argc, argv, cases, ARRAY_LEN(cases));
}
