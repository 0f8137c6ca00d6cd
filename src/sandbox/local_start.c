/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/proc.h"
#include "sandbox/local.h"
#include "sandbox/spawner.h"

#define BACKLOG 128         /* Calls that may knock at the guest at one moment. */
#define INFO_MAX 4096       /* bwrap tells a pid and six namespaces. */
#define INFO_GRACE_MS 30000 /* An abort waits so long to learn whom it must kill. */
#define WORDS_MAX 2048      /* Of bwrap's complaint; it is one line. */

/* Our ends of the pipes to a sandbox that starts. */
struct start {
    int listen;
    int info[2];
    int block[2];
    int ready[2];
    int words[2]; /* bwrap's stderr. */
    struct buf info_text;
};

static void start_deinit(struct start *s) {
    int *const ends[] = {&s->listen,   &s->info[0],  &s->info[1],  &s->block[0], &s->block[1],
                         &s->ready[0], &s->ready[1], &s->words[0], &s->words[1]};
    for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
        mem_auto_close(ends[i]);
    }
    buf_deinit(&s->info_text);
}

static int start_init(const struct local *l, struct start *s, struct err *err) {
    *s = (struct start){-1, {-1, -1}, {-1, -1}, {-1, -1}, {-1, -1}, {.limit = INFO_MAX}};
    if (pipe2(s->info, O_CLOEXEC) < 0 || pipe2(s->block, O_CLOEXEC) < 0 ||
        pipe2(s->ready, O_CLOEXEC) < 0 || pipe2(s->words, O_CLOEXEC | O_NONBLOCK) < 0) {
        return err_sys(err, ERR_SYS, errno, "cannot make a pipe");
    }
    return fd_listen_unix(l->box.guest_socket, BACKLOG, 0600, &s->listen, err);
}

static int spawn_bwrap(struct local *l, struct local_line *line, int words, struct err *err) {
    AUTO_FREE char *bwrap = proc_find("bwrap");
    if (!bwrap || bwrap[0] != '/') {
        return err_set(err, ERR_ENVIRONMENT,
                       "no program 'bwrap' in PATH (install the package bubblewrap)");
    }
    AUTO_CLOSE int args = -1;
    int r = local_memfd("bwrap-args", buf_sv(&line->args), &args, err);
    if (r < 0) {
        return r;
    }
    char number[16];
    local_line_argv(line, number);
    struct spawn what = {
        .program = bwrap,
        .argv = line->argv,
        .drop = l->box.user.lock_fd >= 0,
        .uid = l->box.user.uid,
        .disk = l->box.disk.loop_fd >= 0 ? l->box.disk.device : NULL,
        .disk_at = l->box.home,
        .disk_is_new = !l->box.disk.is_used,
        .n_fds = line->n_fds + 1,
        .stderr_fd = words,
        .follows_by_itself = true, /* --die-with-parent */
    };
    BUG_IF(what.n_fds > SPAWN_FDS_MAX);
    memcpy(what.fds, line->fds, line->n_fds * sizeof line->fds[0]);
    what.fds[line->n_fds] = args;
    r = spawner_start(&what, &l->life.bwrap, err);
    l->box.disk.is_used = l->box.disk.is_used || r == 0;
    return r;
}

static int launch(struct local *l, const struct sandbox_spec *spec, struct start *s,
                  struct err *err) {
    struct local_line line = {0};
    struct local_ends ends = {
        .listen = s->listen,
        .ready = s->ready[1],
        .info = s->info[1],
        .heard = s->info[0],
        .block = s->block[0],
    };
    int r = local_line_build(l, spec, &ends, &line, err);
    if (r == 0) {
        r = spawn_bwrap(l, &line, s->words[1], err);
    }
    local_line_deinit(&line);
    /* The child's ends are the child's alone: their closing tells of its death. */
    int *const theirs[] = {&s->listen, &s->info[1], &s->block[0], &s->ready[1], &s->words[1]};
    for (size_t i = 0; i < ARRAY_LEN(theirs); i++) {
        mem_auto_close(theirs[i]);
        *theirs[i] = -1;
    }
    return r;
}

/* bwrap is gone, or will be: what it said is why. */
static int explain(struct local *l, struct start *s, struct err *err) {
    char words[WORDS_MAX];
    struct sv said = {words, 0};
    local_end_child(&l->life.bwrap);
    for (ssize_t n; said.n < sizeof words &&
                    (n = read(s->words[0], words + said.n, sizeof words - said.n)) > 0;) {
        said.n += (size_t)n;
    }
    return local_diagnose(sv_trim(said), "/proc/sys", err);
}

/* Whether `pid` is a child of bwrap's. While the pidfd behind it lives, the answer is for good. */
static bool is_child_of(pid_t pid, pid_t parent) {
    char path[64];
    AUTO_BUF struct buf text = {0};
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || buf_reserve(&text, INFO_MAX) < 0) {
        return false;
    }
    ssize_t n = read(fd, text.data, INFO_MAX - 1);
    text.data[n > 0 ? n : 0] = '\0';
    const char *rest = strrchr(text.data, ')');
    char want[32];
    int len = snprintf(want, sizeof want, ") %c %d ", rest && rest[1] ? rest[2] : '?', (int)parent);
    return rest && strncmp(rest, want, (size_t)len) == 0;
}

static int take_pidfd(struct local *l, pid_t pid, struct err *err) {
    AUTO_CLOSE int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (fd < 0 && errno != ESRCH) {
        return err_sys(err, ERR_ENVIRONMENT, errno, "cannot watch a process (Linux 5.4 or newer)");
    }
    if (fd < 0 || !is_child_of(pid, l->life.bwrap)) {
        return err_set(err, ERR_CLOSED, "it ended at once");
    }
    l->life.pidfd = TAKE_FD(fd);
    return 0;
}

/* Reads on; 1 at the end. */
static int read_info_piece(struct start *s, struct err *err) {
    char piece[512];
    ssize_t n = read(s->info[0], piece, sizeof piece);
    if (n > 0 && buf_add(&s->info_text, piece, (size_t)n) < 0) {
        return err_set(err, ERR_PROTOCOL, "bwrap tells too much of its payload");
    }
    return n == 0;
}

static int read_info(const struct local *l, struct start *s, deadline_ms until,
                     const struct cancel *cancel, struct err *err) {
    int r = 0;
    while (r == 0) {
        struct pollfd p = {.fd = s->info[0], .events = POLLIN};
        r = local_poll(l, &p, 1, until, cancel, err);
        if (r == 0) {
            r = read_info_piece(s, err);
        }
    }
    return r < 0 ? r : 0;
}

/* The payload's pid; 0 when bwrap ended without telling it. */
static int parse_info(const struct start *s, pid_t *out, struct err *err) {
    long long pid = 0;
    AUTO_JSON json_t *info = NULL;
    *out = 0;
    if (s->info_text.len == 0) {
        return 0;
    }
    int r = json_parse(buf_sv(&s->info_text), "bwrap", &info, err);
    if (r == 0) {
        r = json_get_int((struct json_at){info, "bwrap"}, "child-pid", &pid, err);
    }
    *out = (pid_t)pid;
    return r;
}

/* The caller gives up, but bwrap's own death would leave its payload waiting for ever: so this
 * still learns whom to kill. A failure means that there is nobody. */
static void learn_for_the_end(struct local *l, struct start *s) {
    deadline_ms until = deadline_in_ms(INFO_GRACE_MS);
    struct pollfd p = {.fd = s->info[0], .events = POLLIN};
    pid_t pid = 0;
    while (poll(&p, 1, deadline_poll_ms(until)) > 0 && read_info_piece(s, NULL) == 0) {
    }
    if (parse_info(s, &pid, NULL) == 0 && pid > 0 && take_pidfd(l, pid, NULL) < 0) {
        l->life.pidfd = -1;
    }
}

static int learn_payload(struct local *l, struct start *s, deadline_ms until,
                         const struct cancel *cancel, pid_t *out, struct err *err) {
    int r = read_info(l, s, until, cancel, err);
    if (r < 0) {
        learn_for_the_end(l, s);
        return r;
    }
    r = parse_info(s, out, err);
    if (r == 0 && *out <= 0) {
        return explain(l, s, err);
    }
    if (r == 0) {
        r = take_pidfd(l, *out, err);
    }
    return r == ERR_CLOSED ? explain(l, s, err) : r;
}

static int release(struct start *s, struct err *err) {
    if (write(s->block[1], "g", 1) != 1 && errno != EPIPE) {
        return err_sys(err, ERR_SYS, errno, "cannot let the sandbox go");
    }
    mem_auto_close(&s->block[1]);
    s->block[1] = -1;
    return 0;
}

static int await_guest(struct local *l, struct start *s, deadline_ms until,
                       const struct cancel *cancel, struct err *err) {
    char byte;
    struct pollfd p = {.fd = s->ready[0], .events = POLLIN};
    int r = local_poll(l, &p, 1, until, cancel, err);
    if (r < 0) {
        return r;
    }
    if (read(s->ready[0], &byte, 1) != 1) {
        return explain(l, s, err);
    }
    return guest_hello(&l->guest, until, cancel, err);
}

static int note_and_limit(struct local *l, pid_t payload, struct err *err) {
    int r = box_note_process(&l->box, payload, err);
    return r < 0 ? r : cgroup_join(&l->box.cgroup, payload, err);
}

static int bring_up(struct local *l, const struct sandbox_spec *spec, const struct local_net *net,
                    deadline_ms until, const struct cancel *cancel, struct err *err) {
    struct start s;
    pid_t payload = 0;
    int r = start_init(l, &s, err);
    if (r == 0) {
        local_limits_set(l, spec);
        r = local_refuse_unenforced(l, spec, err);
    }
    if (r == 0) {
        r = launch(l, spec, &s, err);
    }
    if (r == 0) {
        r = learn_payload(l, &s, until, cancel, &payload, err);
    }
    if (r == 0) {
        r = note_and_limit(l, payload, err);
    }
    if (r == 0 && net->program) {
        r = local_net_attach(l, net, payload, until, cancel, &l->life.helper, err);
    }
    if (r == 0) {
        r = release(&s, err);
    }
    if (r == 0) {
        r = await_guest(l, &s, until, cancel, err);
    }
    if (r < 0) {
        (void)local_end(l, NULL); /* The first error is the one to tell. */
    }
    start_deinit(&s);
    return r;
}

int local_start(struct local *l, const struct sandbox_spec *spec, deadline_ms until,
                const struct cancel *cancel, struct err *err) {
    struct local_net net = {0};
    int r = local_check_spec(spec, l->home, l->box.user.uid, err);
    if (r == 0 && spec->network == SANDBOX_NETWORK_FULL) {
        r = local_net_find(&net, err);
    }
    if (r == 0) {
        r = local_turn_take(until, cancel, err);
    }
    if (r == 0) {
        atomic_fetch_add(&l->lives, 1);
        atomic_store(&l->network, spec->network);
        r = bring_up(l, spec, &net, until, cancel, err);
        local_turn_give();
    }
    local_net_deinit(&net);
    return r;
}
