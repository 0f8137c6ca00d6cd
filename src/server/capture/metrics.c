/* SPDX-License-Identifier: BSD-3-Clause */
/* The text format of Prometheus, version 0.0.4. */
#include <unistd.h>

#include "base/file.h"
#include "server/capture/server.h"

#define P "snaffle_gateway_"
#define STATM_MAX 256 /* Seven numbers. */

static int put(struct buf *b, const char *name, const char *kind, const char *help, double value) {
    return buf_addf(b, "# HELP " P "%s %s\n# TYPE " P "%s %s\n" P "%s %.17g\n", name, help, name,
                    kind, name, value);
}

static int put_calls(struct buf *b, const struct gateway_stats *s) {
    int rc = put(b, "calls_begun_total", "counter", "Requests for a model that were understood.",
                 (double)s->calls);
    rc = rc < 0 ? rc
                : buf_addf(
                      b,
                      "# HELP " P "calls_total Calls that are over, by how they ended.\n"
                      "# TYPE " P "calls_total counter\n" P "calls_total{end=\"complete\"} %llu\n" P
                      "calls_total{end=\"error\"} %llu\n" P
                      "calls_total{end=\"client_abort\"} %llu\n" P
                      "calls_total{end=\"upstream_abort\"} %llu\n",
                      (unsigned long long)s->ended_complete, (unsigned long long)s->ended_error,
                      (unsigned long long)s->client_aborts, (unsigned long long)s->upstream_aborts);
    rc = rc < 0 ? rc
                : put(b, "calls_stored_total", "counter", "Calls with their result in the journal.",
                      (double)s->calls_stored);
    rc = rc < 0 ? rc
                : put(b, "calls_lost_total", "counter",
                      "Calls of which the journal refused a record.", (double)s->calls_lost);
    rc = rc < 0 ? rc
                : put(b, "calls_moved_total", "counter",
                      "Calls that another engine took, since theirs refused the connection.",
                      (double)s->moved);
    rc = rc < 0 ? rc
                : put(b, "requests_refused_total", "counter",
                      "Requests answered with an error by the gateway itself.", (double)s->refused);
    rc = rc < 0 ? rc : put(b, "calls_open", "gauge", "Calls under way.", (double)s->calls_open);
    rc = rc < 0 ? rc
                : put(b, "calls_unstored", "gauge",
                      "Calls begun less those stored: under way, passed on unrecorded, or lost.",
                      (double)(s->calls - s->calls_stored));
    return rc < 0 ? rc : put(b, "sessions", "gauge", "Sessions open.", (double)s->sessions);
}

static int put_tokens(struct buf *b, const struct gateway_stats *s) {
    return buf_addf(b,
                    "# HELP " P "tokens_total Tokens, as usage or the ids say.\n"
                    "# TYPE " P "tokens_total counter\n" P "tokens_total{kind=\"prompt\"} %llu\n" P
                    "tokens_total{kind=\"completion\"} %llu\n",
                    (unsigned long long)s->prompt_tokens, (unsigned long long)s->completion_tokens);
}

static int put_times(struct buf *b, const struct gateway_times *t) {
    uint64_t n = 0;
    int rc = buf_adds(b, "# HELP " P "added_seconds What the gateway added to a call's duration.\n"
                         "# TYPE " P "added_seconds histogram\n");
    for (unsigned i = 0; i < GATEWAY_TIMES && rc == 0; i++) {
        n += t->counts[i];
        if (i < GATEWAY_TIMES - 1) {
            rc = buf_addf(b, P "added_seconds_bucket{le=\"%g\"} %llu\n",
                          (double)gateway_time_bounds_us[i] / 1e6, (unsigned long long)n);
        }
    }
    return rc < 0 ? rc
                  : buf_addf(b,
                             P "added_seconds_bucket{le=\"+Inf\"} %llu\n" P
                               "added_seconds_sum %.6f\n" P "added_seconds_count %llu\n",
                             (unsigned long long)n, (double)t->sum_us / 1e6, (unsigned long long)n);
}

/* Resident bytes; 0 where /proc is not there, as in an empty root. */
static double resident_bytes(void) {
    AUTO_BUF struct buf text = {0};
    unsigned long long pages = 0;
    if (file_read("/proc/self/statm", STATM_MAX, &text, NULL) < 0) {
        return 0;
    }
    struct sv rest = buf_sv(&text);
    size_t blank = sv_find(rest, SV(" "));
    rest = blank == (size_t)-1 ? (struct sv){0} : sv_cut(rest, blank + 1);
    rest.n = sv_find(rest, SV(" ")) == (size_t)-1 ? 0 : sv_find(rest, SV(" "));
    return sv_parse_u64(rest, UINT64_MAX / 2, &pages)
               ? (double)pages * (double)sysconf(_SC_PAGESIZE)
               : 0;
}

struct upstream_lines {
    struct buf *out;
    bool calls; /* Else whether they can be asked. */
};

/* A URL has no user info and no control bytes; quotes and backslashes are escaped all the same. */
static int put_label(struct buf *b, const char *text) {
    int rc = 0;
    for (; *text && rc == 0; text++) {
        rc = *text == '"' || *text == '\\' ? buf_addf(b, "\\%c", *text) : buf_addc(b, *text);
    }
    return rc;
}

static int put_upstream(void *arg, const struct gateway_upstream *u) {
    const struct upstream_lines *l = arg;
    int rc = buf_addf(l->out, P "upstream_%s{upstream=\"", l->calls ? "calls" : "up");
    rc = rc < 0 ? rc : put_label(l->out, u->url);
    return rc < 0 ? rc : buf_addf(l->out, "\"} %u\n", l->calls ? u->calls : !u->is_out);
}

static int put_upstreams(struct capture *c, struct buf *b) {
    int rc = buf_adds(b, "# HELP " P "upstream_calls Calls under way, by engine.\n"
                         "# TYPE " P "upstream_calls gauge\n");
    rc = rc < 0
             ? rc
             : gateway_list_upstreams(c->gateway, put_upstream, &(struct upstream_lines){b, true});
    rc = rc < 0 ? rc
                : buf_adds(b, "# HELP " P "upstream_up 0: it refuses connections and is left out.\n"
                              "# TYPE " P "upstream_up gauge\n");
    return rc < 0 ? rc
                  : gateway_list_upstreams(c->gateway, put_upstream,
                                           &(struct upstream_lines){b, false});
}

int metrics_show(struct capture *c, struct reply *out, struct err *err) {
    struct gateway_stats s;
    struct buf *b = &out->body;
    gateway_stats(c->gateway, &s);
    int rc = put_calls(b, &s);
    rc = rc < 0 ? rc : put_tokens(b, &s);
    rc = rc < 0 ? rc : put_times(b, &s.added);
    rc = rc < 0 ? rc : put_upstreams(c, b);
    rc = rc < 0 ? rc
                : put(b, "resident_memory_bytes", "gauge", "The process's resident memory.",
                      resident_bytes());
    rc = rc < 0 ? rc
                : put(b, "start_time_seconds", "gauge", "When it started, since 1970.", c->started);
    out->status = 200;
    out->type = "text/plain; version=0.0.4; charset=utf-8";
    return rc < 0 ? err_set(err, rc, "out of memory") : 0;
}
