/* SPDX-License-Identifier: BSD-3-Clause */
#include "sandbox/hf/hub.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "net/http_client.h"
#include "sandbox/hf/account.h"
#include "sandbox/hf/answer.h"
#include "sandbox/hf/rate.h"

#define CALL_S 30.0        /* The Hub answers in a second; the official client waits for ever. */
#define TIDY_ATTEMPTS 5    /* A job that is left costs money by the hour. */
#define TIDY_PAUSE_MS 100  /* Before the second; twice as long before each further one. */
#define CANCEL_S 10.0      /* Each. */
#define LIST_AGE_MS 2000   /* As often as the official client asks for one job. */
#define LIST_PAGES_MAX 100 /* Of 100 jobs or so: more than any account may run. */
#define MESSAGE_MAX 300    /* Of a job's own words. */
#define LOG_LINES 20       /* Of a job that failed. */
#define LOG_S 5.0          /* The stream may stay open; what came by then is the log. */
#define LOG_MAX (64u << 10)

struct hf_hub {
    struct hf_hub *next;
    struct hf_account account;
    char *namespace;
    char *authorization; /* The whole header. */
    struct http_pool *pool;
    struct hf_rate rate;

    pthread_mutex_t lock; /* Over what follows. */
    pthread_cond_t listed;
    bool listing;      /* Some thread is at it. */
    json_t *jobs;      /* Of the last list: id to stage. NULL: none yet. */
    int64_t listed_ms; /* When that was asked for. */
};

static pthread_mutex_t hubs_lock = PTHREAD_MUTEX_INITIALIZER;
static struct hf_hub *hubs;

const char *hf_hub_endpoint(const struct hf_hub *h) {
    return h->account.endpoint;
}

const char *hf_hub_token(const struct hf_hub *h) {
    return h->account.token;
}

const char *hf_hub_namespace(const struct hf_hub *h) {
    return h->namespace;
}

/* --- calls --- */

static int status_error(const struct hf_hub *h, const char *what, const struct http_answer *a,
                        struct err *err) {
    AUTO_BUF struct buf said = {0};
    const char *remedy = "";
    int code = ERR_UPSTREAM;
    switch (a->status) {
    case 400:
        code = ERR_INPUT;
        break;
    case 401:
        code = ERR_ENVIRONMENT;
        remedy = " (set a valid HF_TOKEN)";
        break;
    case 402:
        code = ERR_ENVIRONMENT;
        remedy = " (add credit to the account)";
        break;
    case 403:
        code = ERR_ENVIRONMENT;
        remedy = " (the token needs the right to run jobs in that namespace)";
        break;
    case 404:
        code = ERR_NOT_FOUND;
        break;
    case 429:
        code = ERR_QUOTA;
        break;
    default:
        break;
    }
    if (hf_answer_fault(buf_sv(&a->head), buf_sv(&a->body), &said) < 0) {
        remedy = ""; /* For want of memory it is told without the Hub's words. */
    }
    return err_set(err, code, "cannot %s in '%s' on the Hub: HTTP %d%s%s%s", what, h->namespace,
                   a->status, said.len ? ": " : "", buf_cstr(&said), remedy);
}

/* Any answer below 400 is success; others are errors. */
static int call(struct hf_hub *h, const char *what, const struct http_call *how,
                const struct cancel *cancel, deadline_ms until, struct http_answer *out,
                struct err *err) {
    const char *const headers[] = {h->authorization, NULL};
    struct http_call c = *how;
    int r = hf_rate_take(&h->rate, until, cancel, err);
    if (r < 0) {
        return r;
    }
    c.headers = headers;
    c.cancel = cancel;
    c.pool = h->pool;
    c.deadline = deadline_min(until, deadline_in_s(CALL_S));
    r = http_call_json(&c, out, err);
    if (r < 0) {
        return r;
    }
    hf_rate_learn(&h->rate, out->status, buf_sv(&out->head));
    if (out->status >= 400) {
        r = status_error(h, what, out, err);
        http_answer_deinit(out);
    }
    return r;
}

static int call_json(struct hf_hub *h, const char *what, const struct http_call *how,
                     const struct cancel *cancel, deadline_ms until, json_t **out,
                     struct err *err) {
    struct http_answer answer = {0};
    int r = call(h, what, how, cancel, until, &answer, err);
    if (r < 0) {
        return r;
    }
    r = json_parse(buf_sv(&answer.body), "the Hub's answer", out, err);
    http_answer_deinit(&answer);
    return r < 0 ? err_set(err, ERR_PROTOCOL, "the Hub's answer is no JSON") : 0;
}

/* --- who we are --- */

static void hub_free(struct hf_hub *h) {
    if (h) {
        hf_account_deinit(&h->account);
        if (h->authorization) {
            explicit_bzero(h->authorization, strlen(h->authorization));
        }
        free(h->authorization);
        free(h->namespace);
        http_pool_free(h->pool);
        free(h);
    }
}

/* Its rate limit is strict on purpose: asked once a process and account. */
static int ask_namespace(struct hf_hub *h, deadline_ms until, const struct cancel *cancel,
                         struct err *err) {
    AUTO_JSON json_t *who = NULL;
    AUTO_FREE char *url = mem_printf("%s/api/whoami-v2", h->account.endpoint);
    h->namespace = mem_strdup("");
    if (!url || !h->namespace) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    int r = call_json(h, "ask whose the token is", &(struct http_call){.url = url}, cancel, until,
                      &who, err);
    if (r < 0) {
        return r;
    }
    free(h->namespace);
    h->namespace = mem_strdup(json_string_value(json_object_get(who, "name")));
    return h->namespace ? 0 : err_set(err, ERR_PROTOCOL, "the Hub names no owner of the token");
}

static int hub_new(struct hf_account *account, const char *namespace, deadline_ms until,
                   const struct cancel *cancel, struct hf_hub **out, struct err *err) {
    struct hf_hub *h = calloc(1, sizeof *h);
    if (!h) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    h->account = *account;
    *account = (struct hf_account){0};
    h->rate = (struct hf_rate)HF_RATE_INIT;
    pthread_mutex_init(&h->lock, NULL);
    pthread_cond_init(&h->listed, NULL);
    h->authorization = mem_printf("Authorization: Bearer %s", h->account.token);
    int r =
        h->authorization ? http_pool_new(&h->pool, err) : err_set(err, ERR_NOMEM, "out of memory");
    if (r == 0 && namespace) {
        h->namespace = mem_strdup(namespace);
        r = h->namespace ? 0 : err_set(err, ERR_NOMEM, "out of memory");
    } else if (r == 0) {
        r = ask_namespace(h, until, cancel, err);
    }
    if (r < 0) {
        hub_free(h);
        return r;
    }
    *out = h;
    return 0;
}

static struct hf_hub *find(const struct hf_account *a, const char *namespace) {
    for (struct hf_hub *h = hubs; h; h = h->next) {
        if (strcmp(h->account.endpoint, a->endpoint) == 0 &&
            strcmp(h->account.token, a->token) == 0 &&
            (!namespace || strcmp(h->namespace, namespace) == 0)) {
            return h;
        }
    }
    return NULL;
}

int hf_hub_of(const char *token, const char *namespace, deadline_ms until,
              const struct cancel *cancel, struct hf_hub **out, struct err *err) {
    struct hf_account account = {0};
    int r = hf_account_open(token, &account, err);
    if (r < 0) {
        return r;
    }
    pthread_mutex_lock(&hubs_lock); /* Also while the first asks: the others want its answer. */
    struct hf_hub *h = find(&account, namespace);
    struct hf_hub *made = NULL;
    if (!h) {
        r = hub_new(&account, namespace, until, cancel, &made, err);
    }
    if (made) {
        made->next = hubs;
        hubs = h = made;
    }
    pthread_mutex_unlock(&hubs_lock);
    hf_account_deinit(&account);
    *out = h;
    return r;
}

/* --- jobs --- */

static char *job_url(const struct hf_hub *h, const char *id, const char *call) {
    return mem_printf("%s/api/jobs/%s/%s%s", h->account.endpoint, h->namespace, id, call);
}

static void pause_before(int attempt) {
    if (attempt > 0) {
        clock_sleep_ms(TIDY_PAUSE_MS << (attempt - 1));
    }
}

int hf_hub_cancel(struct hf_hub *h, const char *id, struct err *err) {
    AUTO_FREE char *url = job_url(h, id, "/cancel");
    int r = url ? ERR_UPSTREAM : err_set(err, ERR_NOMEM, "out of memory");
    for (int i = 0; url && r < 0 && i < TIDY_ATTEMPTS; i++) {
        struct http_answer answer = {0};
        pause_before(i);
        r = call(h, "cancel a job",
                 &(struct http_call){.method = "POST", .url = url, .body = SV("")}, NULL,
                 deadline_in_s(CANCEL_S), &answer, err);
        http_answer_deinit(&answer);
        if (r == ERR_NOT_FOUND) {
            return 0;
        }
    }
    return r < 0 ? err_wrap(err, "job '%s' may be left on the Hub", id) : 0;
}

/* After a create of which nobody knows what became. */
static void cancel_by_nonce(struct hf_hub *h, const json_t *spec) {
    const json_t *labels = json_object_get(spec, "labels");
    const char *nonce = json_string_value(json_object_get(labels, HF_LABEL_NONCE));
    AUTO_JSON json_t *wanted = json_pack("{s:s}", HF_LABEL_NONCE, nonce ? nonce : "");
    AUTO_JSON json_t *found = NULL;
    struct err err = {0};
    int r = ERR_UPSTREAM;
    for (int i = 0; nonce && r < 0 && i < TIDY_ATTEMPTS; i++) {
        pause_before(i);
        r = hf_hub_list(h, wanted, deadline_in_s(CALL_S), NULL, &found, &err);
    }
    if (r < 0) {
        log_warning("a sandbox may be left on the Hub, labelled %s=%s: %s (snaffle gc --backend hf "
                    "removes it)",
                    HF_LABEL_NONCE, nonce ? nonce : "", err.msg);
        return;
    }
    size_t i;
    json_t *job;
    json_array_foreach(found, i, job) {
        const char *id = json_string_value(json_object_get(job, "id"));
        if (id && hf_hub_cancel(h, id, &err) < 0) {
            log_warning("%s", err.msg);
        }
    }
}

int hf_hub_create(struct hf_hub *h, const json_t *spec, deadline_ms until,
                  const struct cancel *cancel, json_t **out, struct err *err) {
    AUTO_BUF struct buf body = {0};
    AUTO_FREE char *url = mem_printf("%s/api/jobs/%s", h->account.endpoint, h->namespace);
    if (!url || json_compact(spec, &body) < 0) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    int r = call_json(h, "create a sandbox",
                      &(struct http_call){.url = url, .body = buf_sv(&body), .once = true}, cancel,
                      until, out, err);
    explicit_bzero(body.data, body.len); /* The sandbox's secrets. */
    bool unknown = r == ERR_UPSTREAM || r == ERR_CLOSED || r == ERR_TIMEOUT || r == ERR_PROTOCOL ||
                   r == ERR_CANCELLED;
    if (unknown) {
        cancel_by_nonce(h, spec);
    }
    return r;
}

/* --- lists --- */

static int put_filter(const json_t *labels, struct buf *out) {
    int r = buf_adds(out, "?stage=RUNNING&stage=SCHEDULING");
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)labels, name, value) {
        r = r < 0 ? r : buf_addf(out, "&label=%s%%3D%s", name, json_string_value(value));
    }
    return r;
}

int hf_hub_list(struct hf_hub *h, const json_t *labels, deadline_ms until,
                const struct cancel *cancel, json_t **out, struct err *err) {
    AUTO_BUF struct buf filter = {0};
    AUTO_JSON json_t *all = json_array();
    if (!all || put_filter(labels, &filter) < 0) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    char *url =
        mem_printf("%s/api/jobs/%s%s", h->account.endpoint, h->namespace, buf_cstr(&filter));
    int r = 0;
    for (int page = 0; r == 0 && url && page < LIST_PAGES_MAX; page++) {
        struct http_answer answer = {0};
        r = call(h, "list jobs", &(struct http_call){.url = url}, cancel, until, &answer, err);
        free(url);
        url = r < 0 ? NULL : hf_answer_next_page(buf_sv(&answer.head), h->account.endpoint);
        r = r < 0 ? r : hf_answer_jobs(buf_sv(&answer.body), all, err);
        http_answer_deinit(&answer);
    }
    free(url);
    if (r == 0) {
        *out = TAKE(all);
    }
    return r;
}

/* --- stages --- */

/* Lists, with the lock given up meanwhile. */
static int refresh(struct hf_hub *h, deadline_ms until, const struct cancel *cancel,
                   struct err *err) {
    AUTO_JSON json_t *labels = json_pack("{s:s}", HF_LABEL, "1");
    AUTO_JSON json_t *list = NULL;
    int64_t asked = clock_ms();
    h->listing = true;
    pthread_mutex_unlock(&h->lock);
    int r = hf_hub_list(h, labels, until, cancel, &list, err);
    pthread_mutex_lock(&h->lock);
    h->listing = false;
    json_t *jobs = r == 0 ? hf_answer_stages(list) : NULL;
    if (jobs) {
        json_decref(h->jobs);
        h->jobs = jobs;
        h->listed_ms = asked;
    }
    pthread_cond_broadcast(&h->listed);
    return r;
}

/* Waits for another thread's list; a second at a time, so that a cancel is heard. */
static int await_list(struct hf_hub *h, deadline_ms until, const struct cancel *cancel,
                      struct err *err) {
    struct timespec t;
    if (cancel_thrown(cancel)) {
        return err_set(err, ERR_CANCELLED, "cancelled");
    }
    if (deadline_passed(until)) {
        return err_set(err, ERR_TIMEOUT, "out of time");
    }
    clock_gettime(CLOCK_REALTIME, &t);
    t.tv_sec++;
    pthread_cond_timedwait(&h->listed, &h->lock, &t);
    return 0;
}

#define STAGE_MAX 24

static bool is_recent(const struct hf_hub *h, const struct hf_look *look) {
    return h->jobs && h->listed_ms >= look->as_of_ms && clock_ms() - h->listed_ms <= LIST_AGE_MS;
}

/* `known`: the list was asked for when the job was there. */
static int stage_of_list(struct hf_hub *h, const char *id, const struct hf_look *look,
                         char out[STAGE_MAX], bool *known, struct err *err) {
    int r = 0;
    pthread_mutex_lock(&h->lock);
    while (r == 0 && !is_recent(h, look)) {
        r = h->listing ? await_list(h, look->until, look->cancel, err)
                       : refresh(h, look->until, look->cancel, err);
    }
    const char *stage = r == 0 ? json_string_value(json_object_get(h->jobs, id)) : NULL;
    (void)snprintf(out, STAGE_MAX, "%s", stage ? stage : "");
    *known = r == 0 && h->listed_ms > look->since_ms;
    pthread_mutex_unlock(&h->lock);
    return r;
}

/* The end of its log, if that can be had. */
static void put_log(struct hf_hub *h, const char *id, struct buf *out) {
    struct http_answer answer = {0};
    struct err ignored = {0};
    AUTO_FREE char *tail = mem_printf("/logs?tail=%d", LOG_LINES);
    AUTO_FREE char *url = tail ? job_url(h, id, tail) : NULL;
    if (!url ||
        call(h, "read a log", &(struct http_call){.url = url, .answer_max = LOG_MAX}, NULL,
             deadline_in_s(LOG_S), &answer, &ignored) < 0 ||
        hf_answer_log(buf_sv(&answer.body), out) < 0) {
        ignored.code = 0; /* The stage is told without it. */
    }
    http_answer_deinit(&answer);
}

int hf_hub_job(struct hf_hub *h, const char *id, deadline_ms until, const struct cancel *cancel,
               json_t **out, struct err *err) {
    AUTO_FREE char *url = job_url(h, id, "");
    return url ? call_json(h, "look at a job", &(struct http_call){.url = url}, cancel, until, out,
                           err)
               : err_set(err, ERR_NOMEM, "out of memory");
}

static const char *stage_of(const json_t *job) {
    const char *stage = json_string_value(json_object_get(json_object_get(job, "status"), "stage"));
    return stage ? stage : "";
}

bool hf_hub_job_is_over(const json_t *job) {
    static const char *const ends[] = {"COMPLETED", "CANCELED", "ERROR", "DELETED"};
    for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
        if (strcmp(stage_of(job), ends[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* A job that the list lacks: over, or not listed yet. */
static int inspect(struct hf_hub *h, const char *id, deadline_ms until, const struct cancel *cancel,
                   enum hf_stage *out, struct buf *why, struct err *err) {
    AUTO_JSON json_t *job = NULL;
    int r = hf_hub_job(h, id, until, cancel, &job, err);
    if (r == ERR_NOT_FOUND) {
        *out = HF_OVER;
        return buf_adds(why, "the Hub knows no such job");
    }
    if (r < 0) {
        return r;
    }
    const char *message =
        json_string_value(json_object_get(json_object_get(job, "status"), "message"));
    *out = strcmp(stage_of(job), "RUNNING") == 0 ? HF_RUNNING : HF_WAITING;
    if (hf_hub_job_is_over(job)) {
        *out = HF_OVER;
        r = buf_addf(why, "the job is %s%s", stage_of(job), message ? ": " : "");
        r = r < 0 ? r : hf_answer_line(sv_from(message), MESSAGE_MAX, why);
        put_log(h, id, why);
    }
    return r;
}

int hf_hub_stage(struct hf_hub *h, const char *id, const struct hf_look *look, enum hf_stage *out,
                 struct buf *why, struct err *err) {
    char stage[STAGE_MAX];
    bool known = false;
    int r = stage_of_list(h, id, look, stage, &known, err);
    if (r < 0) {
        return r;
    }
    if (known && !stage[0]) {
        return inspect(h, id, look->until, look->cancel, out, why, err);
    }
    *out = strcmp(stage, "RUNNING") == 0 ? HF_RUNNING : HF_WAITING;
    return 0;
}
