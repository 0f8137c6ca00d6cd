/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "tests/doubles/hub/sbx.h"

extern char **environ;

static const char *const *argv_of(const json_t *cmd) {
    size_t n = json_is_string(cmd) ? 3 : json_array_size(cmd);
    const char **argv = calloc(n + 1, sizeof *argv);
    if (argv && json_is_string(cmd)) {
        argv[0] = "/bin/sh";
        argv[1] = "-c";
        argv[2] = json_string_value(cmd);
    }
    for (size_t i = 0; argv && json_is_array(cmd) && i < n; i++) {
        argv[i] = json_string_value(json_array_get(cmd, i));
    }
    return argv;
}

static const char **env_of(const json_t *extra) {
    size_t n = 0;
    while (environ[n]) {
        n++;
    }
    const char **env = calloc(n + json_object_size(extra) + 1, sizeof *env);
    size_t used = 0;
    const char *name;
    json_t *value;
    BUG_IF(!env);
    for (size_t i = 0; i < n; i++) {
        size_t length = strcspn(environ[i], "=");
        AUTO_FREE char *key = mem_strndup(environ[i], length);
        if (key && !json_object_get(extra, key)) {
            env[used++] = mem_strdup(environ[i]);
        }
    }
    json_object_foreach((json_t *)extra, name, value) {
        const char *text = json_string_value(value); /* What is no text becomes empty. */
        env[used++] = mem_printf("%s=%s", name, text ? text : "");
    }
    return env;
}

void sbx_command_deinit(struct sbx_command *c) {
    for (size_t i = 0; c->env && c->env[i]; i++) {
        free((void *)c->env[i]);
    }
    free(c->env);
    free((void *)c->argv);
    json_decref(c->body);
    *c = (struct sbx_command){0};
}

/* NULL, or what is wrong with the two fields. */
static const char *fault_of(const json_t *shell, const json_t *cmd) {
    bool either = !json_is_boolean(shell);
    size_t i;
    json_t *word;
    if (json_is_string(cmd) && (either || json_is_true(shell))) {
        return NULL;
    }
    if (!json_is_array(cmd) || json_is_true(shell)) {
        return either                ? "missing 'cmd' (string or array of strings)"
               : json_is_true(shell) ? "shell=true requires 'cmd' to be a string"
                                     : "shell=false requires 'cmd' to be an array of strings";
    }
    json_array_foreach((json_t *)cmd, i, word) {
        if (!json_is_string(word)) {
            return "cmd array items must be strings";
        }
    }
    return json_array_size(cmd) > 0 ? NULL : "cmd array must not be empty";
}

static bool has_nul(const json_t *text) {
    return json_is_string(text) && strlen(json_string_value(text)) < json_string_length(text);
}

static bool any_nul(const json_t *body) {
    const json_t *cmd = json_object_get(body, "cmd");
    bool found = has_nul(cmd) || has_nul(json_object_get(body, "cwd"));
    size_t i;
    const char *name;
    json_t *value;
    json_array_foreach((json_t *)cmd, i, value) {
        found = found || has_nul(value);
    }
    json_object_foreach(json_object_get(body, "env"), name, value) {
        found = found || has_nul(value);
    }
    return found;
}

void sbx_fail_spawn(struct exchange *x, const struct sbx_command *c, int code) {
    sbx_fail(x, 400, "failed to spawn '%s': %s (os error %d)", c->argv[0], strerror(code), code);
}

int sbx_command_read(struct exchange *x, struct sbx_command *out) {
    struct err err = {0};
    struct sbx_command c = {0};
    if (json_parse(exchange_body(x), "body", &c.body, &err) < 0) {
        sbx_fail(x, 400, "invalid JSON body: %s", err.msg);
        return ERR_INPUT;
    }
    const json_t *cmd = json_object_get(c.body, "cmd");
    const char *fault = fault_of(json_object_get(c.body, "shell"), cmd);
    if (fault) {
        sbx_fail(x, 400, "%s", fault);
        sbx_command_deinit(&c);
        return ERR_INPUT;
    }
    c.argv = argv_of(cmd);
    if (any_nul(c.body)) {
        sbx_fail(x, 400, "failed to spawn '%s': nul byte found in provided data", c.argv[0]);
        sbx_command_deinit(&c);
        return ERR_INPUT;
    }
    c.env = env_of(json_object_get(c.body, "env"));
    c.cwd = json_string_value(json_object_get(c.body, "cwd"));
    c.input = json_string_value(json_object_get(c.body, "stdin"));
    const json_t *timeout = json_object_get(c.body, "timeout");
    double seconds = json_number_value(timeout);
    c.until = json_is_number(timeout) ? deadline_in_s(seconds > 0 ? seconds : 0) : DEADLINE_NEVER;
    *out = c;
    return 0;
}

/* In the child: what can't be done is told through `tell`. */
static void become(const struct sbx_command *c, int in, int out, int err, int tell) {
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    (void)signal(SIGPIPE, SIG_DFL);
    setpgid(0, 0);
    int failed = 0;
    if (dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(err, 2) < 0 || (c->cwd && chdir(c->cwd) < 0)) {
        failed = errno;
    } else {
        environ = (char **)c->env;
        execvpe(c->argv[0], (char *const *)c->argv, (char *const *)c->env);
        failed = errno;
    }
    ssize_t told = write(tell, &failed, sizeof failed);
    _exit(told < 0 ? 126 : 127);
}

/* A pipe with the text, which must fit in it; or /dev/null. */
static int input_of(const char *text) {
    int ends[2];
    if (!text || pipe2(ends, O_CLOEXEC) < 0) {
        return open("/dev/null", O_RDONLY | O_CLOEXEC);
    }
    (void)fcntl(ends[1], F_SETPIPE_SZ, 1 << 20);
    (void)fcntl(ends[1], F_SETFL, O_NONBLOCK);
    ssize_t n = write(ends[1], text, strlen(text));
    (void)n;
    close(ends[1]);
    return ends[0];
}

pid_t sbx_spawn(const struct sbx_command *c, int out, int err) {
    AUTO_CLOSE int nothing = open("/dev/null", O_WRONLY | O_CLOEXEC);
    AUTO_CLOSE int in = input_of(c->input);
    int tell[2];
    if (nothing < 0 || in < 0 || pipe2(tell, O_CLOEXEC) < 0) {
        return -errno;
    }
    pid_t pid = fork();
    if (pid == 0) {
        become(c, in, out < 0 ? nothing : out, err < 0 ? nothing : err, tell[1]);
    }
    int failed = pid < 0 ? errno : 0;
    close(tell[1]);
    ssize_t n = pid > 0 ? read(tell[0], &failed, sizeof failed) : 0;
    close(tell[0]);
    (void)n;
    return failed ? -failed : pid;
}
