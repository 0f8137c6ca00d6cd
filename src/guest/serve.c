/* SPDX-License-Identifier: BSD-3-Clause */
#include "guest/serve.h"

#include <errno.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "guest/relay.h"
#include "guest/self.h"
#include "guest/server.h"

#define MODEL_PORT 7000
/* Descriptors for the calls (two each) and the commands (four each) of a busy rollout. */
#define OTHER_FILES 512

struct guest {
    struct loop loop;
    struct server server;
    struct relay relay;
    struct self_signals signals;
};

static void on_child(void *arg) {
    struct guest *g = arg;
    jobs_reap(&g->server.jobs);
}

static void on_end(void *arg) {
    struct guest *g = arg;
    server_end(&g->server, 0);
}

static int open_relay(struct guest *g, const struct serve_options *o, unsigned long files,
                      struct err *err) {
    unsigned long pairs = files > OTHER_FILES ? (files - OTHER_FILES) / 2 : files / 4;
    struct relay_options options = {
        .socket_path = o->model_socket,
        .port = o->model_port ? o->model_port : MODEL_PORT,
        .max = pairs < RELAY_PAIRS_MAX ? (unsigned)pairs : RELAY_PAIRS_MAX,
    };
    return relay_open(&g->relay, &g->loop, &options, err);
}

static int say_ready(int fd, struct err *err) {
    ssize_t n = fd < 0 ? 1 : write(fd, "+", 1);
    if (n != 1) {
        return err_sys(err, ERR_SYS, errno, "cannot write to the ready descriptor");
    }
    mem_auto_close(&fd);
    return 0;
}

static int begin(struct guest *g, const struct serve_options *o, struct err *err) {
    int kept[2] = {o->listen_fd, o->ready_fd};
    self_close_strays(kept, ARRAY_LEN(kept));
    g->signals.on_child = on_child;
    g->signals.on_end = on_end;
    g->signals.arg = g;
    g->server.silence_ms = o->silence_ms;
    g->server.limits = o->limits;
    int r = self_harden(err);
    if (r == 0) {
        r = self_limit_processes(o->processes, err);
    }
    if (r == 0) {
        r = self_catch_signals(&g->signals, &g->loop, err);
    }
    if (r == 0) { /* Keeps the limit that commands get, which is raised after. */
        r = server_init(&g->server, &g->loop, o->listen_fd, err);
    }
    unsigned long files = fd_raise_limit();
    if (r == 0 && o->model_socket) {
        r = open_relay(g, o, files, err);
    }
    return r < 0 ? r : say_ready(o->ready_fd, err);
}

int serve(const struct serve_options *options, struct err *err) {
    static struct guest guest; /* One a process; it lives as long. */
    int r = begin(&guest, options, err);
    if (r == 0) {
        r = loop_run(&guest.loop, err);
    }
    if (r < 0) {
        return r;
    }
    if (options->model_socket) {
        relay_close(&guest.relay);
    }
    server_deinit(&guest.server);
    loop_deinit(&guest.loop);
    return guest.server.exit_status;
}
