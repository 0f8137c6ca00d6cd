/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/testing.h"

#include "base/mem.h"
#include "cli/progress.h"

static const struct rollout_event events[] = {
    {.phase = ROLLOUT_PHASE_CREATE, .text = "creating sandbox", .elapsed_s = 0.01},
    {.phase = ROLLOUT_PHASE_SETUP, .text = "setup [1/2]", .detail = "make\tit", .elapsed_s = 0.6},
    {.phase = ROLLOUT_PHASE_AGENT, .text = "agent running", .elapsed_s = 2},
    {.phase = ROLLOUT_PHASE_AGENT,
     .text = "agent running",
     .tick = true,
     .elapsed_s = 4,
     .calls = 2,
     .completion_tokens = 50},
};

/* What all events print, on a terminal of so many columns (0: none). */
static char *printed(size_t columns, bool quiet) {
    struct progress p;
    char *text = NULL;
    size_t n = 0;
    FILE *stream = open_memstream(&text, &n);
    assert_non_null(stream);
    progress_init(&p, stream, columns, quiet);
    for (size_t i = 0; i < ARRAY_LEN(events); i++) {
        progress_event(&p, &events[i]);
    }
    progress_end(&p);
    assert_int_equal(fclose(stream), 0);
    return text;
}

static void without_a_terminal_each_step_has_a_line_and_ticks_have_none(void **state) {
    (void)state;
    AUTO_FREE char *text = printed(0, /* quiet= */ false);
    assert_string_equal(text, "[0.0 s] creating sandbox\n"
                              "[0.6 s] setup [1/2]: make\\tit\n"
                              "[2.0 s] agent running\n");
}

static void on_a_terminal_one_line_is_redrawn_and_taken_away(void **state) {
    (void)state;
    AUTO_FREE char *text = printed(80, /* quiet= */ false);
    assert_null(strchr(text, '\n'));
    assert_null(strstr(text, "creating sandbox")); /* Over before half a second. */
    assert_non_null(strstr(text, "agent running, 2 calls, 50 tokens, 25.0 tokens/s"));
    assert_int_equal(text[strlen(text) - 1], '\r');
}

static void the_live_line_stays_within_the_terminal(void **state) {
    (void)state;
    AUTO_FREE char *text = printed(20, /* quiet= */ false);
    for (char *save = NULL, *part = text; part; part = save) {
        save = strchr(part, '\r');
        if (save) {
            *save++ = 0;
        }
        assert_true(strlen(part) < 20);
    }
}

static void quiet_prints_nothing(void **state) {
    (void)state;
    AUTO_FREE char *text = printed(80, /* quiet= */ true);
    assert_string_equal(text, "");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(without_a_terminal_each_step_has_a_line_and_ticks_have_none),
    cmocka_unit_test(on_a_terminal_one_line_is_redrawn_and_taken_away),
    cmocka_unit_test(the_live_line_stays_within_the_terminal),
    cmocka_unit_test(quiet_prints_nothing),
};

RUN_TESTS(tests)
