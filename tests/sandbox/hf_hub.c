/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/sandbox/hf_hub.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "net/http_client.h"

#define TOKEN "hf_testtoken"
#define START_S 20
#define REACH_MAX 3

static char folder[] = "/tmp/snaffle-hub-test-XXXXXX";
static pid_t hub;
static char *url;
static char *log_path;

static bool cannot(const char *why) {
    (void)printf("# skipped: %s\n", why);
    return false;
}

static char reached[REACH_MAX][8];
static size_t n_reached;

void hub_reach(int port) {
    BUG_IF(n_reached == REACH_MAX);
    (void)snprintf(reached[n_reached++], sizeof reached[0], "%d", port);
}

static const char *layer;

void hub_layer(const char *path) {
    layer = path;
}

static void run(const char *words, const char *port_path) {
    const char *program = getenv("SNAFFLE_FAKE_HUB");
    if (!program) {
        _exit(127);
    }
    (void)!freopen("/dev/null", "w", stdout);
    const char *argv[16 + 2 * REACH_MAX] = {
        program,       "--sbx",       getenv("SNAFFLE_SBX_DOUBLE"),
        "--sbx-words", words,         "--token",
        TOKEN,         "--port-file", port_path,
        "--log",       log_path,      "--die-with-parent"};
    size_t at = 12;
    for (size_t i = 0; i < n_reached; i++) {
        argv[at++] = "--reach";
        argv[at++] = reached[i];
    }
    if (layer) {
        argv[at++] = "--layer";
        argv[at] = layer;
    }
    execv(program, (char *const *)(uintptr_t)argv);
    _exit(127);
}

bool hub_start(const char *words) {
    struct err err = {0};
    if (geteuid() != 0) {
        return cannot("the fake Hub's jobs are containers: needs root");
    }
    if (!getenv("SNAFFLE_FAKE_HUB") || !getenv("SNAFFLE_SBX_DOUBLE") || !mkdtemp(folder)) {
        return cannot("set SNAFFLE_FAKE_HUB and SNAFFLE_SBX_DOUBLE to the test servers' programs");
    }
    AUTO_FREE char *port_path = file_join(folder, "port");
    log_path = file_join(folder, "log");
    hub = fork();
    if (hub == 0) {
        run(words, port_path);
    }
    deadline_ms until = deadline_in_s(START_S);
    while (!file_exists(port_path) && !deadline_passed(until)) {
        clock_sleep_ms(10);
    }
    AUTO_BUF struct buf port = {0};
    if (file_read(port_path, 16, &port, &err) < 0) {
        return cannot("the fake Hub did not start");
    }
    url = mem_printf("http://127.0.0.1:%d", (int)strtol(buf_cstr(&port), NULL, 10));
    setenv("HF_ENDPOINT", url, 1);
    setenv("HF_TOKEN", TOKEN, 1);
    return true;
}

void hub_stop(void) {
    struct err err = {0};
    if (hub > 0) {
        kill(hub, SIGTERM);
        waitpid(hub, NULL, 0);
        hub = 0;
        if (file_remove_tree(folder, &err) < 0) {
            (void)printf("# %s\n", err.msg);
        }
    }
    free(url);
    free(log_path);
    url = log_path = NULL;
}

static json_t *ask(const char *path, const char *body) {
    struct http_answer answer = {0};
    struct err err = {0};
    json_t *value = NULL;
    AUTO_FREE char *where = mem_printf("%s%s", url, path);
    struct http_call call = {.url = where, .body = sv_from(body)};
    if (http_call_json(&call, &answer, &err) < 0 ||
        json_parse(buf_sv(&answer.body), "state", &value, &err) < 0) {
        (void)printf("# the fake Hub: %s\n", err.msg);
        abort();
    }
    http_answer_deinit(&answer);
    return value;
}

void hub_set_faults(const char *rules) {
    json_decref(ask("/_faults", rules));
}

json_t *hub_state(void) {
    return ask("/_state", NULL);
}

long hub_alive(void) {
    AUTO_JSON json_t *state = hub_state();
    return (long)json_integer_value(json_object_get(state, "alive"));
}

const char *hub_log_path(void) {
    return log_path;
}
