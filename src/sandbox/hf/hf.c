/* SPDX-License-Identifier: BSD-3-Clause */
#include "sandbox/hf/hf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/rand.h"
#include "sandbox/inside.h"
#include "sandbox/state.h"

#define HEALTH_FIRST_MS 10  /* Between two looks at first; then by half more each time, up to */
#define HEALTH_PAUSE_MS 150 /* what the official client takes. */
#define HEALTH_S 5.0        /* Each; the proxy answers errors until the job is up. */
#define CLEAR_ATTEMPTS 2
#define EXPLAIN_S 10.0       /* What became of the job is asked for so long when a call failed, */
#define EXPLAIN_PAUSE_MS 500 /* so often. */

/* --- errors --- */

/* Until the job is over or its server answers: a provider takes a moment to see that a machine is
 * gone. */
static bool is_over(struct hf *s, struct buf *why) {
    deadline_ms until = deadline_in_s(EXPLAIN_S);
    struct err ignored = {0};
    while (!deadline_passed(until) && !cancel_thrown(s->torn_down)) {
        enum hf_stage stage = HF_RUNNING;
        struct hf_look look = {.since_ms = s->since_ms, .as_of_ms = clock_ms(), .until = until};
        int r = hf_hub_stage(s->hub, s->job, &look, &stage, why, &ignored);
        if (r == 0 && stage == HF_OVER) {
            return true;
        }
        if (hf_server_health(&s->server, deadline_min(until, deadline_in_s(HEALTH_S)), s->torn_down,
                             &ignored) == 0 ||
            cancel_sleep(s->torn_down, deadline_in_ms(EXPLAIN_PAUSE_MS), &ignored) < 0) {
            return false;
        }
    }
    return false;
}

int hf_explain(struct hf *s, int code, struct err *err) {
    AUTO_BUF struct buf why = {0};
    if (cancel_thrown(s->torn_down)) {
        return err_set(err, ERR_LOST, "the sandbox was torn down");
    }
    if (!hf_server_may_pass(code) && code != ERR_LOST && code != ERR_DENIED) {
        return code;
    }
    return is_over(s, &why)
               ? err_set(err, ERR_LOST, "the sandbox is gone (torn down?): %s", buf_cstr(&why))
               : code;
}

/* --- create --- */

static const char *find_url(const json_t *job) {
    const json_t *urls = json_object_get(json_object_get(job, "status"), "exposeUrls");
    size_t i;
    json_t *url;
    json_array_foreach((json_t *)urls, i, url) {
        const char *text = json_string_value(url);
        if (text && strstr(text, "--49983.")) {
            return text;
        }
    }
    return NULL;
}

int hf_take_job(struct hf *s, const json_t *job, const char *nonce, struct err *err) {
    const char *id = json_string_value(json_object_get(job, "id"));
    if (!id) {
        return err_set(err, ERR_PROTOCOL, "the Hub's job has no id");
    }
    s->job = mem_strdup(id);
    s->since_ms = clock_ms();
    s->base.id = s->job;
    AUTO_FREE char *derived = mem_printf("https://%s--%d.hf.jobs", id, HF_SERVER_PORT);
    const char *url = find_url(job);
    if (!s->job || !derived) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    int r = hf_server_init(&s->server, url ? url : derived, hf_hub_token(s->hub), nonce, err);
    s->server.end = s->torn_down;
    return r;
}

/* Until the server inside answers. Its stage is looked at meanwhile, but a failure of that look
 * ends nothing. */
static int await_ready(struct hf *s, deadline_ms until, const struct cancel *cancel,
                       struct err *err) {
    for (int64_t pause_ms = HEALTH_FIRST_MS;; pause_ms += pause_ms / 2) {
        AUTO_BUF struct buf why = {0};
        enum hf_stage stage = HF_WAITING;
        struct err unready = {0};
        struct err ignored = {0};
        int r = hf_server_health(&s->server, deadline_min(until, deadline_in_s(HEALTH_S)), cancel,
                                 &unready);
        if (r == 0 || r == ERR_CANCELLED) {
            return r < 0 && err ? (*err = unready).code : r;
        }
        struct hf_look look = {.since_ms = s->since_ms,
                               .until = deadline_min(until, deadline_in_s(HEALTH_S)),
                               .cancel = cancel};
        int looked = hf_hub_stage(s->hub, s->job, &look, &stage, &why, &ignored);
        if (looked == 0 && stage == HF_OVER) {
            return err_set(err, ERR_LOST, "the sandbox did not start: %s", buf_cstr(&why));
        }
        if (deadline_passed(until)) {
            return err_set(err, ERR_TIMEOUT, "the sandbox did not become ready in time: %s",
                           unready.msg);
        }
        pause_ms = pause_ms < HEALTH_PAUSE_MS ? pause_ms : HEALTH_PAUSE_MS;
        r = cancel_sleep(cancel, deadline_in_ms(pause_ms), err);
        if (r < 0) {
            return r;
        }
    }
}

int hf_run_shell(struct hf *s, const char *text, const char *arg, const char *arg2,
                 deadline_ms until, const struct cancel *cancel, struct err *err) {
    const char *const argv[] = {"/bin/sh", "-c", text, arg, arg2, NULL};
    AUTO_BUF struct buf said = {0};
    int code = 0;
    int r = hf_server_exec(&s->server, argv, HF_SERVER_ATTEMPTS, until, cancel, &code, &said, err);
    return r < 0 || code == 0 ? r
                              : err_set(err, ERR_SYS, "a command of ours inside gave %d: %s", code,
                                        buf_cstr(&said));
}

static int create_job(struct hf *s, const struct sandbox_spec *spec, deadline_ms until,
                      const struct cancel *cancel, struct err *err) {
    char nonce[33];
    rand_hex(nonce, 16);
    AUTO_JSON json_t *wanted = hf_spec(s->hub, spec, s->home, nonce);
    AUTO_JSON json_t *job = NULL;
    int r = wanted ? hf_hub_create(s->hub, wanted, until, cancel, &job, err)
                   : err_set(err, ERR_NOMEM, "out of memory");
    r = r < 0 ? r : hf_take_job(s, job, nonce, err);
    if (r < 0 || !spec->machine.namespace) {
        return r;
    }
    s->id = mem_printf("%s/%s", spec->machine.namespace, s->job);
    s->base.id = s->id ? s->id : s->base.id;
    return s->id ? 0 : err_set(err, ERR_NOMEM, "out of memory");
}

static const char *home_of(const struct sandbox_spec *spec) {
    return spec->home ? spec->home : HF_HOME_DEFAULT;
}

static int prepare(struct hf *s, const char *home, bool is_root, struct err *err) {
    char word[17];
    s->user = is_root ? 0 : HF_AGENT_UID;
    rand_hex(word, 8);
    pthread_mutex_init(&s->lifecycle, NULL);
    pthread_mutex_init(&s->over_lock, NULL);
    s->home = mem_strdup(home);
    s->dir = mem_printf("/.snaffle-%s", word);
    s->guest = mem_printf("%s/guest", s->dir);
    s->base.home = s->home;
    s->base.id = "";
    atomic_store(&s->program, s->guest);
    if (!s->home || !s->dir || !s->guest) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    return cancel_new(&s->torn_down, err);
}

static bool asks_for_limits(const struct sandbox_spec *spec) {
    const struct sandbox_limits *l = &spec->limits;
    return l->memory_mb > 0 || l->processes > 0 || l->disk_mb > 0;
}

static const struct sandbox_ops ops;
static int check_create(const struct sandbox_spec *spec, struct err *err);

int hf_new(const char *home, bool is_root, struct hf **out, struct err *err) {
    struct hf *s = calloc(1, sizeof *s);
    if (!s) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    s->base.ops = &ops;
    int r = prepare(s, home, is_root, err);
    if (r < 0) {
        hf_forget(s);
        return r;
    }
    *out = s;
    return 0;
}

static int create(const struct sandbox_spec *spec, deadline_ms until, const struct cancel *cancel,
                  struct sandbox **out, struct err *err) {
    const struct sandbox_machine *m = &spec->machine;
    struct hf *s = NULL;
    int r = check_create(spec, err);
    r = r < 0 ? r : hf_new(home_of(spec), hf_machine_is_root(m), &s, err);
    if (r < 0) {
        return r;
    }
    s->limits_asked = asks_for_limits(spec);
    double start_s = m->start_s > 0 ? m->start_s : HF_START_S_DEFAULT;
    r = hf_hub_of(NULL, m->namespace, until, cancel, &s->hub, err);
    r = r < 0 ? r : create_job(s, spec, until, cancel, err);
    r = r < 0 ? r : await_ready(s, deadline_min(until, deadline_in_s(start_s)), cancel, err);
    r = r < 0 ? r : hf_furnish(s, spec, until, cancel, err);
    if (r < 0) {
        sandbox_free(&s->base); /* Its job is cancelled; the first error stands. */
        return r;
    }
    *out = &s->base;
    return 0;
}

/* --- kill --- */

/* By a fresh copy: a root agent may have replaced the first. Root's takes with it who keeps the
 * records of commands; another user's leaves them. */
static int clear(struct hf *s, deadline_ms until, struct err *err) {
    AUTO_FREE char *copy = mem_printf("%s/clear-%u", s->dir, atomic_fetch_add(&s->next, 1));
    char user[16];
    (void)snprintf(user, sizeof user, "%u", s->user);
    const char *const argv[] = {copy, "clear", "--user", user, NULL};
    AUTO_BUF struct buf said = {0};
    int code = 0;
    int r =
        copy ? hf_put_guest(s, copy, until, NULL, err) : err_set(err, ERR_NOMEM, "out of memory");
    r = r < 0
            ? r
            : hf_server_exec(&s->server, argv, HF_SERVER_ATTEMPTS, until, NULL, &code, &said, err);
    atomic_fetch_add(&s->clears, s->user == 0);
    return r < 0 || code == 0
               ? r
               : err_set(err, ERR_TIMEOUT, "processes in the sandbox would not end: %s",
                         buf_cstr(&said));
}

static int kill_all(struct sandbox *b, deadline_ms until, struct err *err) {
    struct hf *s = (struct hf *)b;
    int r = ERR_INTERNAL;
    for (int i = 0; i < CLEAR_ATTEMPTS && r < 0; i++) {
        r = clear(s, until, err);
    }
    return r < 0 ? hf_explain(s, r, err) : 0;
}

/* Where any user may leave something. */
static const char empty_shared[] = "rm -rf /tmp/* /tmp/.[!.]* /tmp/..?* /dev/shm/* /dev/shm/.[!.]* "
                                   "/var/tmp/* /var/tmp/.[!.]*";

static int restart(struct sandbox *b, const struct sandbox_spec *spec, deadline_ms until,
                   const struct cancel *cancel, struct err *err) {
    struct hf *s = (struct hf *)b;
    pthread_mutex_lock(&s->lifecycle);
    atomic_fetch_add(&s->lives, 1);
    int r = kill_all(b, until, err);
    r = r < 0 ? r : hf_run_shell(s, empty_shared, "", "", until, cancel, err);
    r = r < 0 ? r : hf_replace_guest(s, until, cancel, err);
    r = r < 0 ? r : hf_mounts_place(s, spec, until, cancel, err);
    pthread_mutex_unlock(&s->lifecycle);
    return r < 0 ? hf_explain(s, r, err) : 0;
}

static int kill_sandbox(struct sandbox *b, struct err *err) {
    struct hf *s = (struct hf *)b;
    int r = 0;
    cancel_throw(s->torn_down);
    pthread_mutex_lock(&s->lifecycle);
    if (s->job && !s->killed) {
        r = hf_hub_cancel(s->hub, s->job, err);
        s->killed = r == 0;
    }
    pthread_mutex_unlock(&s->lifecycle);
    return r;
}

void hf_forget(struct hf *s) {
    hf_mounts_forget(s);
    hf_server_deinit(&s->server);
    cancel_free(s->torn_down);
    pthread_mutex_destroy(&s->lifecycle);
    pthread_mutex_destroy(&s->over_lock);
    free(s->job);
    free(s->id);
    free(s->home);
    free(s->dir);
    free(s->guest);
    free(s->image_guest);
    free(s);
}

static void free_sandbox(struct sandbox *b) {
    struct err err = {0};
    if (kill_sandbox(b, &err) < 0) {
        log_warning("%s", err.msg);
    }
    hf_forget((struct hf *)b);
}

/* --- what holds --- */

#define BY_FLAVOR(s)                                                                               \
    ((s)->limits_asked ? "not_enforced: the flavor's own limit holds, not the task's"              \
                       : "enforced: by the flavor")

static json_t *isolation(const struct sandbox *b) {
    const struct hf *s = (const struct hf *)b;
    bool is_root = s->user == 0;
    return json_pack(
        "{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s}", "network",
        "not_enforced: a sandbox of the Hub has the whole network", "memory", BY_FLAVOR(s), "disk",
        BY_FLAVOR(s), "processes", "not_enforced: the flavor sets none", "user",
        is_root ? "shared: commands run as root" : "enforced: no way back to root", "kill_all",
        is_root ? "enforced: all but the server inside, by a fresh program"
                : "enforced: all of the user's, by root",
        "provider_token",
        is_root ? "exposed: root can read what is sent to the server inside (use a token of "
                  "small scope)"
                : "enforced: only root could read it",
        "reward",
        is_root ? "not_enforced: a root agent may have replaced what grades it (use verify_in "
                  "fresh, or agent_user agent)"
                : "enforced: the system inside is out of the agent's reach");
}

/* A restart goes on in the same machine. */
static bool restart_is_clean(const struct sandbox_machine *m) {
    return !hf_machine_is_root(m);
}

/* The flavor's limits end the whole job; nothing tells of one that was nearly hit. */
static int limits_hit(struct sandbox *b, json_t **out, struct err *err) {
    struct hf *s = (struct hf *)b;
    if (cancel_thrown(s->torn_down)) {
        return err_set(err, ERR_LOST, "the sandbox was torn down");
    }
    *out = json_object();
    return *out ? 0 : err_set(err, ERR_NOMEM, "out of memory");
}

static const char *no_model_socket(const struct sandbox *b) {
    (void)b;
    return NULL;
}

static const struct sandbox_ops ops = {
    .restart = restart,
    .carry_home = hf_carry_home,
    .exec = hf_exec,
    .start = hf_start,
    .job_wait = hf_job_wait,
    .job_kill = hf_job_kill,
    .job_free = hf_job_free,
    .kill_all = kill_all,
    .write_file = hf_write_file,
    .read_file = hf_read_file,
    .exists = hf_exists,
    .model_socket = no_model_socket,
    .isolation = isolation,
    .limits_hit = limits_hit,
    .kill = kill_sandbox,
    .free = free_sandbox,
};

static int check_create(const struct sandbox_spec *spec, struct err *err) {
    int r = hf_machine_check(&spec->machine, err);
    r = r < 0 ? r : inside_check("home", home_of(spec), err);
    for (size_t i = 0; r == 0 && i < spec->n_mounts; i++) {
        r = inside_check("mount", spec->mounts[i].path, err);
    }
    if (r == 0 && spec->rootfs) {
        return err_set(err, ERR_UNSUPPORTED, "the hf backend takes an image, no rootfs");
    }
    if (r == 0 && spec->strict && spec->network != SANDBOX_NETWORK_FULL) {
        return err_set(err, ERR_UNSUPPORTED,
                       "a sandbox of the Hub always has the whole network (ask for network "
                       "'full', or run without --strict)");
    }
    if (r == 0 && spec->strict && asks_for_limits(spec)) {
        return err_set(err, ERR_UNSUPPORTED,
                       "a sandbox of the Hub has its flavor's limits, and none of a task (choose a "
                       "flavor, or run without --strict)");
    }
    return r;
}

static int check(struct err *err) {
    struct hf_hub *hub;
    return hf_hub_of(NULL, NULL, deadline_in_s(HF_START_S_DEFAULT), NULL, &hub, err);
}

const struct sandbox_backend sandbox_hf = {
    .name = "hf",
    .home = HF_HOME_DEFAULT,
    .restart_is_clean = restart_is_clean,
    .check = check,
    .check_create = check_create,
    .create = create,
    .list = hf_list,
    .sweep = hf_sweep,
    .exec_in = hf_exec_in,
    .kill_in = hf_kill_in,
};
