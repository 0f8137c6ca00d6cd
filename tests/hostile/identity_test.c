/* SPDX-License-Identifier: BSD-3-Clause */
#include <fcntl.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "tests/hostile/hostile.h"

/* Who the agent is outside, and what is said where no sandbox can be made. */

#define HOST_UIDS_FROM 1900000000UL

static struct rollout_session *begin(struct ground *g, const struct task *task) {
    struct err err = {0};
    struct rollout_session *s = NULL;
    assert_ok(rollout_factory_create(ground_factory(g), task, NULL, NULL, &s, &err), &err);
    assert_ok(rollout_session_start_agent(s, &err), &err);
    return s;
}

/* The host's uid behind the agent's 1000, as the map of its first process says. */
static unsigned long mapped_uid(struct rollout_session *s) {
    struct err err = {0};
    unsigned long inside = 0, outside = 0, n = 0;
    AUTO_JSON json_t *record = NULL;
    AUTO_BUF struct buf map = {0};
    AUTO_FREE char *path =
        mem_printf("%s/sandboxes/%s/record.json", world_state(), rollout_session_sandbox_id(s));
    assert_ok(json_load(path, 65536, &record, &err), &err);
    AUTO_FREE char *file = mem_printf(
        "/proc/%lld/uid_map", (long long)json_integer_value(json_object_get(record, "pid")));
    assert_ok(file_read(file, 4096, &map, &err), &err);
    char *at = NULL;
    inside = strtoul(buf_cstr(&map), &at, 10);
    outside = strtoul(at, &at, 10);
    n = strtoul(at, &at, 10);
    assert_string_equal(at, "\n");
    assert_int_equal(inside, 1000);
    assert_int_equal(n, 1); /* No other user of the host is behind any uid inside. */
    return outside;
}

static void the_agents_uid_outside_is_not_root_and_differs_per_rollout(void **state) {
    NEED_SANDBOX();
    struct ground *g = *state;
    struct task task = {0};
    ground_task("{'instruction': 'sleep 60'}", &task);
    struct rollout_session *a = begin(g, &task);
    struct rollout_session *b = begin(g, &task);
    unsigned long of_a = mapped_uid(a), of_b = mapped_uid(b);
    if (geteuid() == 0) {
        assert_true(of_a >= HOST_UIDS_FROM && of_b >= HOST_UIDS_FROM);
        assert_int_not_equal(of_a, of_b);
    } else {
        assert_int_equal(of_a, geteuid());
        assert_int_equal(of_b, geteuid());
    }
    rollout_session_free(a);
    rollout_session_free(b);
    task_deinit(&task);
}

static bool put(const char *path, const char *text) {
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool good = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    if (fd >= 0) {
        close(fd);
    }
    return good;
}

/* In a user namespace that allows no further one, with all of its parent's users. */
static void run_doctor_inside(int go, int out) {
    char word;
    if (unshare(CLONE_NEWUSER) < 0 || write(out, "x", 1) != 1 || read(go, &word, 1) != 1 ||
        setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0 ||
        !put("/proc/sys/user/max_user_namespaces", "0")) {
        _exit(126);
    }
    dup2(out, STDOUT_FILENO);
    dup2(out, STDERR_FILENO);
    const char *program = getenv("SNAFFLE_PROGRAM");
    if (program) {
        execl(program, "snaffle", "doctor", NULL);
    }
    _exit(127);
}

static void where_user_namespaces_are_closed_doctor_says_the_remedy(void **state) {
    (void)state;
    if (geteuid() != 0) {
        skip_because("only root can map all users into a namespace of its own");
    }
    int go[2], out[2], status = 0;
    char word, path[64];
    assert_int_equal(pipe2(go, O_CLOEXEC), 0);
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        run_doctor_inside(go[0], out[1]);
    }
    close(out[1]);
    if (read(out[0], &word, 1) != 1) {
        waitpid(pid, NULL, 0);
        skip_because("no user namespace can be made here");
    }
    snprintf(path, sizeof path, "/proc/%d/uid_map", (int)pid);
    assert_true(put(path, "0 0 4294967295"));
    snprintf(path, sizeof path, "/proc/%d/gid_map", (int)pid);
    assert_true(put(path, "0 0 4294967295"));
    assert_int_equal(write(go[1], "x", 1), 1);
    AUTO_BUF struct buf said = {0};
    char bytes[4096];
    for (ssize_t n; (n = read(out[0], bytes, sizeof bytes)) > 0;) {
        assert_int_equal(buf_add(&said, bytes, (size_t)n), 0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    close(out[0]);
    close(go[0]);
    close(go[1]);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 3 ||
        !strstr(buf_cstr(&said), "sysctl user.max_user_namespaces=15000")) {
        fail_msg("exit %d: %s", WEXITSTATUS(status), buf_cstr(&said));
    }
}

static const struct CMUnitTest tests[] = {
    HOSTILE_CASE(the_agents_uid_outside_is_not_root_and_differs_per_rollout),
    cmocka_unit_test(where_user_namespaces_are_closed_doctor_says_the_remedy),
};

HOSTILE_MAIN(tests)
