/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * snaffle-sbx-double: what stands for sbx-server inside a job of the fake Hub. It reads SBX_TOKEN,
 * SBX_PORT and SBX_IDLE_TIMEOUT as the real one does, and FAKE_SBX (such as "protocol=1
 * lose-output idle-ms=2000") for its generation, its faults and another limit of idleness.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/doubles/hub/sbx.h"

#define WATCH_MS 100          /* The real one looks for idleness every 5 s. */
#define IDLE_CONNECTION 10000 /* Generation 2's patience with a connection that is kept. */

static int protocol_of(const char *words) {
    const char *at = words ? strstr(words, "protocol=") : NULL;
    return at ? at[strlen("protocol=")] - '0' : 3;
}

static long number_of(const char *name, long otherwise) {
    const char *text = getenv(name);
    return text ? strtol(text, NULL, 10) : otherwise;
}

static int64_t idle_ms_of(const char *words) {
    const char *at = words ? strstr(words, "idle-ms=") : NULL;
    return at ? strtol(at + strlen("idle-ms="), NULL, 10)
              : (int64_t)number_of("SBX_IDLE_TIMEOUT", 0) * 1000;
}

struct ask {
    struct sbx *sbx;
    bool idle;
};

static void look(void *arg) {
    struct ask *a = arg;
    struct sbx *s = a->sbx;
    sbx_end_late_processes(s);
    bool busy = sbx_has_processes(s) || (s->protocol > 1 && s->executing > 0);
    a->idle = s->idle_ms > 0 && !busy && clock_ms() - s->active_ms > s->idle_ms;
}

int main(void) {
    const char *words = getenv("FAKE_SBX");
    const char *token = getenv("SBX_TOKEN");
    struct sbx s = {
        .protocol = protocol_of(words),
        .loses_output = words && strstr(words, "lose-output"),
        .token = strdup(token ? token : ""),
        .idle_ms = idle_ms_of(words),
        .started_ms = clock_ms(),
        .active_ms = clock_ms(),
    };
    unsetenv("SBX_TOKEN"); /* Commands inherit the rest. */
    unsetenv("FAKE_SBX");
    (void)signal(SIGPIPE, SIG_IGN);
    struct err err = {0};
    struct server *server = NULL;
    struct server_options o = {
        .host = "0.0.0.0",
        .port = (uint16_t)number_of("SBX_PORT", 49983),
        .body_max_of = sbx_body_max,
        .never_continues = true,
        .on_request = sbx_on_request,
        .arg = &s,
        .idle_ms = s.protocol > 1 ? IDLE_CONNECTION : 0,
        .tells_idle = s.protocol > 1,
    };
    if (loop_new(&s.loop, &err) < 0 || server_new(s.loop, &o, &server, &err) < 0) {
        (void)fprintf(stderr, "snaffle-sbx-double: %s\n", err.msg);
        return 1;
    }
    (void)printf("sbx double, protocol %d, listening on 0.0.0.0:%u\n", s.protocol, o.port);
    (void)fflush(stdout);
    struct ask a = {.sbx = &s};
    do {
        clock_sleep_ms(WATCH_MS);
        loop_call(s.loop, look, &a);
    } while (!a.idle);
    (void)printf("idle for %lld s: the end\n", (long long)(s.idle_ms / 1000));
    (void)fflush(stdout);
    _exit(0);
}
