/* SPDX-License-Identifier: BSD-3-Clause */
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/proc.h"
#include "net/listener.h"
#include "tests/doubles/hub/hub.h"

#define REACH_MAX 7 /* Beside the Hub's own port. */

struct arguments {
    const char *port_file;
    const char *log;
    const char *faults;
    uint16_t reach[REACH_MAX];
    unsigned long long start_ms;
};

static const char usage[] =
    "usage: snaffle-fake-hub --sbx PROGRAM --token TOKEN [--user NAME] [--sbx-words WORDS]\n"
    "                        [--layer DIR] [--reach PORT]... [--start-ms N] [--faults JSON] "
    "[--port-file FILE]\n"
    "                        [--log FILE] [--die-with-parent]\n"
    "Serves the Jobs API of the Hugging Face Hub on loopback, over local containers. Not the "
    "Hub.\n";

void hub_log(struct hub *h, json_t *line) {
    AUTO_BUF struct buf text = {0};
    json_object_set_new(line, "time", json_real(clock_unix()));
    if (h->log_fd >= 0 && json_compact(line, &text) == 0 && buf_addc(&text, '\n') == 0) {
        BUG_IF(fd_write_all(h->log_fd, text.data, text.len, DEADLINE_NEVER, NULL, NULL) < 0);
    }
    json_decref(line);
}

static int number(const char *name, unsigned long long max, unsigned long long *out,
                  struct err *err) {
    return sv_parse_u64(sv_from(optarg), max, out)
               ? 0
               : err_set(err, ERR_USAGE, "--%s: want a number up to %llu, got '%s'", name, max,
                         optarg);
}

static int parse_arguments(int argc, char **argv, struct hub *h, struct arguments *a,
                           struct err *err) {
    enum { SBX = 1, TOKEN, USER, WORDS, LAYER, REACH, START, FAULTS, PORT_FILE, LOG, DIE, HELP };
    static const struct option options[] = {
        {"sbx", required_argument, NULL, SBX},
        {"token", required_argument, NULL, TOKEN},
        {"user", required_argument, NULL, USER},
        {"sbx-words", required_argument, NULL, WORDS},
        {"layer", required_argument, NULL, LAYER},
        {"reach", required_argument, NULL, REACH},
        {"start-ms", required_argument, NULL, START},
        {"faults", required_argument, NULL, FAULTS},
        {"port-file", required_argument, NULL, PORT_FILE},
        {"log", required_argument, NULL, LOG},
        {"die-with-parent", no_argument, NULL, DIE},
        {"help", no_argument, NULL, HELP},
        {0},
    };
    unsigned long long port = 0;
    int r = 0;
    int c;
    while (r == 0 && (c = getopt_long(argc, argv, "", options, NULL)) != -1) {
        h->sbx = c == SBX ? optarg : h->sbx;
        h->token = c == TOKEN ? optarg : h->token;
        h->user = c == USER ? optarg : h->user;
        h->sbx_words = c == WORDS ? optarg : h->sbx_words;
        h->layer = c == LAYER ? optarg : h->layer;
        a->faults = c == FAULTS ? optarg : a->faults;
        a->port_file = c == PORT_FILE ? optarg : a->port_file;
        a->log = c == LOG ? optarg : a->log;
        if (c == REACH && h->n_reach == REACH_MAX) {
            r = err_set(err, ERR_USAGE, "--reach: at most %d ports", REACH_MAX);
        } else if (c == REACH) {
            r = number("reach", 65535, &port, err);
            a->reach[h->n_reach++] = (uint16_t)port;
        } else if (c == START) {
            r = number("start-ms", 600000, &a->start_ms, err);
        } else if (c == DIE) {
            (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
        } else if (c == HELP) {
            (void)fputs(usage, stdout);
            exit(0);
        } else if (c == '?') {
            r = err_set(err, ERR_USAGE, "see --help");
        }
    }
    if (r == 0 && (!h->sbx || !h->token)) {
        r = err_set(err, ERR_USAGE, "--sbx and --token are required");
    }
    return r;
}

static void raise_descriptor_limit(void) {
    struct rlimit r;
    if (getrlimit(RLIMIT_NOFILE, &r) == 0) {
        r.rlim_cur = r.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &r);
    }
}

static int listen_all(struct hub *h, struct err *err) {
    struct server_options api = {.on_request = jobs_on_request, .arg = h};
    struct listener_options proxy = {.on_accept = proxy_on_accept, .arg = h};
    int r = loop_new(&h->loop, err);
    r = r < 0 ? r : listener_new(h->loop, &proxy, &h->proxy, err);
    return r < 0 ? r : server_new(h->loop, &api, &h->api, err);
}

/* An overlay's layers may not lie in each other, and the machine's root is one. */
static int take_layer(struct hub *h, struct err *err) {
    AUTO_FREE char *copy = file_join(h->state, "layer");
    struct proc_result done = {0};
    if (!h->layer) {
        return 0;
    }
    const char *const argv[] = {"cp", "-a", h->layer, copy, NULL};
    int r = copy ? proc_run(&(struct proc_options){.argv = argv}, &done, err)
                 : err_set(err, ERR_NOMEM, "out of memory");
    if (r == 0 && done.exit_code != 0) {
        r = err_set(err, ERR_USAGE, "--layer: %s", buf_cstr(&done.err));
    }
    proc_result_deinit(&done);
    h->layer = TAKE(copy);
    return r;
}

static int serve(struct hub *h, const struct arguments *a, const sigset_t *ends, struct err *err) {
    if (a->log) {
        h->log_fd = open(a->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    }
    int r = json_parse(sv_from(a->faults ? a->faults : "[]"), "--faults", &h->faults, err);
    r = r < 0 ? r : container_ground(&h->state, err);
    r = r < 0 ? r : take_layer(h, err);
    r = r < 0 ? r : listen_all(h, err);
    if (r < 0) {
        return r;
    }
    unsigned port = server_port(h->api);
    AUTO_FREE char *text = mem_printf("%u\n", port);
    r = a->port_file ? file_write(a->port_file, sv_from(text), 0644, err) : 0;
    if (r < 0) {
        return r;
    }
    (void)printf("fake Hub (not the Hub) listening on http://127.0.0.1:%u\n", port);
    (void)fflush(stdout);
    int signal_number;
    (void)sigwait(ends, &signal_number);
    return 0;
}

static void leave(const struct hub *h) {
    if (h->state) {
        (void)umount2(h->state, MNT_DETACH);
        (void)rmdir(h->state);
    }
}

int main(int argc, char **argv) {
    struct hub h = {.user = "alice", .log_fd = -1};
    struct arguments a = {0};
    struct err err = {0};
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    sigprocmask(SIG_BLOCK, &ends, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
    raise_descriptor_limit();
    h.reach = a.reach;
    int r = parse_arguments(argc, argv, &h, &a, &err);
    h.start_ms = (int64_t)a.start_ms;
    r = r < 0 ? r : serve(&h, &a, &ends, &err);
    if (r < 0) {
        (void)fprintf(stderr, "snaffle-fake-hub: %s\n", err.msg);
    }
    leave(&h);
    _exit(r < 0 ? err_exit_status(r) : 0); /* Its jobs die with it. */
}
