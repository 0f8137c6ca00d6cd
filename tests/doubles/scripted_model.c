/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The scripted model: an HTTP server that answers chat requests the way vLLM does, with words from
 * a script. It says everywhere that it is no real model.
 */
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "tests/doubles/scripted_routes.h"

struct arguments {
    const char *script;
    const char *log;
    const char *voice;
    const char *port_file;
    unsigned long long port;
};

static const char usage[] =
    "usage: snaffle-scripted-model [--script FILE] [--port N] [--port-file FILE] [--log FILE]\n"
    "                              [--die-with-parent] [--personality NAME]\n"
    "Serves scripted answers as vLLM would stream them. Not a real model.\n";

static int parse_arguments(int argc, char **argv, struct arguments *a, struct err *err) {
    enum { SCRIPT = 1, PORT, PORT_FILE, LOG, DIE, HELP, VOICE };
    static const struct option options[] = {
        {"script", required_argument, NULL, SCRIPT},
        {"port", required_argument, NULL, PORT},
        {"port-file", required_argument, NULL, PORT_FILE},
        {"log", required_argument, NULL, LOG},
        {"die-with-parent", no_argument, NULL, DIE},
        {"personality", required_argument, NULL, VOICE},
        {"help", no_argument, NULL, HELP},
        {0},
    };
    int c;
    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (c == PORT && !sv_parse_u64(sv_from(optarg), 65535, &a->port)) {
            return err_set(err, ERR_USAGE, "--port: want a number up to 65535, got '%s'", optarg);
        }
        if (c == HELP) {
            (void)fputs(usage, stdout);
            exit(0);
        }
        if (c == '?') {
            return err_set(err, ERR_USAGE, "see --help");
        }
        if (c == DIE) {
            (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
        }
        a->script = c == SCRIPT ? optarg : a->script;
        a->voice = c == VOICE ? optarg : a->voice;
        a->log = c == LOG ? optarg : a->log;
        a->port_file = c == PORT_FILE ? optarg : a->port_file;
    }
    return optind < argc ? err_set(err, ERR_USAGE, "'%s' is not an option", argv[optind]) : 0;
}

/* A thousand streams need a thousand descriptors; the soft limit is often 1,024. */
static void raise_descriptor_limit(void) {
    struct rlimit r;
    if (getrlimit(RLIMIT_NOFILE, &r) == 0) {
        r.rlim_cur = r.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &r); /* Then it serves as many as it may. */
    }
}

/* The file first: whoever has read the line finds it. */
static int announce(const struct arguments *a, unsigned port, struct err *err) {
    AUTO_FREE char *text = mem_printf("%u\n", port);
    int r = a->port_file ? file_write(a->port_file, sv_from(text), 0644, err) : 0;
    if (r == 0) {
        (void)printf("scripted model (not a real model) listening on http://127.0.0.1:%u/v1\n",
                     port);
        (void)fflush(stdout);
    }
    return r;
}

/* Serves until a signal asks for the end. */
static int serve(const struct arguments *a, const sigset_t *ends, struct err *err) {
    struct routes routes = {.log_fd = -1, .started = (long long)clock_unix()};
    struct loop *loop = NULL;
    struct server *server = NULL;
    if (a->log) {
        routes.log_fd = open(a->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
        if (routes.log_fd < 0) {
            return err_set(err, ERR_INPUT, "--log: cannot open '%s'", a->log);
        }
    }
    int r = script_load(a->script, &routes.script, err);
    r = r < 0 || !a->voice ? r : script_set_voice(&routes.script, a->voice, err);
    r = r < 0 ? r : loop_new(&loop, err);
    struct server_options o = {
        .port = (uint16_t)a->port, .on_request = routes_on_request, .arg = &routes};
    r = r < 0 ? r : server_new(loop, &o, &server, err);
    r = r < 0 ? r : announce(a, server_port(server), err);
    if (r == 0) {
        int signal_number;
        (void)sigwait(ends, &signal_number);
    }
    if (server) {
        server_free(server);
    }
    if (loop) {
        loop_free(loop);
    }
    script_deinit(&routes.script);
    mem_auto_close(&routes.log_fd);
    return r;
}

int main(int argc, char **argv) {
    struct arguments a = {0};
    struct err err = {0};
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    sigprocmask(SIG_BLOCK, &ends, NULL); /* Inherited by the loop's thread. */
    raise_descriptor_limit();
    int r = parse_arguments(argc, argv, &a, &err);
    r = r < 0 ? r : serve(&a, &ends, &err);
    if (r < 0) {
        (void)fprintf(stderr, "snaffle-scripted-model: %s\n", err.msg);
    }
    return r < 0 ? err_exit_status(r) : 0;
}
