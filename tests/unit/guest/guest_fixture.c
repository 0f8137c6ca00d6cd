/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/guest/guest_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/proc.h"

#define READY_S 10.0 /* A busy machine's worst; normally some milliseconds. */
#define ARGS_MAX 80
#define TEST_UID 65534                 /* No guest runs as root: nothing is refused to root. */
#define PROGRAM_MAX (64 * 1024 * 1024) /* With sanitizers it is some megabytes. */

static bool as_init;

void guest_fixture_mode(int argc, char **argv) {
    as_init = argc > 1 && strcmp(argv[1], "pid1") == 0;
}

bool guest_fixture_is_init(void) {
    return as_init;
}

static const char *program(void) {
    return getenv("SNAFFLE_GUEST");
}

static bool have_bubblewrap(void) {
    static int known = -1;
    if (known < 0) {
        const char *argv[] = {"bwrap", "--unshare-all", "--ro-bind", "/",    "/", "--proc",
                              "/proc", "--dev",         "/dev",      "true", NULL};
        struct proc_result r = {0};
        known = proc_run(&(struct proc_options){.argv = argv}, &r, NULL) == 0 && r.exit_code == 0;
        proc_result_deinit(&r);
    }
    return known == 1;
}

static int connect_guest(void *arg, int *out_fd, struct err *err) {
    const struct guest_fixture *f = arg;
    return fd_connect_unix(f->socket, out_fd, err) < 0 ? err_set(err, ERR_LOST, "the guest is gone")
                                                       : 0;
}

int guest_fixture_connect(struct guest_fixture *f) {
    int fd = -1;
    struct err err = {0};
    assert_ok(connect_guest(f, &fd, &err), &err);
    return fd;
}

/* The build may stand below a folder that the test's user may not enter. */
static void copy_program(struct guest_fixture *f) {
    struct err err = {0};
    AUTO_BUF struct buf bytes = {0};
    snprintf(f->program, sizeof f->program, "%s/guest", f->dir);
    assert_ok(file_read(program(), PROGRAM_MAX, &bytes, &err), &err);
    assert_ok(file_write(f->program, buf_sv(&bytes), 0755, &err), &err);
}

static void make_places(struct guest_fixture *f) {
    struct err err = {0};
    snprintf(f->dir, sizeof f->dir, "/tmp/guest-test-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    assert_int_equal(chmod(f->dir, 0755), 0);
    snprintf(f->home, sizeof f->home, "%s/home", f->dir);
    assert_int_equal(mkdir(f->home, 0700), 0);
    snprintf(f->socket, sizeof f->socket, "%s/guest.sock", f->dir);
    snprintf(f->model, sizeof f->model, "%s/model", f->dir);
    assert_int_equal(mkdir(f->model, 0755), 0);
    snprintf(f->model, sizeof f->model, "%s/model/sock", f->dir);
    copy_program(f);
    if (geteuid() == 0) {
        assert_int_equal(chown(f->home, TEST_UID, TEST_UID), 0);
    }
    assert_ok(fd_listen_unix(f->socket, 64, 0600, &f->listen_fd, &err), &err);
}

static size_t bubblewrap_args(const struct guest_fixture *f, const char **argv,
                              const char *model_dir, const char *sleep_text) {
    const char *args[] = {
        "bwrap",          "--unshare-all",
        "--unshare-user", "--uid",
        "1000",           "--gid",
        "1000",           "--die-with-parent",
        "--new-session",  "--as-pid-1",
        "--clearenv",     "--setenv",
        "PATH",           "/usr/local/bin:/usr/bin:/bin",
        "--setenv",       "HOME",
        "/home/user",     "--setenv",
        "LANG",           "C.UTF-8",
        "--ro-bind",      "/usr",
        "/usr",           "--symlink",
        "usr/bin",        "/bin",
        "--symlink",      "usr/lib",
        "/lib",           "--symlink",
        "usr/lib64",      "/lib64",
        "--ro-bind",      "/etc",
        "/etc",           "--proc",
        "/proc",          "--dev",
        "/dev",           "--tmpfs",
        "/tmp",           "--bind",
        f->home,          "/home/user",
        "--ro-bind",      model_dir,
        "/run/model",     "--ro-bind",
        f->program,       "/run/guest",
        "--size",         "262144",
        "--tmpfs",        "/tiny",
        "--setenv",       "SLEEP",
        sleep_text,       "--chdir",
        "/home/user",     "--",
        "/run/guest",
    };
    memcpy(argv, args, sizeof args);
    return ARRAY_LEN(args);
}

/* Plain guests share the host's ports: one that is free now. */
static unsigned short free_port(void) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;
    AUTO_CLOSE int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &n), 0);
    return ntohs(a.sin_port);
}

/* In the forked child, where a failed assertion would go on with the parent's tests: none here. */
static void run_child(struct guest_fixture *f, const struct guest_fixture_options *o, int ready) {
    const char *argv[ARGS_MAX] = {f->program};
    char model_dir[80];
    char sleep_text[24];
    char listen_text[16];
    char ready_text[16];
    char port[16];
    snprintf(model_dir, sizeof model_dir, "%s/model", f->dir);
    snprintf(sleep_text, sizeof sleep_text, "3600.%d", (int)getppid());
    snprintf(listen_text, sizeof listen_text, "%d", f->listen_fd);
    snprintf(ready_text, sizeof ready_text, "%d", ready);
    snprintf(port, sizeof port, "%u", f->model_port);
    size_t n = f->is_init ? bubblewrap_args(f, argv, model_dir, sleep_text) : 1;
    const char *rest[] = {
        "serve",
        "--listen-fd",
        listen_text,
        "--ready-fd",
        ready_text,
        o->silence_ms ? "--silence-ms" : NULL,
        o->silence_ms,
        o->processes ? "--processes" : NULL,
        o->processes,
        o->with_model ? "--model-socket" : NULL,
        f->is_init ? "/run/model/sock" : f->model,
        "--model-port",
        port,
    };
    size_t rest_n = o->with_model ? ARRAY_LEN(rest) : ARRAY_LEN(rest) - 4;
    for (size_t i = 0; i < rest_n; i++) {
        if (rest[i]) {
            argv[n++] = rest[i];
        }
    }
    fcntl(f->listen_fd, F_SETFD, 0);
    fcntl(ready, F_SETFD, 0);
    if (!f->is_init && (chdir(f->home) < 0 || setenv("HOME", f->home, 1) < 0 ||
                        setenv("PATH", "/usr/local/bin:/usr/bin:/bin", 1) < 0 ||
                        setenv("SLEEP", sleep_text, 1) < 0)) {
        _exit(126);
    }
    setpgid(0, 0);
    if (geteuid() == 0 && (setgroups(0, NULL) < 0 || setresgid(TEST_UID, TEST_UID, TEST_UID) < 0 ||
                           setresuid(TEST_UID, TEST_UID, TEST_UID) < 0)) {
        _exit(125);
    }
    prctl(PR_SET_PDEATHSIG, SIGTERM); /* A test that crashes leaves nothing behind. */
    execvp(argv[0], (char *const *)argv);
    _exit(127);
}

bool guest_fixture_start(struct guest_fixture *f, const struct guest_fixture_options *options) {
    *f = (struct guest_fixture){.is_init = as_init, .listen_fd = -1};
    if (as_init && !have_bubblewrap()) {
        return false;
    }
    if (!program()) {
        fail_msg("set SNAFFLE_GUEST to the guest's program");
    }
    struct err err = {0};
    int ready[2];
    make_places(f);
    f->model_port = as_init ? 7000 : free_port();
    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    f->pid = fork();
    assert_true(f->pid >= 0);
    if (f->pid == 0) {
        run_child(f, options, ready[1]);
    }
    close(ready[1]);
    char byte = 0;
    assert_ok(fd_read_exact(ready[0], &byte, 1, deadline_in_s(READY_S), NULL, &err), &err);
    close(ready[0]);
    close(f->listen_fd); /* A guest that is gone then refuses, as it does for its real host. */
    f->listen_fd = -1;
    f->client = (struct guest_client){.connect = connect_guest, .arg = f};
    return true;
}

pid_t guest_fixture_guest_pid(const struct guest_fixture *f) {
    if (!f->is_init) {
        return f->pid;
    }
    struct err err = {0};
    AUTO_BUF struct buf text = {0};
    AUTO_FREE char *path = mem_printf("/proc/%d/task/%d/children", (int)f->pid, (int)f->pid);
    assert_ok(file_read(path, 4096, &text, &err), &err);
    return (pid_t)strtol(buf_cstr(&text), NULL, 10);
}

long guest_fixture_resident_kb(const struct guest_fixture *f) {
    struct err err = {0};
    AUTO_BUF struct buf text = {0};
    AUTO_FREE char *path = mem_printf("/proc/%d/status", (int)guest_fixture_guest_pid(f));
    assert_ok(file_read(path, 65536, &text, &err), &err);
    const char *line = strstr(buf_cstr(&text), "VmRSS:");
    assert_non_null(line);
    return strtol(line + strlen("VmRSS:"), NULL, 10);
}

int guest_fixture_wait(struct guest_fixture *f) {
    int status = 0;
    while (f->pid > 0 && waitpid(f->pid, &status, 0) < 0 && errno == EINTR) {
    }
    f->pid = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void guest_fixture_stop(struct guest_fixture *f) {
    if (f->pid > 0) {
        struct err err = {0};
        int r = guest_kill_all(&f->client, deadline_in_s(10), &err);
        (void)r; /* A test may have ended it. */
        kill(f->pid, SIGKILL);
        guest_fixture_wait(f);
    }
    assert_int_equal(file_remove_tree(f->dir, NULL), 0);
}

int guest_fixture_setup(void **state) {
    struct guest_fixture *f = calloc(1, sizeof *f);
    if (!guest_fixture_start(f, &(struct guest_fixture_options){0})) {
        free(f);
        f = NULL;
    }
    *state = f;
    return 0;
}

int guest_fixture_teardown(void **state) {
    if (*state) {
        guest_fixture_stop(*state);
        free(*state);
    }
    return 0;
}
