/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "net/dial.h"
#include "net/listener.h"
#include "tests/doubles/hub/hub.h"
#include "tests/doubles/hub/pair.h"

#define REACH_MAX 8 /* Ports of this machine that a job sees. */
#define OUTPUT_BYTES 4096
#define INFO_S 20.0 /* bwrap's word on its child's pid comes in some ms. */

struct relay {
    struct loop *loop;
    struct listener *listener;
    uint16_t port;
};

struct container {
    struct job *job;
    pid_t bwrap;
    pid_t inner; /* Its first process, as this machine counts. */
    int output;
    int gate; /* Once it is closed the command runs: its view of this machine's ports is ready. */
    char *root;
    char *upper; /* The folder of the overlay. */
    struct relay relays[REACH_MAX];
    size_t n_relays;
};

/* --- a job's view of this machine's ports --- */

struct meeting {
    struct conn *inside;
};

static void on_dialled(struct conn *outside, const struct err *err, void *arg) {
    struct meeting *m = arg;
    (void)err;
    if (outside) {
        pair_join(m->inside, outside, 0);
    } else {
        conn_abort(m->inside);
    }
    free(m);
}

static void on_accept(struct conn *c, void *arg) {
    const struct relay *r = arg;
    struct meeting *m = calloc(1, sizeof *m);
    struct dial *dial = NULL;
    struct dial_options o = {.host = "127.0.0.1", .port = r->port, .on_done = on_dialled, .arg = m};
    if (!m) {
        conn_abort(c);
        return;
    }
    m->inside = c;
    if (dial_start(r->loop, &o, &dial, NULL) < 0) {
        conn_abort(c);
        free(m);
    }
}

static int relay_open(struct container *c, uint16_t port, struct err *err) {
    struct relay *r = &c->relays[c->n_relays];
    *r = (struct relay){.loop = c->job->hub->loop, .port = port};
    int fd = -1;
    int rc = netns_listen(c->inner, port, &fd, err);
    struct listener_options o = {.fd = fd, .on_accept = on_accept, .arg = r};
    rc = rc < 0 ? rc : listener_new(r->loop, &o, &r->listener, err);
    c->n_relays += rc == 0;
    return rc;
}

static int relays_open(struct container *c, struct err *err) {
    const struct hub *h = c->job->hub;
    int r = relay_open(c, server_port(h->api), err);
    for (size_t i = 0; r == 0 && i < h->n_reach && c->n_relays < REACH_MAX; i++) {
        r = relay_open(c, h->reach[i], err);
    }
    return r;
}

/* --- its file system --- */

int container_ground(const char **out, struct err *err) {
    static char dir[] = "/tmp/snaffle-hub-XXXXXX";
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) {
        return err_sys(err, ERR_ENVIRONMENT, errno,
                       "the fake Hub's jobs are containers: start it as root");
    }
    if (!mkdtemp(dir) || mount("tmpfs", dir, "tmpfs", 0, "mode=0700") < 0) {
        return err_sys(err, ERR_SYS, errno, "cannot make a place for jobs at '%s'", dir);
    }
    *out = dir;
    return 0;
}

/* The machine's own /root is nothing that an image has. */
static int hide_root(const char *upper) {
    AUTO_FREE char *root = file_join(upper, "root");
    return root && mkdir(root, 0700) == 0 ? setxattr(root, "trusted.overlay.opaque", "y", 1, 0)
                                          : -1;
}

static int overlay(struct container *c, struct err *err) {
    const struct hub *h = c->job->hub;
    AUTO_FREE char *dir = mem_printf("%s/%s", h->state, c->job->id);
    AUTO_FREE char *upper = mem_printf("%s/upper", dir);
    AUTO_FREE char *work = mem_printf("%s/work", dir);
    AUTO_FREE char *root = mem_printf("%s/root", dir);
    AUTO_FREE char *options =
        mem_printf("lowerdir=%s%s/,upperdir=%s,workdir=%s", h->layer ? h->layer : "",
                   h->layer ? ":" : "", upper, work);
    if (!dir || !upper || !work || !root || !options) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    if (mkdir(dir, 0700) < 0 || mkdir(upper, 0755) < 0 || mkdir(work, 0755) < 0 ||
        mkdir(root, 0755) < 0 || hide_root(upper) < 0 ||
        mount("overlay", root, "overlay", 0, options) < 0) {
        return err_sys(err, ERR_ENVIRONMENT, errno, "cannot lay an overlay over /");
    }
    c->upper = TAKE(dir);
    c->root = TAKE(root);
    return 0;
}

static void overlay_remove(struct container *c) {
    struct err err = {0};
    if (c->root && umount2(c->root, MNT_DETACH) < 0) {
        (void)fprintf(stderr, "snaffle-fake-hub: %s stays mounted: %s\n", c->root, strerror(errno));
    } else if (c->root && file_remove_tree(c->upper, &err) < 0) {
        (void)fprintf(stderr, "snaffle-fake-hub: %s is left: %s\n", c->upper, err.msg);
    }
    free(c->root);
    free(c->upper);
}

/* --- its first process --- */

/* Of the real sbx-server that the official client pins. */
#define REAL_SHA256 "eb2b04f79fbe765195300aaf1582be2a2a9ea698ff067d0cab428171d5584932"

/* The program that stands for sbx-server is run in place of a bootstrap that wants the real one's
 * digest; any other command runs as it is. */
static bool wants_real_server(const struct job *j) {
    const json_t *env = json_object_get(j->spec, "environment");
    const char *wanted = json_string_value(json_object_get(env, "SBX_SERVER_SHA256"));
    return wanted && strcmp(wanted, REAL_SHA256) == 0;
}

static void put_env(const json_t *values) {
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)values, name, value) {
        const char *text = json_string_value(value);
        setenv(name, text ? text : "", 1);
    }
}

static void set_env(const struct job *j) {
    clearenv();
    setenv("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", 1);
    setenv("HOME", "/root", 1);
    setenv("JOB_ID", j->id, 1);
    put_env(json_object_get(j->spec, "environment"));
    put_env(json_object_get(j->spec, "secrets"));
    if (j->hub->sbx_words) {
        setenv("FAKE_SBX", j->hub->sbx_words, 1);
    }
}

#define BWRAP_ARGS 64
#define COMMAND_ARGS 64

static const char *const fixed[] = {
    "bwrap",         "--unshare-pid",
    "--unshare-net", "--unshare-ipc",
    "--unshare-uts", "--as-pid-1",
    "--new-session", "--die-with-parent",
    "--cap-drop",    "ALL",
    "--cap-add",     "CAP_CHOWN",
    "--cap-add",     "CAP_DAC_OVERRIDE",
    "--cap-add",     "CAP_FOWNER",
    "--cap-add",     "CAP_FSETID",
    "--cap-add",     "CAP_KILL",
    "--cap-add",     "CAP_SETGID",
    "--cap-add",     "CAP_SETUID",
    "--cap-add",     "CAP_SETPCAP",
    "--cap-add",     "CAP_NET_BIND_SERVICE",
    "--cap-add",     "CAP_SYS_CHROOT",
};

static size_t put_words(const json_t *words, const char **argv, size_t n, size_t max) {
    size_t i;
    json_t *word;
    json_array_foreach((json_t *)words, i, word) {
        if (n < max && json_is_string(word)) {
            argv[n++] = json_string_value(word);
        }
    }
    return n;
}

static void become(const struct container *c, int info_fd, int gate_fd) {
    const struct job *j = c->job;
    const char *argv[BWRAP_ARGS + COMMAND_ARGS + 1] = {0};
    char info[16];
    char gate[16];
    size_t n = 0;
    for (; n < ARRAY_LEN(fixed); n++) {
        argv[n] = fixed[n];
    }
    (void)snprintf(info, sizeof info, "%d", info_fd);
    (void)snprintf(gate, sizeof gate, "%d", gate_fd);
    const char *const rest[] = {
        "--info-fd", info,      "--block-fd", gate,        "--bind",
        c->root,     "/",       "--proc",     "/proc",     "--dev",
        "/dev",      "--tmpfs", "/home",      "--tmpfs",   "/tmp",
        "--tmpfs",   "/run",    "--ro-bind",  j->hub->sbx, "/.hf-sbx-server/sbx-server",
        "--chdir",   "/",       "--"};
    for (size_t i = 0; i < ARRAY_LEN(rest); i++) {
        argv[n++] = rest[i];
    }
    if (wants_real_server(j)) {
        argv[n++] = "/.hf-sbx-server/sbx-server";
    } else {
        n = put_words(json_object_get(j->spec, "command"), argv, n, ARRAY_LEN(argv) - 1);
        (void)put_words(json_object_get(j->spec, "arguments"), argv, n, ARRAY_LEN(argv) - 1);
    }
    AUTO_CLOSE int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    (void)fcntl(info_fd, F_SETFD, 0);
    (void)fcntl(gate_fd, F_SETFD, 0);
    if (dup2(nothing, 0) < 0 || dup2(c->output, 1) < 0 || dup2(c->output, 2) < 0) {
        _exit(126);
    }
    set_env(j);
    execvp("bwrap", (char *const *)argv);
    _exit(127);
}

static int read_inner(struct container *c, int fd, struct err *err) {
    AUTO_BUF struct buf text = {.limit = 65536};
    AUTO_JSON json_t *info = NULL;
    char bytes[1024];
    deadline_ms until = deadline_in_s(INFO_S);
    ssize_t n;
    while ((n = fd_read_some(fd, bytes, sizeof bytes, until, NULL, err)) > 0) {
        int r = buf_add(&text, bytes, (size_t)n);
        if (r < 0 || memchr(bytes, '}', (size_t)n)) {
            break;
        }
    }
    if (json_parse(buf_sv(&text), "bwrap", &info, err) < 0) {
        return err_set(err, ERR_ENVIRONMENT, "bwrap started nothing");
    }
    c->inner = (pid_t)json_integer_value(json_object_get(info, "child-pid"));
    return 0;
}

static int spawn(struct container *c, int *out_output, struct err *err) {
    int info[2];
    int output[2];
    int gate[2];
    if (pipe2(info, O_CLOEXEC) < 0 || pipe2(output, O_CLOEXEC) < 0 || pipe2(gate, O_CLOEXEC) < 0) {
        return err_sys(err, ERR_SYS, errno, "cannot make a pipe");
    }
    c->output = output[1];
    c->gate = gate[1];
    c->bwrap = fork();
    if (c->bwrap == 0) {
        become(c, info[1], gate[0]);
    }
    close(info[1]);
    close(output[1]);
    close(gate[0]);
    int r = c->bwrap < 0 ? err_sys(err, ERR_SYS, errno, "cannot fork") : 0;
    r = r < 0 ? r : read_inner(c, info[0], err);
    close(info[0]);
    *out_output = output[0];
    return r;
}

/* --- its end --- */

struct word {
    struct container *c;
    struct sv bytes;
    int status;
};

static void on_output(void *arg) {
    const struct word *w = arg;
    job_on_output(w->c->job, w->bytes);
}

static void on_end(void *arg) {
    const struct word *w = arg;
    struct container *c = w->c;
    for (size_t i = 0; i < c->n_relays; i++) {
        listener_free(c->relays[i].listener);
    }
    overlay_remove(c);
    job_on_end(c->job, w->status);
    free(c);
}

static void *watch(void *arg) {
    struct container *c = arg;
    struct loop *loop = c->job->hub->loop;
    char bytes[OUTPUT_BYTES];
    ssize_t n;
    while ((n = read(c->output, bytes, sizeof bytes)) > 0) {
        struct word w = {.c = c, .bytes = {bytes, (size_t)n}};
        loop_call(loop, on_output, &w);
    }
    close(c->output);
    struct word w = {.c = c};
    (void)waitpid(c->bwrap, &w.status, 0);
    loop_call(loop, on_end, &w);
    return NULL;
}

int container_spawn(struct job *j, struct container **out, struct err *err) {
    struct container *c = calloc(1, sizeof *c);
    if (!c) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    c->job = j;
    int output = -1;
    int r = overlay(c, err);
    r = r < 0 ? r : spawn(c, &output, err);
    c->output = output;
    if (r < 0 && c->bwrap > 0) {
        (void)fprintf(stderr, "snaffle-fake-hub: job %s: %s\n", j->id, err->msg);
        container_kill(c);
    } else if (r < 0) {
        overlay_remove(c);
        free(c);
        return r;
    }
    *out = c;
    return 0;
}

void container_open(struct container *c) {
    struct err err = {0};
    pthread_t thread;
    if (relays_open(c, &err) < 0) {
        (void)fprintf(stderr, "snaffle-fake-hub: job %s: %s\n", c->job->id, err.msg);
        container_kill(c);
    }
    close(c->gate);
    BUG_IF(pthread_create(&thread, NULL, watch, c) != 0);
    pthread_detach(thread); /* It sees the end also of one that was killed above. */
}

void container_kill(struct container *c) {
    kill(c->inner > 0 ? c->inner : c->bwrap, SIGKILL);
}

int container_dial(const struct container *c, uint16_t port, int *out_fd, struct err *err) {
    return netns_dial(c->inner, port, out_fd, err);
}
