/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/rollout/fake_sandbox.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

struct fake fake;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

struct fake_sandbox {
    struct sandbox base;
    atomic_bool dead;
    atomic_bool job_dead;
};

void fake_reset(void) {
    buf_deinit(&fake.events);
    fake = (struct fake){.socket = fake.socket};
}

static bool fits(const char *call, const char *what, const char *detail) {
    size_t n = strlen(what);
    if (!call || strncmp(call, what, n) != 0) {
        return false;
    }
    return call[n] == '\0' || (call[n] == ':' && strstr(detail, call + n + 1));
}

/* Notes the call; gives the fault that is due, or NULL. */
static const struct fake_fault *note(const char *what, const char *detail) {
    const struct fake_fault *due = NULL;
    pthread_mutex_lock(&lock);
    BUG_IF(buf_addf(&fake.events, "%s %s\n", what, detail) < 0);
    for (size_t i = 0; i < ARRAY_LEN(fake.faults) && !due; i++) {
        struct fake_fault *f = &fake.faults[i];
        if (fits(f->call, what, detail)) {
            due = f;
            if (f->times > 0 && --f->times == 0) {
                f->call = NULL;
            }
        }
    }
    pthread_mutex_unlock(&lock);
    return due;
}

static int outcome(const char *what, const char *detail, struct err *err) {
    const struct fake_fault *f = note(what, detail);
    return f && f->code < 0 ? err_set(err, f->code, "fake %s failed", what) : 0;
}

/* Every event begins a line. */
static const char *find_event(const char *event) {
    const char *at = buf_cstr(&fake.events);
    size_t n = strlen(event);
    while (at && *at) {
        if (strncmp(at, event, n) == 0) {
            return at;
        }
        at = strchr(at, '\n');
        at = at ? at + 1 : NULL;
    }
    return NULL;
}

int fake_count(const char *event) {
    int count = 0;
    const char *at = buf_cstr(&fake.events);
    while (*at) {
        count += strncmp(at, event, strlen(event)) == 0;
        at = strchr(at, '\n') + 1;
    }
    return count;
}

bool fake_ordered(const char *first, const char *then) {
    const char *a = find_event(first);
    const char *b = find_event(then);
    return a && b && a < b;
}

static const char *network_word(enum sandbox_network n) {
    return n == SANDBOX_NETWORK_NONE ? "none" : n == SANDBOX_NETWORK_MODEL ? "model" : "full";
}

static const char *command_of(const struct sandbox_exec *what) {
    if (what->shell) {
        return what->shell;
    }
    const char *last = "";
    for (size_t i = 0; what->argv[i]; i++) {
        last = what->argv[i];
        if (strcmp(last, "make-room") == 0 || strcmp(last, "find") == 0) {
            return last;
        }
    }
    return what->argv[0];
}

static int fake_restart(struct sandbox *s, const struct sandbox_spec *spec, deadline_ms until,
                        const struct cancel *cancel, struct err *err) {
    (void)until;
    ((struct fake_sandbox *)s)->job_dead = true;
    return cancel_thrown(cancel) ? err_set(err, ERR_CANCELLED, "cancelled")
                                 : outcome("restart", network_word(spec->network), err);
}

static int fake_exec(struct sandbox *s, const struct sandbox_exec *what, struct sandbox_output *out,
                     struct err *err) {
    char detail[256];
    snprintf(detail, sizeof detail, "%s%s", what->clean ? "clean " : "", command_of(what));
    for (char *c = detail; *c; c++) {
        *c = *c == '\n' ? ' ' : *c;
    }
    const struct fake_fault *f = note("exec", detail);
    if (((struct fake_sandbox *)s)->dead) {
        return err_set(err, ERR_LOST, "fake sandbox is gone");
    }
    if (cancel_thrown(what->cancel)) {
        return err_set(err, ERR_CANCELLED, "cancelled");
    }
    if (f && f->code < 0) {
        return err_set(err, f->code, "fake exec failed");
    }
    out->exit_code = f ? f->exit_code : 0;
    out->timed_out = f && f->timed_out;
    if (f && f->out) {
        return buf_adds(&out->out, f->out);
    }
    return strcmp(detail, "clean find") == 0 ? buf_add_sv(&out->out, fake.listing) : 0;
}

static int fake_start(struct sandbox *s, const struct sandbox_exec *what, struct sandbox_job **out,
                      struct err *err) {
    int r = outcome("start", command_of(what), err);
    if (r < 0) {
        return r;
    }
    *out = calloc(1, sizeof **out);
    BUG_IF(!*out);
    (*out)->sandbox = s;
    ((struct fake_sandbox *)s)->job_dead = false;
    return 0;
}

static int fake_job_wait(struct sandbox_job *job, deadline_ms until, const struct cancel *cancel,
                         int *exit_code, struct err *err) {
    struct fake_sandbox *s = (struct fake_sandbox *)job->sandbox;
    fake.waits++;
    int r = outcome("wait", "", err);
    if (r < 0) {
        return r;
    }
    if (fake.agent_goes_on) {
        r = cancel_sleep(cancel, until, err);
        return r < 0 ? r : err_set(err, ERR_TIMEOUT, "out of time");
    }
    *exit_code = s->job_dead ? 137 : fake.agent_exit;
    return 0;
}

static int fake_job_kill(struct sandbox_job *job, struct err *err) {
    (void)job;
    return outcome("job_kill", "", err);
}

static void fake_job_free(struct sandbox_job *job) {
    free(job);
}

static int fake_kill_all(struct sandbox *s, deadline_ms until, struct err *err) {
    (void)until;
    ((struct fake_sandbox *)s)->job_dead = true;
    return outcome("kill_all", "", err);
}

static int fake_write_file(struct sandbox *s, const char *path, struct sv content, unsigned mode,
                           struct err *err) {
    (void)s;
    (void)content;
    (void)mode;
    return outcome("write", path, err);
}

static int fake_read_file(struct sandbox *s, const char *path, uint64_t offset, size_t length,
                          struct buf *out, struct err *err) {
    (void)s;
    int r = outcome("read", path, err);
    if (r < 0) {
        return r;
    }
    const char *text = strstr(path, "reward.txt") ? fake.reward : "agent says hello\n";
    if (!text) {
        return err_set(err, ERR_NOT_FOUND, "no such file");
    }
    struct sv rest = sv_cut(sv_from(text), offset < strlen(text) ? (size_t)offset : strlen(text));
    return buf_add(out, rest.p, rest.n < length ? rest.n : length);
}

static int fake_exists(struct sandbox *s, const char *path, struct err *err) {
    (void)s;
    return outcome("exists", path, err);
}

static const char *fake_model_socket(const struct sandbox *s) {
    (void)s;
    return fake.socket;
}

static json_t *fake_isolation(const struct sandbox *s) {
    (void)s;
    return json_pack("{s:s}", "network", "not_enforced: there is no sandbox");
}

static int fake_kill(struct sandbox *s, struct err *err) {
    struct fake_sandbox *f = (struct fake_sandbox *)s;
    int r = outcome("kill", "", err);
    if (!atomic_exchange(&f->dead, true)) {
        fake.alive--;
        fake.killed++;
    }
    return r;
}

static void fake_free(struct sandbox *s) {
    struct err ignored = {0};
    if (!((struct fake_sandbox *)s)->dead) {
        (void)fake_kill(s, &ignored);
    }
    free(s);
}

static const struct sandbox_ops fake_ops = {
    .restart = fake_restart,
    .exec = fake_exec,
    .start = fake_start,
    .job_wait = fake_job_wait,
    .job_kill = fake_job_kill,
    .job_free = fake_job_free,
    .kill_all = fake_kill_all,
    .write_file = fake_write_file,
    .read_file = fake_read_file,
    .exists = fake_exists,
    .model_socket = fake_model_socket,
    .isolation = fake_isolation,
    .kill = fake_kill,
    .free = fake_free,
};

static int fake_create(const struct sandbox_spec *spec, deadline_ms until,
                       const struct cancel *cancel, struct sandbox **out, struct err *err) {
    (void)until;
    int r = outcome("create", network_word(spec->network), err);
    if (r >= 0 && cancel_thrown(cancel)) {
        r = err_set(err, ERR_CANCELLED, "cancelled");
    }
    if (r < 0) {
        return r;
    }
    struct fake_sandbox *s = calloc(1, sizeof *s);
    BUG_IF(!s);
    s->base = (struct sandbox){.ops = &fake_ops, .id = "fake-1", .home = "/home/user"};
    fake.created++;
    fake.alive++;
    if (fake.alive > fake.alive_max) {
        fake.alive_max = fake.alive;
    }
    *out = &s->base;
    return 0;
}

const struct sandbox_backend fake_backend = {
    .name = "fake", .home = "/home/user", .has_model_socket = true, .create = fake_create};
const struct sandbox_backend fake_remote = {
    .name = "remote", .home = "/home/user", .create = fake_create};
