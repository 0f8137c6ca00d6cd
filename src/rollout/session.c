/* SPDX-License-Identifier: BSD-3-Clause */
#include "rollout/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/rand.h"
#include "rollout/capture.h"
#include "rollout/inside.h"

static int take_names(struct rollout_session *s, const struct rollout_names *names,
                      struct err *err) {
    if (names->rollout) {
        int r = store_check_name("rollout", names->rollout, err);
        if (r < 0) {
            return r;
        }
        snprintf(s->rollout, sizeof s->rollout, "%s", names->rollout);
    } else {
        unsigned index = 0;
        rand_bytes(&index, sizeof index);
        store_name_from(s->task->id, index, s->rollout);
    }
    const char *group = names->group ? names->group : s->rollout;
    int r = store_check_name("group", group, err);
    if (r < 0) {
        return r;
    }
    snprintf(s->group, sizeof s->group, "%s", group);
    s->attempt = names->attempt ? names->attempt : 1;
    snprintf(s->name, sizeof s->name, "%s.%u", s->rollout, s->attempt);
    return 0;
}

static void set_budget(struct rollout_session *s) {
    const struct task_limits *t = &s->task->limits;
    struct rollout_limits own = {
        .setup_s = t->setup_s, .agent_s = t->agent_s, .verify_s = t->verify_s};
    s->began_ms = clock_ms();
    s->began_unix = clock_unix();
    s->budget =
        rollout_budget_make(&s->factory->o.limits, &own, s->factory->o.config->agent_timeout_s,
                            s->task->n_verify > 0, s->began_ms);
}

/* The folder of the rollout, empty and with the task in it. */
static int begin_folder(struct rollout_session *s, struct err *err) {
    struct rollout_factory *f = s->factory;
    int r = s->attempt > 1 ? store_keep_attempt(f->store, f->run, s->rollout, s->attempt - 1, err)
                           : store_begin_rollout(f->store,
                                                 &(struct store_begin){.run = f->run,
                                                                       .rollout = s->rollout,
                                                                       .group = s->group,
                                                                       .task_id = s->task->id,
                                                                       .agent = f->agent->name,
                                                                       .backend = f->backend->name,
                                                                       .model = f->o.config->model},
                                                 err);
    if (r < 0) {
        return r;
    }
    s->dir = store_rollout_path(f->store, f->run, s->rollout);
    AUTO_JSON json_t *task = task_to_json(s->task);
    AUTO_BUF struct buf text = {0};
    if (!s->dir || !task || json_pretty(task, &text) < 0) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    return store_put(f->store, f->run, s->rollout, "task.json", buf_sv(&text), err);
}

static int session_begin(struct rollout_session *s, const struct rollout_names *names,
                         struct err *err) {
    int r = take_names(s, names, err);
    if (r < 0) {
        return r;
    }
    r = cancel_new_under(s->control.cancel, &s->stop, err);
    if (r < 0) {
        return r;
    }
    const char *home = s->factory->o.config->sandbox_home;
    s->workdir = mem_printf("%s/workdir", home ? home : s->factory->backend->home);
    s->setup_results = json_array();
    s->verify_results = json_array();
    s->findings = json_array();
    if (!s->workdir || !s->setup_results || !s->verify_results || !s->findings) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    set_budget(s);
    r = session_check_capture(s, err);
    if (r < 0) {
        return r;
    }
    r = factory_open(s->factory, err);
    return r < 0 ? r : begin_folder(s, err);
}

static void forget_records(const struct rollout_session *s) {
    struct journal *journal = s->factory->journal;
    struct err e = {0};
    if (!journal) {
        return;
    }
    if (s->is_traced && !s->factory->records->keeps_journal &&
        journal_release(journal, sv_from(s->name), &e) < 0) {
        log_warning("%s: its journal is kept: %s", s->name, e.msg);
    }
    journal_forget(journal, sv_from(s->name));
}

static void session_destroy(struct rollout_session *s) {
    for (size_t i = 0; i < s->n_files; i++) {
        free(s->files[i].path);
        buf_deinit(&s->files[i].text);
    }
    buf_deinit(&s->agent_log);
    json_decref(s->findings);
    json_decref(s->isolation);
    json_decref(s->setup_results);
    json_decref(s->verify_results);
    json_decref(s->result);
    free(s->log_path);
    free(s->program);
    free(s->agent_version);
    free(s->model_url);
    free(s->token);
    inside_free(s->inside);
    forget_records(s);
    free(s->workdir);
    free(s->dir);
    cancel_free(s->stop);
    pthread_rwlock_destroy(&s->alive);
    pthread_mutex_destroy(&s->work);
    free(s);
}

int session_new(struct rollout_factory *f, const struct task *task,
                const struct rollout_names *names, const struct rollout_control *control,
                struct rollout_session **out, struct err *err) {
    struct rollout_session *s = calloc(1, sizeof *s);
    if (!s) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    pthread_mutex_init(&s->work, NULL);
    pthread_rwlock_init(&s->alive, NULL);
    s->factory = f;
    s->task = task;
    if (control) {
        s->control = *control;
    }
    int r = session_begin(s, names ? names : &(struct rollout_names){0}, err);
    if (r < 0) {
        session_destroy(s);
        return r;
    }
    *out = s;
    return 0;
}

static const struct {
    const char *limit; /* As the sandbox names it. */
    const char *code;
} limit_findings[] = {
    {"memory", "memory_limit"},
    {"processes", "process_limit"},
    {"disk", "disk_limit"},
};

/* What the sandbox ran into, asked while it can still answer. */
static void note_limits(struct rollout_session *s) {
    struct err ignored = {0};
    AUTO_JSON json_t *hit = NULL;
    const char *limit = NULL;
    json_t *how = NULL;
    if (sandbox_limits_hit(s->sandbox, &hit, &ignored) < 0) {
        log_debug("%s: which limits were hit is not known: %s", s->name, ignored.msg);
        return;
    }
    json_object_foreach(hit, limit, how) {
        for (size_t i = 0; i < ARRAY_LEN(limit_findings); i++) {
            if (strcmp(limit, limit_findings[i].limit) == 0) {
                session_finding(s, limit_findings[i].code, "%s", json_string_value(how));
            }
        }
    }
}

/* Frees what stands behind the session; what was learned of it stays. */
static int tear_down(struct rollout_session *s, struct err *err) {
    session_phase(s, ROLLOUT_PHASE_TEARDOWN);
    session_say(s, NULL, "tearing down");
    pthread_rwlock_wrlock(&s->alive);
    sandbox_job_free(TAKE(s->job));
    int r = 0;
    if (s->sandbox) {
        if (!cancel_thrown(s->control.hard)) {
            note_limits(s);
        }
        r = sandbox_kill(s->sandbox, err);
        sandbox_free(TAKE(s->sandbox));
    }
    pthread_rwlock_unlock(&s->alive);
    session_phase_end(s);
    return r;
}

/* A session that is closed before its agent ended was given up. */
static void note_early_close(struct rollout_session *s) {
    if (s->verified) {
        return;
    }
    if (cancel_thrown(s->control.cancel)) {
        session_note(s, ROLLOUT_CAUSE_CANCELLED,
                     &(struct err){.code = ERR_CANCELLED, .msg = "cancelled"});
    } else if (s->agent == SESSION_AGENT_NOT_STARTED || s->agent == SESSION_AGENT_RUNNING) {
        session_note(s, ROLLOUT_CAUSE_CANCELLED,
                     &(struct err){.code = ERR_CANCELLED, .msg = "closed before the agent ended"});
    }
}

static int close_once(struct rollout_session *s, struct err *err) {
    note_early_close(s);
    session_stop_agent(s);
    if (s->sandbox && !cancel_thrown(s->control.hard)) {
        session_phase(s, ROLLOUT_PHASE_COLLECT);
        session_say(s, NULL, "collecting");
        session_collect_files(s);
        struct err ignored = {0};
        if (session_read_log(s, &s->agent_log, &ignored) < 0) {
            session_finding(s, "agent_log_unreadable", "%s", ignored.msg);
        }
    }
    struct err down = {0};
    int torn = tear_down(s, &down);
    if (torn < 0) {
        log_warning("%s: cannot tear the sandbox down: %s", s->name, down.msg);
        session_finding(s, "teardown_failed", "%s", down.msg);
    }
    int written = session_write(s, err);
    if (written < 0) {
        return written;
    }
    if (torn < 0 && err) {
        *err = down;
    }
    return torn;
}

int rollout_session_close(struct rollout_session *s, struct err *err) {
    atomic_store(&s->closing, true);
    cancel_throw(s->stop);
    pthread_mutex_lock(&s->work);
    int r = s->close_code;
    if (!s->closed) {
        r = s->close_code = close_once(s, err);
        s->closed = true;
    } else if (r < 0) {
        r = err_set(err, r, "the session was closed, with an error that was told then");
    }
    pthread_mutex_unlock(&s->work);
    return r;
}

void rollout_session_free(struct rollout_session *s) {
    if (s) {
        struct err ignored = {0}; /* Logged, and in the result. */
        (void)rollout_session_close(s, &ignored);
        session_destroy(s);
    }
}

int rollout_session_result(const struct rollout_session *s, json_t **out, struct err *err) {
    if (!s->result) {
        return err_set(err, ERR_STATE, "there is no result before the session is closed");
    }
    json_t *copy = json_deep_copy(s->result);
    if (!copy) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    *out = copy;
    return 0;
}

const char *rollout_session_rollout(const struct rollout_session *s) {
    return s->rollout;
}

const char *rollout_session_sandbox_id(const struct rollout_session *s) {
    return s->sandbox_id;
}

const char *rollout_session_dir(const struct rollout_session *s) {
    return s->dir;
}

json_t *rollout_session_initial_messages(const struct rollout_session *s) {
    return json_pack("[{s:s, s:o}]", "role", "user", "content",
                     json_text(sv_from(s->task->instruction)));
}

json_t *rollout_session_list_tools(const struct rollout_session *s) {
    (void)s;
    return json_array();
}

json_t *rollout_session_call_tool(const struct rollout_session *s, const char *name) {
    (void)s;
    AUTO_FREE char *text =
        mem_printf("'%s' is not a tool: the agent uses its own inside the sandbox", name);
    return text ? json_pack("{s:n, s:b, s:o}", "data", "done", 0, "error", json_text(sv_from(text)))
                : NULL;
}
