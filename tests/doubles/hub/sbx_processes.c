/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "tests/doubles/hub/sbx.h"

#define FINISHED_KEPT 256 /* By generations 2 and 3. */

struct process {
    struct process *next;
    unsigned id;
    pid_t pid;
    json_t *cmd;
    json_t *tag;
    bool running;
    int status;
    double started;
    deadline_ms until;
};

static void reap(struct sbx *s) {
    for (struct process *p = s->processes; p; p = p->next) {
        if (p->running && waitpid(p->pid, &p->status, WNOHANG) == p->pid) {
            p->running = false;
        }
    }
}

static void process_free(struct process *p) {
    json_decref(p->cmd);
    json_decref(p->tag);
    free(p);
}

static void forget_old(struct sbx *s) {
    unsigned finished = 0;
    for (struct process **at = &s->processes; *at;) {
        struct process *p = *at;
        finished += !p->running;
        if (!p->running && finished > FINISHED_KEPT) {
            *at = p->next;
            process_free(p);
        } else {
            at = &p->next;
        }
    }
}

bool sbx_has_processes(const struct sbx *s) {
    reap((struct sbx *)s);
    for (const struct process *p = s->processes; p; p = p->next) {
        if (p->running) {
            return true;
        }
    }
    return false;
}

static void list(struct sbx *s, struct exchange *x) {
    json_t *all = json_array();
    reap(s);
    if (s->protocol > 1) {
        forget_old(s);
    }
    for (const struct process *p = s->processes; p; p = p->next) {
        char id[24];
        (void)snprintf(id, sizeof id, "p-%u", p->id);
        bool has_code = !p->running && WIFEXITED(p->status);
        json_array_insert_new(
            all, 0,
            json_pack("{s:O, s:s, s:i, s:b, s:I, s:O, s:o}", "cmd", p->cmd, "id", id, "pid",
                      (int)p->pid, "running", p->running, "started_at_ms",
                      (json_int_t)(p->started * 1000), "tag", p->tag, "exit_code",
                      has_code ? json_integer(WEXITSTATUS(p->status)) : json_null()));
    }
    sbx_reply(x, 200, all);
}

static struct process *started(struct sbx *s, const struct sbx_command *c, pid_t pid) {
    const json_t *tag = json_object_get(c->body, "tag");
    struct process *p = calloc(1, sizeof *p);
    BUG_IF(!p);
    *p = (struct process){
        .next = s->processes,
        .id = s->next_id++,
        .pid = pid,
        .cmd = json_incref(json_object_get(c->body, "cmd")),
        .tag = json_is_string(tag) ? json_incref((json_t *)tag) : json_null(),
        .running = true,
        .started = clock_unix(),
        .until = c->until,
    };
    s->processes = p;
    return p;
}

void sbx_start_background(struct sbx *s, struct exchange *x, struct sbx_command *c, bool whole) {
    pid_t pid = sbx_spawn(c, -1, -1);
    if (pid < 0) {
        sbx_fail_spawn(x, c, -pid);
        sbx_command_deinit(c);
        return;
    }
    const struct process *p = started(s, c, pid);
    sbx_command_deinit(c);
    json_t *answer = json_pack("{s:i, s:O}", "pid", (int)pid, "tag", p->tag);
    if (whole || s->protocol > 1) {
        json_object_set_new(answer, "id", json_sprintf("p-%u", p->id));
    }
    if (whole) {
        json_object_set(answer, "cmd", p->cmd);
    }
    sbx_reply(x, 200, answer);
}

void sbx_end_late_processes(struct sbx *s) {
    reap(s);
    for (struct process *p = s->processes; p; p = p->next) {
        if (p->running && deadline_passed(p->until)) {
            kill(-p->pid, SIGKILL);
        }
    }
}

static bool kill_one(struct sbx *s, unsigned id) {
    reap(s);
    for (struct process **at = &s->processes; *at; at = &(*at)->next) {
        struct process *p = *at;
        if (p->id == id) {
            bool was_running = p->running;
            if (was_running) {
                kill(-p->pid, SIGKILL);
                (void)waitpid(p->pid, NULL, 0);
            }
            *at = p->next;
            process_free(p);
            return was_running;
        }
    }
    return false;
}

static void end(struct sbx *s, struct exchange *x, struct sv text) {
    unsigned long long id = 0;
    bool good = sv_starts_with(text, SV("p-")) && sv_parse_u64(sv_cut(text, 2), 1u << 30, &id);
    bool killed = good && kill_one(s, (unsigned)id);
    json_t *said = json_text(text);
    if (s->protocol == 1) {
        sbx_reply(x, 200, json_pack("{s:o, s:b}", "id", said, "ok", true));
    } else if (!good) {
        json_decref(said);
        sbx_fail(x, 400, "malformed process id '%.*s'", SV_ARG(text));
    } else {
        sbx_reply(x, 200, json_pack("{s:o, s:b}", "id", said, "killed", killed));
    }
}

void sbx_processes(struct sbx *s, struct exchange *x, struct sv rest) {
    struct sv method = exchange_head(x)->method;
    struct sbx_command c = {0};
    if (rest.n == 0 && sv_eq(method, SV("GET"))) {
        list(s, x);
    } else if (rest.n == 0 && sv_eq(method, SV("POST"))) {
        if (sbx_command_read(x, &c) == 0) {
            sbx_start_background(s, x, &c, true);
        }
    } else if (rest.n > 0 && sv_find(rest, SV("/")) == (size_t)-1 && sv_eq(method, SV("DELETE"))) {
        end(s, x, rest);
    } else {
        sbx_no_route(s, x);
    }
}
