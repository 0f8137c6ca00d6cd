/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/progress.h"

#include <string.h>

#include "base/buf.h"
#include "cli/text.h"

#define PROGRESS_DELAY_S 0.5 /* What is over by then needs no line. */
#define RATE_AFTER_S 1.0     /* Tokens per second mean nothing before. */

void progress_init(struct progress *p, FILE *stream, size_t columns, bool quiet) {
    *p = (struct progress){.stream = stream, .columns = columns, .quiet = quiet};
}

static int put_figures(const struct progress *p, const struct rollout_event *e, struct buf *line) {
    char tokens[16];
    double running_s = p->agent_began ? e->elapsed_s - p->agent_from_s : 0;
    if (e->calls == 0 || e->phase != ROLLOUT_PHASE_AGENT) {
        return 0;
    }
    text_amount((double)e->completion_tokens, tokens);
    int r = buf_addf(line, ", %llu call%s, %s tokens", (unsigned long long)e->calls,
                     e->calls == 1 ? "" : "s", tokens);
    if (r == 0 && running_s >= RATE_AFTER_S) {
        r = buf_addf(line, ", %.1f tokens/s", (double)e->completion_tokens / running_s);
    }
    return r;
}

static int put_text(const struct progress *p, const struct rollout_event *e, struct buf *line) {
    char elapsed[32];
    text_duration(e->elapsed_s, elapsed);
    int r = buf_addf(line, "[%s] ", elapsed);
    if (r == 0) {
        r = text_printable(sv_from(e->text), line);
    }
    if (r == 0) {
        r = put_figures(p, e, line);
    }
    if (r == 0 && e->detail) {
        r = buf_adds(line, ": ");
        r = r < 0 ? r : text_printable(sv_from(e->detail), line);
    }
    return r;
}

/* Redraws the one line; blanks cover what was longer before. */
static void draw(struct progress *p, struct sv line) {
    struct sv front = text_front(line, p->columns - 1);
    size_t width = text_width(front);
    int blanks = p->drawn > width ? (int)(p->drawn - width) : 0;
    (void)fprintf(p->stream, "\r%.*s%*s", SV_ARG(front), blanks, "");
    (void)fflush(p->stream);
    p->drawn = width;
}

void progress_event(void *arg, const struct rollout_event *e) {
    struct progress *p = arg;
    AUTO_BUF struct buf line = {0};
    if (e->phase == ROLLOUT_PHASE_AGENT && !p->agent_began) {
        p->agent_began = true;
        p->agent_from_s = e->elapsed_s;
    }
    bool live = p->columns > 1;
    if (p->quiet || (live ? e->elapsed_s < PROGRESS_DELAY_S : e->tick)) {
        return;
    }
    if (put_text(p, e, &line) < 0) {
        return; /* Out of memory: the work itself will say so. */
    }
    if (live) {
        draw(p, buf_sv(&line));
    } else {
        (void)fprintf(p->stream, "%s\n", buf_cstr(&line));
        (void)fflush(p->stream);
    }
}

void progress_end(struct progress *p) {
    if (p->drawn > 0) {
        (void)fprintf(p->stream, "\r%*s\r", (int)p->drawn, "");
        (void)fflush(p->stream);
        p->drawn = 0;
    }
}
