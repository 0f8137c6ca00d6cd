/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/rollout/fake_ground.h"

#include "base/file.h"
#include "base/mem.h"
#include "tests/testing.h"
#include "tests/unit/rollout/fake_sandbox.h"

static int plan(const struct agent_config *config, const struct agent_job *job,
                struct agent_plan *out, struct err *err) {
    (void)config;
    (void)job;
    (void)err;
    out->argv = calloc(2, sizeof *out->argv);
    out->env = calloc(1, sizeof *out->env);
    out->argv[0] = mem_strdup("agent-program");
    out->cwd = mem_strdup("/home/user/workdir");
    out->log_path = mem_strdup("/home/user/logs/agent/agent.log");
    return 0;
}

const struct agent fake_agent = {.name = "test", .plan = plan};

void fake_ground_set_up(struct fake_ground *g, const char *name, struct rollout_options *out) {
    snprintf(g->dir, sizeof g->dir, "/tmp/snaffle-%s-XXXXXX", name);
    assert_non_null(mkdtemp(g->dir));
    snprintf(g->socket, sizeof g->socket, "%s/model.sock", g->dir);
    fake.socket = g->socket;
    fake_reset();
    *out = (struct rollout_options){
        .using = &fake_backend,
        .running = &fake_agent,
        .mode = ROLLOUT_TRANSPARENT_PROXY,
        .runs_dir = g->dir,
        .run = "run",
        .create_backoff_s = 0.001,
    };
}

void fake_ground_take_down(struct fake_ground *g) {
    struct err err = {0};
    assert_ok(file_remove_tree(g->dir, &err), &err);
    fake_reset();
    buf_deinit(&fake.events);
}
