/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/batch_live.h"

#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "cli/text.h"

#define SAY_EVERY_S 10.0     /* The line of all, where nothing is redrawn: a log stays short. */
#define NAME_WIDTH 32        /* Of a rollout's name in its line; the longer are cut, and ... */
#define NAME_WIDTH_NARROW 14 /* ... on a terminal of less than 80 columns. */

void batch_live_init(struct batch_live *l, FILE *stream, size_t columns, bool colour, bool quiet) {
    *l = (struct batch_live){.stream = stream,
                             .columns = columns > 1 ? columns : 0,
                             .colour = colour,
                             .quiet = quiet,
                             .next_said = SAY_EVERY_S};
}

/* "4 running (3 agent, 1 verify)" */
static int put_running(const struct batch_totals *t, struct buf *out) {
    int r = buf_addf(out, ", %zu running", t->running);
    const char *before = " (";
    for (int phase = 0; phase < ROLLOUT_PHASE_COUNT && r == 0; phase++) {
        if (t->in_phase[phase] > 0) {
            r = buf_addf(out, "%s%zu %s", before, t->in_phase[phase],
                         rollout_phase_name((enum rollout_phase)phase));
            before = ", ";
        }
    }
    return r < 0 || before[0] == ' ' ? r : buf_adds(out, ")");
}

/* "12 of 48 done (2 failed), 4 running (3 agent, 1 verify), 1 to be tried again, 36 s left" */
static int put_counts(const struct batch_view *v, struct buf *out) {
    const struct batch_totals *t = &v->totals;
    char left[32];
    int r = buf_addf(out, "%zu of %zu done", t->ok + t->failed + t->cancelled, t->rollouts);
    if (r == 0 && t->failed > 0) {
        r = buf_addf(out, " (%zu failed)", t->failed);
    }
    r = r < 0 ? r : put_running(t, out);
    if (r == 0 && t->resting > 0) {
        r = buf_addf(out, ", %zu to be tried again", t->resting);
    }
    if (r == 0 && v->eta_s > 0) {
        text_duration(v->eta_s, left);
        r = buf_addf(out, ", %s left", left);
    }
    return r;
}

/* "reward 0.500, 30 calls, 1.5k tokens, 80.0 tokens/s" */
static int put_figures(const struct batch_view *v, struct buf *out) {
    const struct batch_totals *t = &v->totals;
    char tokens[16];
    text_amount((double)t->own_tokens, tokens);
    int r =
        t->rewarded > 0 ? buf_addf(out, "reward %.3f, ", t->reward_sum / (double)t->rewarded) : 0;
    r = r < 0 ? r : buf_addf(out, "%llu calls, %s tokens", t->calls, tokens);
    if (r == 0 && v->tokens_per_s > 0) {
        r = buf_addf(out, ", %.1f tokens/s", v->tokens_per_s);
    }
    return r;
}

static void put_line(struct batch_live *l, struct sv line, bool strong) {
    struct sv front = text_front(line, l->columns - 1);
    (void)fprintf(l->stream, "\r\033[K%s%.*s%s\n", strong && l->colour ? "\033[1m" : "",
                  SV_ARG(front), strong && l->colour ? "\033[0m" : "");
    l->drawn++;
}

static void put_row(struct batch_live *l, const struct batch_row *row) {
    AUTO_BUF struct buf line = {0};
    char elapsed[32];
    char tokens[16];
    int width = l->columns < 80 ? NAME_WIDTH_NARROW : NAME_WIDTH;
    text_duration(row->elapsed_s, elapsed);
    text_amount((double)row->completion_tokens, tokens);
    if (buf_addf(&line, "  %-*.*s %-9s %9s %5llu calls %7s tokens", width, width, row->rollout,
                 rollout_phase_name(row->phase), elapsed, row->calls, tokens) == 0) {
        put_line(l, buf_sv(&line), false);
    }
}

/* Back to the block's first line. */
static void go_up(struct batch_live *l) {
    if (l->drawn > 0) {
        (void)fprintf(l->stream, "\r\033[%zuA", l->drawn);
    }
    l->drawn = 0;
}

static void clear(struct batch_live *l) {
    if (l->drawn > 0) {
        go_up(l);
        (void)fputs("\033[J", l->stream);
    }
}

static void draw(struct batch_live *l, const struct batch_view *v, struct sv counts,
                 struct sv figures) {
    go_up(l);
    put_line(l, counts, true);
    put_line(l, figures, false);
    for (size_t i = 0; i < v->n_rows; i++) {
        put_row(l, &v->rows[i]);
    }
    if (v->totals.running > v->n_rows) {
        AUTO_BUF struct buf more = {0};
        if (buf_addf(&more, "  and %zu more", v->totals.running - v->n_rows) == 0) {
            put_line(l, buf_sv(&more), false);
        }
    }
    (void)fputs("\033[J", l->stream);
    (void)fflush(l->stream);
}

void batch_live_tick(void *live, const struct batch_view *v) {
    struct batch_live *l = live;
    AUTO_BUF struct buf counts = {0};
    AUTO_BUF struct buf figures = {0};
    char elapsed[32];
    text_duration(v->elapsed_s, elapsed);
    if (l->quiet || buf_addf(&counts, "[%s] ", elapsed) < 0 || put_counts(v, &counts) < 0 ||
        put_figures(v, &figures) < 0) {
        return;
    }
    if (l->columns > 0) {
        draw(l, v, buf_sv(&counts), buf_sv(&figures));
    } else if (v->elapsed_s >= l->next_said) {
        l->next_said = v->elapsed_s + SAY_EVERY_S;
        (void)fprintf(l->stream, "%s, %s\n", buf_cstr(&counts), buf_cstr(&figures));
        (void)fflush(l->stream);
    }
}

/* "binary-search-3: ok, reward 1.00, 3 calls, 432 tokens, 6.2 s" */
static int ended_line(const struct batch_item *item, struct buf *out) {
    char took[32];
    char tokens[16];
    text_duration(item->wall_s, took);
    text_amount((double)item->completion_tokens, tokens);
    int r = buf_addf(out, "%s: %s%s%s", item->rollout, item->status, item->cause ? ", " : "",
                     item->cause ? item->cause : "");
    if (r == 0 && item->has_reward) {
        r = buf_addf(out, ", reward %.2f", item->reward);
    }
    r = r < 0 ? r : buf_addf(out, ", %llu calls, %s tokens, %s", item->calls, tokens, took);
    if (r == 0 && item->error) {
        r = buf_adds(out, ": ");
        r = r < 0 ? r : text_printable(sv_from(item->error), out);
    }
    return r;
}

void batch_live_ended(void *live, const struct batch_item *item) {
    struct batch_live *l = live;
    AUTO_BUF struct buf line = {0};
    bool failed = item->status && strcmp(item->status, "ok") != 0;
    /* On a terminal the block counts them; only what went wrong is worth a line that stays. */
    if (l->quiet || (l->columns > 0 && !failed) || ended_line(item, &line) < 0) {
        return;
    }
    clear(l);
    (void)fprintf(l->stream, "%s\n", buf_cstr(&line));
    (void)fflush(l->stream);
}

void batch_live_end(struct batch_live *l) {
    clear(l);
    (void)fflush(l->stream);
}
