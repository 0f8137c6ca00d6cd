/* SPDX-License-Identifier: BSD-3-Clause */
#include <pthread.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "tests/rollout/ground.h"
#include "tests/rollout/hf_ground.h"
#include "tests/sandbox/hf_hub.h"
#include "tests/testing.h"

/* Every fault in every phase, and a seeded mix of many rollouts at once: each has a result with the
 * right cause, nothing is left on the Hub, and its token stands nowhere. */

#define TASK                                                                                       \
    "{'instruction': 'echo work >made; sleep 1', 'setup': ['echo ready >ready'],"                  \
    " 'verify': ['grep -q ready ready', 'grep -q work made']}"
#define TOKEN "hf_testtoken" /* As hf_hub.c has it. */
#define ROLLOUTS 100
#define SEED 20260

static const char *capture = "public"; /* "sandbox": a gateway in each. */

static bool is_inside(void) {
    return strcmp(capture, "sandbox") == 0;
}

/* --- one fault in one phase --- */

struct strike {
    enum rollout_phase phase;
    const char *rules;
    bool done;
};

static void strike(void *arg, const struct rollout_event *e) {
    struct strike *s = arg;
    if (e->phase == s->phase && !s->done) {
        s->done = true;
        hub_set_faults(s->rules);
    }
}

static void assert_token_nowhere(const struct ground *g) {
    struct err err = {0};
    AUTO_BUF struct buf log = {0};
    ground_assert_nowhere(g->dir, TOKEN);
    assert_ok(file_read(hub_log_path(), 64u << 20, &log, &err), &err);
    assert_true(sv_find(buf_sv(&log), SV(TOKEN)) == (size_t)-1);
}

static void assert_none_alive(void) {
    deadline_ms until = deadline_in_s(20);
    while (hub_alive() > 0 && !deadline_passed(until)) {
        clock_sleep_ms(50);
    }
    assert_int_equal(hub_alive(), 0);
}

/* What may pass by itself costs no rollout anything, whenever it comes. */
static void what_passes_by_itself_costs_no_rollout(void **state) {
    struct ground *g = *state;
    static const char *const rules[] = {
        "[{\"face\":\"proxy\",\"skip\":1,\"times\":2,\"drop\":true}]",
        "[{\"face\":\"proxy\",\"skip\":1,\"times\":2,\"drop_answer\":true}]",
        "[{\"face\":\"proxy\",\"skip\":1,\"times\":2,\"status\":502,\"body\":\"<html>\"}]",
        "[{\"face\":\"proxy\",\"skip\":1,\"times\":1,\"cut_after\":60}]",
    };
    for (enum rollout_phase phase = 0; phase < ROLLOUT_PHASE_COUNT; phase++) {
        for (size_t i = 0; i < ARRAY_LEN(rules); i++) {
            struct rollout_result r = {0};
            struct strike s = {.phase = phase, .rules = rules[i]};
            struct rollout_control control = {.progress = strike, .progress_arg = &s};
            hub_set_faults("[]");
            ground_roll(g, TASK, &control, &r);
            if (strcmp(r.status, "ok") != 0 || !r.has_reward || r.reward != 1) {
                fail_msg("%s in phase %s: %s/%s: %s", rules[i], rollout_phase_name(phase), r.status,
                         r.cause ? r.cause : "-", r.error ? r.error : "");
            }
            rollout_result_deinit(&r);
        }
    }
    assert_none_alive();
    assert_token_nowhere(g);
}

static void a_sandbox_that_vanishes_is_lost_in_every_phase(void **state) {
    struct ground *g = *state;
    for (enum rollout_phase phase = 0; phase < ROLLOUT_PHASE_COLLECT; phase++) {
        struct rollout_result r = {0};
        struct strike s = {.phase = phase,
                           .rules = "[{\"face\":\"proxy\",\"path\":\"/v1/\",\"job\":\"vanish\"}]"};
        struct rollout_control control = {.progress = strike, .progress_arg = &s};
        const char *want = phase == ROLLOUT_PHASE_CREATE ? "-" : "sandbox_lost";
        hub_set_faults("[]");
        ground_roll(g, TASK, &control, &r); /* A create is tried again. */
        if (strcmp(r.cause ? r.cause : "-", want) != 0) {
            fail_msg("vanished in phase %s: %s/%s: %s", rollout_phase_name(phase), r.status,
                     r.cause ? r.cause : "-", r.error ? r.error : "");
        }
        rollout_result_deinit(&r);
    }
    assert_none_alive();
    assert_token_nowhere(g);
}

/* --- a mix, at once --- */

struct many {
    struct rollout_factory *factory;
    struct task task;
    struct rollout_result results[ROLLOUTS];
    struct err errors[ROLLOUTS];
};

struct one {
    struct many *many;
    size_t index;
    pthread_t thread;
};

static void *roll(void *arg) {
    const struct one *o = arg;
    struct many *m = o->many;
    struct rollout_result *r = &m->results[o->index];
    if (rollout_run(m->factory, &m->task, NULL, NULL, r, &m->errors[o->index]) < 0) {
        return NULL;
    }
    return o->many;
}

/* The next of a row that is the same every time. */
static unsigned next(unsigned *seed) {
    *seed = *seed * 1103515245u + 12345u;
    return *seed >> 16;
}

/* Faults all over the calls to come: mostly such as pass, some that cost a sandbox. */
static json_t *mix(unsigned seed) {
    static const char *const kinds[] = {
        "{\"face\":\"proxy\",\"drop\":true}",
        "{\"face\":\"proxy\",\"drop_answer\":true}",
        "{\"face\":\"proxy\",\"status\":502,\"body\":\"<html>\"}",
        "{\"face\":\"proxy\",\"cut_after\":50}",
        "{\"face\":\"proxy\",\"path\":\"/v1/exec\",\"job\":\"vanish\"}",
        "{\"method\":\"POST\",\"path\":\"/api/jobs/alice\",\"drop_answer\":true}",
        "{\"method\":\"POST\",\"path\":\"/api/jobs/alice\",\"status\":500,\"body\":\"x\"}",
        "{\"method\":\"POST\",\"path\":\"/api/jobs/alice\",\"job\":\"die\"}",
        "{\"path\":\"/api/jobs/\",\"status\":429,\"headers\":{\"Retry-After\":\"1\"},"
        "\"body\":{\"error\":\"slow down\"}}",
        "{\"method\":\"POST\",\"path\":\"/cancel\",\"status\":500,\"body\":\"x\"}",
    };
    json_t *rules = json_array();
    for (int i = 0; i < 120; i++) {
        json_t *rule = json_loads(kinds[next(&seed) % ARRAY_LEN(kinds)], 0, NULL);
        bool is_api = !json_object_get(rule, "face");
        if (is_api) {
            json_object_set_new(rule, "face", json_string("api"));
        }
        json_object_set_new(rule, "skip", json_integer(next(&seed) % (is_api ? 60 : 1500)));
        json_array_append_new(rules, rule);
    }
    return rules;
}

static bool is_right(const struct rollout_result *r) {
    static const char *const causes[] = {"sandbox_create", "sandbox_lost", "quota",
                                         "capture_fault"};
    size_t n = ARRAY_LEN(causes) - (is_inside() ? 0 : 1);
    if (strcmp(r->status, "ok") == 0) {
        return !r->cause && r->has_reward && r->reward == 1;
    }
    for (size_t i = 0; i < n; i++) {
        if (r->cause && strcmp(r->cause, causes[i]) == 0) {
            return !r->has_reward && strcmp(r->status, "failed") == 0;
        }
    }
    return false;
}

static void a_hundred_at_once_among_faults_end_rightly(void **state) {
    struct ground *g = *state;
    struct many *m = calloc(1, sizeof *m);
    struct one ones[ROLLOUTS];
    size_t ok = 0;
    AUTO_JSON json_t *rules = mix(SEED);
    AUTO_FREE char *text = json_dumps(rules, JSON_COMPACT);
    g->options.limits.create_s = 300; /* A hundred on two cores. */
    g->options.limits.agent_s = 120;
    m->factory = ground_factory(g);
    ground_task(TASK, &m->task);
    hub_set_faults(text);
    for (size_t i = 0; i < ROLLOUTS; i++) {
        ones[i] = (struct one){.many = m, .index = i};
        assert_int_equal(pthread_create(&ones[i].thread, NULL, roll, &ones[i]), 0);
    }
    for (size_t i = 0; i < ROLLOUTS; i++) {
        pthread_join(ones[i].thread, NULL);
    }
    hub_set_faults("[]");
    assert_none_alive();
    for (size_t i = 0; i < ROLLOUTS; i++) {
        const struct rollout_result *r = &m->results[i];
        if (!r->json || !is_right(r)) {
            fail_msg("rollout %zu: %s/%s: %s%s", i, r->status ? r->status : "none",
                     r->cause ? r->cause : "-", r->error ? r->error : "", m->errors[i].msg);
        }
        ok += strcmp(r->status, "ok") == 0;
        rollout_result_deinit(&m->results[i]);
    }
    print_message("# seed %d: %zu of %d ok\n", SEED, ok, ROLLOUTS);
    assert_true(ok >= ROLLOUTS / 2);
    assert_token_nowhere(g);
    task_deinit(&m->task);
    free(m);
}

static int set_up(void **state) {
    int r = hf_ground_set_up(state);
    struct ground *g = *state;
    hub_set_faults("[]");
    g->options.create_backoff_s = 0.1;
    g->config.agent.capture = capture;
    g->config.agent.public_url = is_inside() ? NULL : "http://127.0.0.1:1";
    g->config.agent.listen = is_inside() ? NULL : "127.0.0.1:0"; /* Nobody asks it. */
    return r;
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, ground_take_down)

static const struct CMUnitTest tests[] = {
    CASE(what_passes_by_itself_costs_no_rollout),
    CASE(a_sandbox_that_vanishes_is_lost_in_every_phase),
    CASE(a_hundred_at_once_among_faults_end_rightly),
};

static const struct CMUnitTest mix_alone[] = {CASE(a_hundred_at_once_among_faults_end_rightly)};

/* hf_faults_test [protocol=N [CAPTURE]]: with a capture the mix alone. */
int main(int argc, char **argv) {
    cmocka_set_message_output(CM_OUTPUT_TAP);
    capture = argc > 2 ? argv[2] : capture;
    if (!hf_ground_begin(argc > 1 ? argv[1] : "protocol=3",
                         SOURCE_ROOT "/tests/rollout/hf_model.json")) {
        return hf_ground_end(0);
    }
    return hf_ground_end(argc > 2 ? cmocka_run_group_tests(mix_alone, NULL, NULL)
                                  : cmocka_run_group_tests(tests, NULL, NULL));
}
