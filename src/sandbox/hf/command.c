/* SPDX-License-Identifier: BSD-3-Clause */
#include "sandbox/hf/command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define CALL_S 60.0
#define ASK_MS 30000  /* Beyond the wait: some hundred KB are told at most. */
#define KILL_MS 12000 /* The guest takes 8 s at most. */
#define KILL_ATTEMPTS 4
#define RECORD_MAX 4096
/* A call waits so long for a command's end: what lies between may end a silent connection after
 * 30 s, and sbx-server ends itself when nobody has called for long. */
#define WAIT_MS 20000
#define TOLD_MAX (256u << 10) /* Of each stream with the end: the rest is read from its file. */
#define LINGER_MS "3"         /* The first generation loses what is told at the very end. */

char *hf_command_file(const struct hf_command *c, const char *name) {
    return mem_printf("%s/%s", c->folder, name);
}

int hf_command_init(struct hf *s, uint32_t user, const struct sandbox_exec *what, bool is_job,
                    deadline_ms until, struct hf_command *out, struct err *err) {
    if (what->input.n > SANDBOX_INPUT_MAX) {
        return err_set(err, ERR_LIMIT, "more than %u bytes of input", SANDBOX_INPUT_MAX);
    }
    struct hf_command c = {
        .sandbox = s,
        .number = atomic_fetch_add(&s->next, 1),
        .user = user,
        .clears = atomic_load(&s->clears),
        .output_max = what->output_max && what->output_max < TOLD_MAX ? what->output_max : TOLD_MAX,
    };
    c.folder = mem_printf("%s/%u", s->dir, c.number);
    int r = c.folder ? hf_command_spec(&c, what, is_job, until, err)
                     : err_set(err, ERR_NOMEM, "out of memory");
    if (r < 0) {
        hf_command_deinit(&c, /* is_over= */ false);
        return r;
    }
    *out = c;
    return 0;
}

void hf_command_deinit(struct hf_command *c, bool is_over) {
    struct hf *s = c->sandbox;
    if (is_over) {
        pthread_mutex_lock(&s->over_lock);
        if (s->n_over < HF_OVER_MAX) { /* What is more goes with the sandbox. */
            s->over[s->n_over++] = c->number;
        }
        pthread_mutex_unlock(&s->over_lock);
    }
    free(c->folder);
    if (c->parcel.data) {
        explicit_bzero(c->parcel.data, c->parcel.len); /* The command's secrets. */
    }
    buf_deinit(&c->parcel);
    *c = (struct hf_command){0};
}

/* --- a call --- */

/* Of those that are over: to be forgotten inside. Each is told once; if that is lost, they stay. */
static int take_over(struct hf *s, struct buf *out) {
    int r = 0;
    pthread_mutex_lock(&s->over_lock);
    for (size_t i = 0; r == 0 && i < s->n_over; i++) {
        r = buf_addf(out, "%s%u", i > 0 ? "," : "", s->over[i]);
    }
    s->n_over = 0;
    pthread_mutex_unlock(&s->over_lock);
    return r;
}

enum aim { TO_START, TO_END, TO_STOP };

struct call {
    enum aim aim;
    int64_t wait_ms; /* For the end. */
    const struct cancel *cancel;
    bool is_told; /* Given: the guest's word came whole. */
};

#define WORDS_MAX 16

/* Asks the guest. An error without `is_told` says nothing about the command. */
static int ask(struct hf_command *c, struct call *call, struct hf_report *out, struct err *err) {
    struct hf *s = c->sandbox;
    struct hf_events events = {0};
    AUTO_BUF struct buf over = {0};
    char wait[24];
    char output[24];
    (void)snprintf(wait, sizeof wait, "%lld", (long long)call->wait_ms);
    (void)snprintf(output, sizeof output, "%zu", c->output_max);
    const char *argv[WORDS_MAX] = {
        atomic_load(&s->program), "run", "--dir", c->folder, "--wait-ms", wait, "--output", output};
    size_t n = 8;
    bool has_spec = c->parcel.len > 0 && !atomic_load(&c->is_begun) && call->aim != TO_STOP;
    if (has_spec) {
        argv[n++] = "--stdin";
    }
    if (call->aim == TO_STOP) {
        argv[n++] = "--stop";
    }
    if (s->server.protocol == 1) {
        argv[n++] = "--linger-ms";
        argv[n++] = LINGER_MS;
    }
    if (take_over(s, &over) == 0 && over.len > 0) {
        argv[n++] = "--forget";
        argv[n++] = buf_cstr(&over);
    }
    struct hf_server_run run = {
        .argv = argv, .input = has_spec ? buf_sv(&c->parcel) : (struct sv){0}, .may_repeat = true};
    deadline_ms until = deadline_in_ms(call->wait_ms + ASK_MS);
    int r = hf_server_run(&s->server, &run, until, call->cancel, &events, err);
    r = r < 0 ? r : hf_report_open(buf_sv(&events.out), out, &call->is_told, err);
    if (r < 0 && !call->is_told && events.exit_code != 0) {
        r = err_set(err, ERR_PROTOCOL, "the guest gave %d: %s", events.exit_code,
                    buf_cstr(&events.err));
    }
    atomic_store(&c->is_begun, atomic_load(&c->is_begun) || (call->is_told && r == 0));
    hf_events_deinit(&events);
    return r;
}

/* What stands in its file. */
static int read_record(struct hf_command *c, const struct call *call, struct hf_report *out,
                       struct err *err) {
    AUTO_BUF struct buf b = {0};
    AUTO_FREE char *path = hf_command_file(c, "exit");
    struct hf_server_part part = {.path = path, .length = RECORD_MAX};
    int r = path ? hf_server_read(&c->sandbox->server, &part, deadline_in_s(CALL_S), call->cancel,
                                  &b, err)
                 : err_set(err, ERR_NOMEM, "out of memory");
    if (r < 0) {
        return r == ERR_NOT_FOUND ? 0 : r;
    }
    bool cleared = atomic_load(&c->sandbox->clears) != c->clears;
    r = hf_report_read(buf_sv(&b), out, err);
    if (r == 0 && cleared && !out->has_ended) { /* By kill_all of ours, with its keeper. */
        out->has_ended = true;
        out->exit_code = 137;
    }
    return r;
}

/* By the guest, else by the file. An error with `is_known` is the command's own. */
static int look(struct hf_command *c, struct call *call, struct hf_report *out, bool *is_known,
                struct err *err) {
    struct err unread = {0};
    int asked = ask(c, call, out, err);
    *is_known = asked == 0 || call->is_told;
    if (*is_known || asked == ERR_CANCELLED || asked == ERR_DENIED) {
        return asked;
    }
    int r = read_record(c, call, out, &unread);
    *is_known = out->is_there || (r < 0 && !hf_server_may_pass(r));
    if (r < 0 && *is_known && err) {
        *err = unread;
    }
    atomic_store(&c->is_begun, atomic_load(&c->is_begun) || out->is_there);
    return *is_known ? r : asked;
}

/* --- its course --- */

static int pause_for(int64_t *pause_ms, deadline_ms until, const struct cancel *cancel,
                     struct err *err) {
    int r = cancel_sleep(cancel, deadline_min(until, deadline_in_ms(*pause_ms)), err);
    *pause_ms = *pause_ms * 3 / 2 < HF_POLL_MAX_MS ? *pause_ms * 3 / 2 : HF_POLL_MAX_MS;
    return r;
}

static int64_t wait_of(enum aim aim, deadline_ms until) {
    int64_t left = aim == TO_START || deadline_passed(until) ? 0 : deadline_left_ms(until);
    return left < WAIT_MS ? left : WAIT_MS;
}

static int follow(struct hf_command *c, enum aim aim, deadline_ms until,
                  const struct cancel *cancel, struct hf_report *out, struct err *err) {
    struct hf *s = c->sandbox;
    int64_t pause_ms = HF_POLL_FIRST_MS;
    for (;;) {
        struct call call = {.aim = aim, .wait_ms = wait_of(aim, until), .cancel = cancel};
        bool is_known = false;
        if (cancel_thrown(s->torn_down)) {
            return err_set(err, ERR_LOST, "the sandbox was torn down");
        }
        hf_report_deinit(out);
        int r = look(c, &call, out, &is_known, err);
        int failures = is_known ? 0 : atomic_load(&c->failures) + 1;
        atomic_store(&c->failures, failures);
        bool is_over = r < 0 && (is_known || !hf_server_may_pass(r));
        if (is_over || failures >= HF_POLL_FAILURES) {
            return hf_explain(s, is_over ? r : ERR_LOST, err);
        }
        if (r == 0 && (out->has_ended || aim == TO_START)) {
            return 0;
        }
        if (deadline_passed(until)) {
            return err_set(err, ERR_TIMEOUT, "the command goes on");
        }
        bool has_waited = call.is_told && call.wait_ms >= HF_POLL_FIRST_MS;
        r = has_waited ? 0 : pause_for(&pause_ms, until, cancel, err);
        if (r < 0) {
            return r;
        }
    }
}

int hf_command_start(struct hf_command *c, deadline_ms until, const struct cancel *cancel,
                     struct err *err) {
    struct hf_report report = {0};
    int r = follow(c, TO_START, until, cancel, &report, err);
    hf_report_deinit(&report);
    return r;
}

int hf_command_wait(struct hf_command *c, deadline_ms until, const struct cancel *cancel,
                    struct hf_report *out, struct err *err) {
    return follow(c, TO_END, until, cancel, out, err);
}

int hf_command_kill(struct hf_command *c, struct err *err) {
    struct hf_report report = {0};
    int64_t pause_ms = HF_POLL_FIRST_MS;
    bool is_over = false;
    int r = ERR_UPSTREAM;
    for (int i = 0; i < KILL_ATTEMPTS && !is_over && (r >= 0 || hf_server_may_pass(r)); i++) {
        struct call call = {.aim = TO_STOP, .wait_ms = KILL_MS};
        bool is_known = false;
        r = i > 0 ? pause_for(&pause_ms, DEADLINE_NEVER, c->sandbox->torn_down, err) : 0;
        r = r < 0 ? r : look(c, &call, &report, &is_known, err);
        is_over = is_known && (r < 0 || report.has_ended); /* By its own error it never ran. */
        hf_report_deinit(&report);
    }
    if (is_over || r < 0) {
        return is_over ? 0 : hf_explain(c->sandbox, r, err);
    }
    return err_set(err, ERR_TIMEOUT, "the command would not end");
}
