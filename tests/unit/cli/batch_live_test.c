/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/batch_live.h"

#include <stdlib.h>

#include "base/mem.h"
#include "tests/testing.h"

static struct batch_view some_view(void) {
    struct batch_view v = {
        .totals = {.rollouts = 48,
                   .ok = 10,
                   .failed = 2,
                   .running = 4,
                   .resting = 1,
                   .rewarded = 10,
                   .reward_sum = 5,
                   .calls = 30,
                   .own_tokens = 1500},
        .elapsed_s = 12,
        .tokens_per_s = 80,
        .eta_s = 36,
        .n_rows = 2,
    };
    v.totals.in_phase[ROLLOUT_PHASE_AGENT] = 3;
    v.totals.in_phase[ROLLOUT_PHASE_VERIFY] = 1;
    snprintf(v.rows[0].rollout, sizeof v.rows[0].rollout, "sort-0");
    v.rows[0].phase = ROLLOUT_PHASE_AGENT;
    snprintf(v.rows[1].rollout, sizeof v.rows[1].rollout, "sort-1");
    v.rows[1].phase = ROLLOUT_PHASE_VERIFY;
    return v;
}

/* What two ticks and an end print. */
static char *printed(size_t columns, bool quiet) {
    char *text = NULL;
    size_t n = 0;
    struct batch_live l;
    struct batch_view v = some_view();
    struct batch_item item = {.rollout = "sort-9",
                              .status = (char *)"failed",
                              .cause = (char *)"verify_crash",
                              .error = (char *)"a\x1b[31mb"};
    FILE *stream = open_memstream(&text, &n);
    assert_non_null(stream);
    batch_live_init(&l, stream, columns, false, quiet);
    batch_live_tick(&l, &v);
    batch_live_ended(&l, &item);
    v.elapsed_s = 13;
    batch_live_tick(&l, &v);
    batch_live_end(&l);
    assert_int_equal(fclose(stream), 0);
    return text;
}

static void without_a_terminal_there_are_plain_lines(void **state) {
    (void)state;
    AUTO_FREE char *text = printed(0, false);
    assert_non_null(strstr(
        text, "[12 s] 12 of 48 done (2 failed), 4 running (3 agent, 1 verify), 1 to "
              "be tried again, 36 s left, reward 0.500, 30 calls, 1500 tokens, 80.0 tokens/s\n"));
    assert_null(strstr(text, "[13 s]")); /* Too soon after the first. */
    assert_non_null(strstr(text, "sort-9: failed, verify_crash, "));
    assert_null(strchr(text, '\x1b'));
}

static void on_a_terminal_a_block_is_redrawn_within_its_width(void **state) {
    (void)state;
    AUTO_FREE char *text = printed(40, false);
    assert_non_null(strstr(text, "sort-0"));
    assert_non_null(strstr(text, "and 2 more"));
    assert_non_null(strstr(text, "\033[5A")); /* Back over the five lines. */
    assert_null(strstr(text, "\033[1m"));
    char *rest = text;
    for (char *line = strsep(&rest, "\n"); line; line = strsep(&rest, "\n")) {
        const char *at = strrchr(line, 'K');
        if (at && strncmp(at - 2, "\033[K", 3) == 0) {
            assert_true(strlen(at + 1) <= 39);
        }
    }
}

static void quiet_prints_nothing(void **state) {
    (void)state;
    AUTO_FREE char *text = printed(40, true);
    assert_string_equal(text, "");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(without_a_terminal_there_are_plain_lines),
    cmocka_unit_test(on_a_terminal_a_block_is_redrawn_within_its_width),
    cmocka_unit_test(quiet_prints_nothing),
};

int main(void) {
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
