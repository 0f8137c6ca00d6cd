/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/rand.h"
#include "net/listener.h"
#include "tests/doubles/hub/hub.h"

#define LOG_MAX (256u * 1024) /* A job's output that is kept. */
#define DEFAULT_S 1800        /* Without timeoutSeconds. */

bool job_is_over(const struct job *j) {
    return strcmp(j->stage, "SCHEDULING") != 0 && strcmp(j->stage, "RUNNING") != 0;
}

static void end(struct job *j, const char *stage, const char *message) {
    if (job_is_over(j)) {
        return;
    }
    j->stage = stage;
    j->finished = clock_unix();
    j->hub->n_alive--;
    (void)snprintf(j->message, sizeof j->message, "%s", message);
    timer_stop(j->timer);
    hub_log(j->hub, json_pack("{s:s, s:s, s:s}", "event", "job", "job", j->id, "stage", stage));
}

static void on_out_of_time(void *arg) {
    struct job *j = arg;
    end(j, "ERROR", "Job timeout");
    if (j->container) {
        container_kill(j->container);
    }
}

static void on_start(void *arg) {
    container_start(arg);
}

void job_on_start(struct job *j, struct container *c, const struct err *failed) {
    struct err err = {0};
    j->container = c;
    if (!c) {
        end(j, "ERROR", failed->msg);
        return;
    }
    if (job_is_over(j)) { /* Cancelled meanwhile. */
        container_kill(c);
        return;
    }
    j->stage = "RUNNING";
    j->started = clock_unix();
    const json_t *limit = json_object_get(j->spec, "timeoutSeconds");
    double s = json_is_number(limit) ? json_number_value(limit) : DEFAULT_S;
    timer_free(j->timer);
    j->timer = NULL;
    if (timer_new(j->hub->loop, on_out_of_time, j, &j->timer, &err) == 0) {
        timer_start(j->timer, (int64_t)(s * 1000));
    }
}

struct job *job_new(struct hub *h, const char *owner, json_t *spec, const char *fault) {
    struct job *j = calloc(1, sizeof *j);
    struct err err = {0};
    if (!j || timer_new(h->loop, on_start, j, &j->timer, &err) < 0) {
        free(j);
        json_decref(spec);
        return NULL;
    }
    j->hub = h;
    j->spec = spec;
    j->owner = mem_strdup(owner);
    j->stage = "SCHEDULING";
    j->created = clock_unix();
    j->log.limit = LOG_MAX;
    j->next = h->jobs;
    h->jobs = j;
    h->n_alive++;
    rand_hex(j->id, 12);
    if (fault && strcmp(fault, "die") == 0) {
        json_object_del(json_object_get(spec, "environment"), "SBX_SERVER_SHA256");
        json_object_set_new(spec, "command",
                            json_pack("[s, s, s]", "/bin/sh", "-c",
                                      "echo cannot pull the image; echo giving up; exit 1"));
    }
    j->hidden = fault && strcmp(fault, "hide_url") == 0;
    if (!fault || strcmp(fault, "never_start") != 0) {
        timer_start(j->timer, h->start_ms);
    }
    hub_log(h, json_pack("{s:s, s:s, s:s}", "event", "job", "job", j->id, "stage", j->stage));
    return j;
}

struct job *job_find(struct hub *h, struct sv id) {
    for (struct job *j = h->jobs; j; j = j->next) {
        if (sv_eq(id, sv_from(j->id))) {
            return j;
        }
    }
    return NULL;
}

void job_cancel(struct job *j) {
    end(j, "CANCELED", "");
    if (j->container) {
        container_kill(j->container);
    }
}

void job_on_output(struct job *j, struct sv bytes) {
    int r = buf_add_sv(&j->log, bytes);
    while (r < 0 && j->log.len > 0) { /* The newest half stays. */
        buf_consume(&j->log, (j->log.len + 1) / 2);
        r = buf_add_sv(&j->log, bytes);
    }
}

void job_on_end(struct job *j, int status) {
    j->container = NULL;
    bool good = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    char message[64] = "";
    if (!good) {
        (void)snprintf(message, sizeof message, "Job failed with exit code: %d",
                       WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    }
    end(j, good ? "COMPLETED" : "ERROR", message);
}

/* --- as JSON --- */

static json_t *time_of(double t) {
    time_t seconds = (time_t)t;
    struct tm tm;
    char text[48];
    char all[64];
    if (t == 0 || !gmtime_r(&seconds, &tm)) {
        return json_null();
    }
    (void)strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &tm);
    (void)snprintf(all, sizeof all, "%s.%03dZ", text, (int)((t - (double)seconds) * 1000));
    return json_string(all);
}

static json_t *urls_of(const struct job *j) {
    const json_t *ports = json_object_get(json_object_get(j->spec, "expose"), "ports");
    json_t *urls = json_array();
    size_t i;
    json_t *port;
    json_array_foreach((json_t *)ports, i, port) {
        json_array_append_new(urls, json_sprintf("http://127.0.0.1:%u/p/%s--%lld.local",
                                                 listener_port(j->hub->proxy), j->id,
                                                 (long long)json_integer_value(port)));
    }
    return urls;
}

static json_t *names_of(const json_t *secrets) {
    json_t *names = json_array();
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)secrets, name, value) {
        json_array_append_new(names, json_string(name));
    }
    return names;
}

static json_t *or_empty(const struct job *j, const char *field, json_t *empty) {
    json_t *there = json_object_get(j->spec, field);
    if (!there) {
        return empty;
    }
    json_decref(empty);
    return json_incref(there);
}

static json_t *status_of(const struct job *j) {
    json_t *status = json_pack("{s:s, s:o}", "stage", j->stage, "message",
                               j->message[0] ? json_string(j->message) : json_null());
    if (!j->hidden) {
        json_object_set_new(status, "exposeUrls", urls_of(j));
    }
    return status;
}

json_t *job_json(const struct job *j) {
    const char *user = j->hub->user;
    json_t *o = json_pack("{s:s, s:o, s:o, s:o, s:o}", "id", j->id, "createdAt",
                          time_of(j->created), "startedAt", time_of(j->started), "finishedAt",
                          time_of(j->finished), "status", status_of(j));
    static const char *const echoed[] = {"dockerImage", "spaceId", "flavor"};
    for (size_t i = 0; i < ARRAY_LEN(echoed); i++) {
        json_t *v = json_object_get(j->spec, echoed[i]);
        json_object_set_new(o, echoed[i], v ? json_incref(v) : json_null());
    }
    json_object_set_new(o, "command", or_empty(j, "command", json_array()));
    json_object_set_new(o, "arguments", or_empty(j, "arguments", json_array()));
    json_object_set_new(o, "environment", or_empty(j, "environment", json_object()));
    json_object_set_new(o, "labels", or_empty(j, "labels", json_object()));
    json_object_set_new(o, "volumes", or_empty(j, "volumes", json_array()));
    json_object_set_new(o, "secrets", names_of(json_object_get(j->spec, "secrets")));
    json_object_set_new(
        o, "owner", json_pack("{s:s, s:s, s:s}", "id", "66f0", "name", j->owner, "type", "user"));
    json_object_set_new(o, "initiator",
                        json_pack("{s:s, s:s, s:s}", "type", "user", "id", "66f0", "name", user));
    return o;
}
