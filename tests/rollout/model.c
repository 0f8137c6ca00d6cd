/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/rollout/model.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "tests/testing.h"

extern char **environ;

void model_start(struct model *m, struct ground *g, const char *script) {
    char port_file[128];
    snprintf(port_file, sizeof port_file, "%s/port", g->dir);
    snprintf(m->log, sizeof m->log, "%s/model.log", g->dir);
    const char *argv[] = {SCRIPTED_MODEL, "--script",          script,
                          "--port-file",  port_file,           "--log",
                          m->log,         "--die-with-parent", NULL};
    posix_spawn_file_actions_t quiet; /* TAP is this program's own. */
    posix_spawn_file_actions_init(&quiet);
    posix_spawn_file_actions_addopen(&quiet, 1, "/dev/null", O_WRONLY, 0);
    assert_int_equal(
        posix_spawn(&m->pid, SCRIPTED_MODEL, &quiet, NULL, (char *const *)argv, environ), 0);
    posix_spawn_file_actions_destroy(&quiet);
    struct err err = {0};
    AUTO_BUF struct buf port = {0};
    deadline_ms until = deadline_in_s(20);
    while (port.len == 0 && !deadline_passed(until)) {
        clock_sleep_ms(5);
        buf_reset(&port);
        if (file_exists(port_file)) {
            assert_ok(file_read(port_file, 16, &port, &err), &err);
        }
    }
    assert_true(port.len > 0);
    snprintf(m->url, sizeof m->url, "http://127.0.0.1:%d/v1",
             (int)strtol(buf_cstr(&port), NULL, 10));
    g->config.agent.base_url = m->url;
    g->config.agent.model = "scripted";
}

void model_stop(struct model *m) {
    kill(m->pid, SIGTERM);
    waitpid(m->pid, NULL, 0);
}
