/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/agent/live.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/install.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/sv.h"
#include "tests/testing.h"

#define START_MS 60000 /* The scripted model listens within milliseconds on an idle machine. */
#define RUN_S "300"    /* A run takes 2 to 8 s, and ten times that on a busy machine. */
#define LOG_MAX (64u * 1024 * 1024)

extern char **environ;

static char *joined(const char *a, const char *b) {
    char *text = mem_printf("%s/%s", a, b);
    assert_non_null(text);
    return text;
}

/* Found once; the program lives as long as the process. */
const char *live_opencode(void) {
    static struct agent_installed found;
    const char *given = getenv("SNAFFLE_TEST_OPENCODE");
    if (given) {
        return given;
    }
    const char *state = getenv("SNAFFLE_STATE");
    const char *home = getenv("HOME");
    AUTO_FREE char *own = mem_printf("%s/.local/state/snaffle", home ? home : "");
    const char *places[] = {state, geteuid() == 0 ? "/var/lib/snaffle" : own};
    for (size_t i = 0; i < ARRAY_LEN(places) && !found.program; i++) {
        struct err err = {0};
        AUTO_FREE char *cache = mem_printf("%s/agents", places[i] ? places[i] : "");
        (void)(agent_find_installed(cache, &agent_opencode, NULL, &found, &err) < 0);
    }
    return found.program;
}

void live_write(const char *home, const char *rest, const char *content) {
    struct err err = {0};
    AUTO_FREE char *path = mem_printf("%s%s", home, rest);
    AUTO_FREE char *folder = mem_strndup(path, (size_t)(strrchr(path, '/') - path));
    assert_ok(file_mkdirs(folder, 0755, &err), &err);
    assert_ok(file_write(path, sv_from(content), 0644, &err), &err);
}

static char *wait_for_port(const struct live *l, const char *path) {
    AUTO_BUF struct buf port = {0};
    struct err err = {0};
    deadline_ms until = deadline_in_ms(START_MS);
    while (!file_exists(path)) {
        assert_false(deadline_passed(until) || waitpid(l->model, NULL, WNOHANG) != 0);
        clock_sleep_ms(10);
    }
    assert_ok(file_read(path, 64, &port, &err), &err);
    struct sv digits = buf_sv(&port);
    assert_true(digits.n > 1);
    return mem_printf("http://127.0.0.1:%.*s/v1", (int)digits.n - 1, digits.p);
}

void live_start(struct live *l, const char *script) {
    const char *program = getenv("SNAFFLE_TEST_MODEL");
    if (!program) {
        fail_msg("SNAFFLE_TEST_MODEL does not name the scripted model");
        return;
    }
    char folder[] = "/tmp/snaffle-live-XXXXXX";
    assert_non_null(mkdtemp(folder));
    *l = (struct live){.folder = mem_strdup(folder), .log = joined(folder, "model.jsonl")};
    live_write(folder, "/script.json", script);
    AUTO_FREE char *path = joined(folder, "script.json");
    AUTO_FREE char *port = joined(folder, "port");
    const char *argv[] = {program, "--script",          path, "--port-file", port, "--log",
                          l->log,  "--die-with-parent", NULL};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    assert_int_equal(posix_spawn(&l->model, program, &actions, NULL, (char *const *)argv, environ),
                     0);
    posix_spawn_file_actions_destroy(&actions);
    l->url = wait_for_port(l, port);
    assert_non_null(l->url);
}

void live_stop(struct live *l) {
    struct err err = {0};
    kill(l->model, SIGTERM);
    waitpid(l->model, NULL, 0);
    assert_ok(file_remove_tree(l->folder, &err), &err);
    free(l->folder);
    free(l->log);
    free(l->url);
}

struct agent_config live_config(void) {
    static json_t *disabled;
    if (!disabled) {
        disabled = json_pack("[s, s]", "webfetch", "question");
    }
    return (struct agent_config){.provider = "openai_compatible",
                                 .base_url = "http://real.invalid/v1",
                                 .api_key = "real-key-of-the-endpoint",
                                 .model = "intercepted/scripted",
                                 .request_timeout_ms = 600000,
                                 .disabled_tools = disabled,
                                 .run_format = "json",
                                 .agent_timeout_s = 900,
                                 .proxy_max_tokens_cap = 16384,
                                 .proxy_top_logprobs = 5};
}

static size_t count(char *const *list) {
    size_t n = 0;
    while (list[n]) {
        n++;
    }
    return n;
}

/* stdin is a pipe that ends, as a sandbox gives it. */
static pid_t spawn(const struct agent_plan *plan, const char *home, const char *without) {
    static const char script[] = "cat ../input | timeout " RUN_S " \"$@\" >\"$0\" 2>&1";
    size_t n = count(plan->argv);
    const char **argv = calloc(n + 5, sizeof *argv);
    assert_non_null(argv);
    size_t at = 0;
    argv[at++] = "sh";
    argv[at++] = "-c";
    argv[at++] = script;
    argv[at++] = plan->log_path;
    for (size_t i = 0; i < n; i++) {
        if (!without || strncmp(plan->argv[i], without, strlen(without)) != 0) {
            argv[at++] = plan->argv[i];
        }
    }
    live_write(home, "/input", plan->input);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addchdir_np(&actions, plan->cwd);
    pid_t pid;
    assert_int_equal(posix_spawn(&pid, "/bin/sh", &actions, NULL, (char *const *)argv, plan->env),
                     0);
    posix_spawn_file_actions_destroy(&actions);
    free(argv);
    return pid;
}

/* Places the plan and starts it; `log_path` gets where its output goes. */
static pid_t start(struct live *l, const struct live_run *run, char **log_path) {
    struct err err = {0};
    struct agent_plan plan = {0};
    AUTO_FREE char *home = joined(l->folder, run->name);
    AUTO_FREE char *url = mem_printf("%s", l->url);
    struct agent_config config = run->config;
    config.sandbox_home = home;
    struct agent_job job = {.instruction = run->instruction,
                            .base_url = url,
                            .api_key = run->name, /* Tells the runs apart in the model's log. */
                            .program = live_opencode(),
                            .title = "-a title",
                            .deadline_unix = 2000000000};
    assert_ok(agent_opencode.plan(&config, &job, &plan, &err), &err);
    for (size_t i = 0; i < plan.n_files; i++) {
        live_write("", plan.files[i].path, plan.files[i].content);
    }
    live_write(home, "/workdir/.keep", "");
    live_write(home, "/logs/agent/.keep", "");
    if (run->prepare) {
        run->prepare(home);
    }
    pid_t pid = spawn(&plan, home, run->without);
    *log_path = mem_strdup(plan.log_path);
    agent_plan_deinit(&plan);
    return pid;
}

static int finish(pid_t pid) {
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int live_run(struct live *l, const struct live_run *run, char **out_log) {
    AUTO_BUF struct buf text = {0};
    AUTO_FREE char *path = NULL;
    struct err err = {0};
    int code = finish(start(l, run, &path));
    assert_ok(file_read(path, LOG_MAX, &text, &err), &err);
    if (out_log) {
        *out_log = buf_take(&text);
    } else if (code != 0) {
        print_error("%s: exit %d\n%s\n", run->name, code, buf_cstr(&text));
    }
    return code;
}

/* Two at a time: more would only wait for the processor. */
void live_run_all(struct live *l, const struct live_run *runs, size_t n) {
    for (size_t i = 0; i < n; i += 2) {
        AUTO_FREE char *first_log = NULL;
        AUTO_FREE char *second_log = NULL;
        pid_t first = start(l, &runs[i], &first_log);
        pid_t second = i + 1 < n ? start(l, &runs[i + 1], &second_log) : -1;
        assert_int_equal(finish(first), 0);
        assert_true(second < 0 || finish(second) == 0);
    }
}

static json_t *header_object(const json_t *pairs) {
    json_t *out = json_object();
    size_t i;
    json_t *pair;
    json_array_foreach(pairs, i, pair) {
        json_object_set(out, json_string_value(json_array_get(pair, 0)), json_array_get(pair, 1));
    }
    return out;
}

static void add_request(json_t *out, const json_t *line, const char *bearer) {
    struct err err = {0};
    const char *body = json_string_value(json_object_get(line, "body"));
    const char *path = json_string_value(json_object_get(line, "path"));
    json_t *headers = header_object(json_object_get(line, "headers"));
    const char *have = json_string_value(json_object_get(headers, "Authorization"));
    if (!path || strcmp(path, "/v1/chat/completions") != 0 || !have || strcmp(have, bearer) != 0) {
        json_decref(headers);
        return;
    }
    json_t *parsed = NULL;
    assert_non_null(body);
    assert_ok(json_parse(sv_from(body), "body", &parsed, &err), &err);
    json_array_append_new(out, json_pack("{s:o, s:o}", "headers", headers, "body", parsed));
}

json_t *live_requests(const struct live *l, const char *run) {
    AUTO_BUF struct buf text = {0};
    AUTO_FREE char *bearer = mem_printf("Bearer %s", run);
    struct err err = {0};
    json_t *out = json_array();
    assert_ok(file_read(l->log, LOG_MAX, &text, &err), &err);
    struct sv rest = buf_sv(&text);
    while (rest.n > 0) {
        size_t n = sv_find(rest, SV("\n"));
        AUTO_JSON json_t *line = NULL;
        assert_ok(json_parse((struct sv){rest.p, n}, "log", &line, &err), &err);
        add_request(out, line, bearer);
        rest = sv_cut(rest, n + 1);
    }
    return out;
}

const char *live_text(const json_t *request, const char *role, int nth) {
    size_t i;
    json_t *m;
    json_array_foreach(json_object_get(json_object_get(request, "body"), "messages"), i, m) {
        if (strcmp(json_string_value(json_object_get(m, "role")), role) == 0 && nth-- == 0) {
            const char *text = json_string_value(json_object_get(m, "content"));
            return text ? text : "";
        }
    }
    return "";
}

char *live_tools(const json_t *request) {
    AUTO_BUF struct buf names = {0};
    size_t i;
    json_t *tool;
    json_array_foreach(json_object_get(json_object_get(request, "body"), "tools"), i, tool) {
        const char *name =
            json_string_value(json_object_get(json_object_get(tool, "function"), "name"));
        assert_int_equal(buf_addf(&names, "%s%s", i ? " " : "", name), 0);
    }
    return mem_strdup(buf_cstr(&names));
}
