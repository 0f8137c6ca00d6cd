/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "tests/sandbox/contract.h"
#include "tests/sandbox/hf_hub.h"
#include "tests/testing.h"

/* The server inside ends itself when nobody has called for a while; a command that we started is
 * none of its own, and the first generation counts not even those. Its limit here is a little more
 * than the 20 s that one call waits for a command's end; in earnest it is ten minutes. */

#define WORDS "idle-ms=26000"
#define QUIET "sleep 60; echo whole" /* Longer than twice that, without a byte of output. */

static struct sandbox_job *started(struct sandbox *s) {
    struct sandbox_job *job = NULL;
    struct err err = {0};
    struct sandbox_exec what = {.shell = QUIET, .stdout_path = "out"};
    assert_ok(sandbox_start(s, &what, &job, &err), &err);
    return job;
}

static const char *stage_of(const json_t *state, struct sandbox *s) {
    size_t i;
    json_t *job;
    json_array_foreach(json_object_get(state, "jobs"), i, job) {
        if (strcmp(json_string_value(json_object_get(job, "id")), sandbox_id(s)) == 0) {
            return json_string_value(json_object_get(json_object_get(job, "status"), "stage"));
        }
    }
    return "";
}

/* Waits as a rollout does: for its end, and now and then for a look at the clock. */
static void await_whole(struct sandbox *s, struct sandbox_job *job) {
    AUTO_BUF struct buf out = {0};
    struct err err = {0};
    int code = -1;
    int r = ERR_TIMEOUT;
    deadline_ms until = deadline_in_s(2 * PATIENCE_S);
    while (r == ERR_TIMEOUT && !deadline_passed(until)) {
        r = sandbox_job_wait(job, deadline_in_s(30), NULL, &code, &err);
    }
    assert_ok(r, &err);
    assert_int_equal(code, 0);
    assert_ok(sandbox_read_file(s, "out", 0, 64, &out, &err), &err);
    assert_string_equal(buf_cstr(&out), "whole\n");
}

static void a_long_quiet_run_lives_by_our_looks_and_dies_without_them(void **state) {
    (void)state;
    struct sandbox *watched = contract_make(NULL);
    struct sandbox *forgotten = contract_make(NULL);
    struct sandbox_job *waited = started(watched);
    struct sandbox_job *left = started(forgotten);
    struct err err = {0};
    int code = -1;

    await_whole(watched, waited);
    AUTO_JSON json_t *then = hub_state();
    assert_string_equal(stage_of(then, watched), "RUNNING");
    assert_string_equal(stage_of(then, forgotten), "COMPLETED");
    assert_err(sandbox_job_wait(left, deadline_in_s(PATIENCE_S), NULL, &code, &err), ERR_LOST, &err,
               "COMPLETED");

    sandbox_job_free(waited);
    sandbox_job_free(left);
    sandbox_free(forgotten);
    contract_end(watched);
    assert_int_equal(hub_alive(), 0);
}

/* The same for exec, whose call is the first generation's blind spot. */
static void a_quiet_command_is_no_idleness_either(void **state) {
    (void)state;
    struct sandbox *s = contract_make(NULL);
    struct sandbox_output out = {0};
    struct err err = {0};
    struct sandbox_exec what = {.shell = QUIET, .timeout_s = 2 * PATIENCE_S};
    assert_ok(sandbox_exec(s, &what, &out, &err), &err);
    assert_int_equal(out.exit_code, 0);
    assert_string_equal(buf_cstr(&out.out), "whole\n");
    sandbox_output_deinit(&out);
    contract_end(s);
}

static const struct CMUnitTest jobs[] = {
    cmocka_unit_test(a_long_quiet_run_lives_by_our_looks_and_dies_without_them),
};
static const struct CMUnitTest commands[] = {
    cmocka_unit_test(a_quiet_command_is_no_idleness_either),
};

/* PROTOCOL jobs|commands: beside each other, since each costs a minute of waiting. */
int main(int argc, char **argv) {
    char words[64];
    bool is_jobs = argc < 3 || strcmp(argv[2], "jobs") == 0;
    (void)snprintf(words, sizeof words, "%s " WORDS, argc > 1 ? argv[1] : "protocol=3");
    if (!hub_start(words)) {
        (void)printf("1..0 # SKIP no fake Hub here\n");
        return 0;
    }
    int failed = contract_run_cases(&sandbox_hf, is_jobs ? jobs : commands, 1);
    hub_stop();
    return failed;
}
