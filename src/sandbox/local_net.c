/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <fcntl.h>
#include <linux/nsfs.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/proc.h"
#include "sandbox/local.h"
#include "sandbox/spawner.h"

/*
 * A full network: a program of the host, pasta or slirp4netns, plays the network card's other end
 * inside the sandbox's own namespace and makes the connections outside as the host's own. It is
 * attached while bwrap still holds the payload, with the ways to the host's loopback shut.
 */

#define ROUTES_MAX 65536 /* /proc/net/route: a line a route, and there are two. */
#define LOOK_MS 2        /* Both programs need 5 to 80 ms. */
#define ATTACH_MS 30000  /* On a machine under load. */
#define WORDS_MAX 1024   /* Of the program's complaint. */
#define NETNS_INSIDE "/proc/self/fd/3"
#define USERNS_INSIDE "/proc/self/fd/4"

void local_net_deinit(struct local_net *net) {
    free(net->program);
    *net = (struct local_net){0};
}

int local_net_find(struct local_net *out, struct err *err) {
    AUTO_FREE char *pasta = local_is_without("pasta") ? NULL : proc_find("pasta");
    AUTO_FREE char *slirp = pasta ? NULL : proc_find("slirp4netns");
    if (!pasta && !slirp) {
        return err_set(err, ERR_ENVIRONMENT,
                       "a sandbox with a full network needs the program 'pasta' or 'slirp4netns' "
                       "(install the package passt or slirp4netns)");
    }
    if (access("/dev/net/tun", R_OK | W_OK) < 0) {
        return err_sys(err, ERR_ENVIRONMENT, errno,
                       "a sandbox with a full network needs /dev/net/tun (run `modprobe tun`, and "
                       "`chmod 0666 /dev/net/tun` for ordinary users)");
    }
    out->is_pasta = pasta != NULL;
    out->program = pasta ? TAKE(pasta) : TAKE(slirp);
    return 0;
}

/* The payload's network namespace, and the user namespace that owns it: bwrap has moved the payload
 * on into a second one, which has no say over the network. */
static int open_namespaces(pid_t payload, int *out_net, int *out_user, struct err *err) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/ns/net", (int)payload);
    AUTO_CLOSE int net = open(path, O_RDONLY | O_CLOEXEC);
    AUTO_CLOSE int user = net < 0 ? -1 : ioctl(net, NS_GET_USERNS);
    if (user < 0) {
        return err_sys(err, ERR_ENVIRONMENT, errno, "cannot reach the sandbox's network");
    }
    *out_net = TAKE_FD(net);
    *out_user = TAKE_FD(user);
    return 0;
}

/* The same addresses by both programs: the sandbox is 10.0.2.100, its router 10.0.2.2. No port of
 * either side is forwarded, and the router's address does not lead to the host. */
static const char *const pasta_root[] = {"pasta",
                                         "--runas",
                                         "0",
                                         "--config-net",
                                         "--foreground",
                                         "--stderr",
                                         "--tcp-ports",
                                         "none",
                                         "--udp-ports",
                                         "none",
                                         "--tcp-ns",
                                         "none",
                                         "--udp-ns",
                                         "none",
                                         "--no-map-gw",
                                         "--address",
                                         "10.0.2.100",
                                         "--netmask",
                                         "24",
                                         "--gateway",
                                         "10.0.2.2",
                                         "--dns-forward",
                                         LOCAL_NET_RESOLVER,
                                         "--userns",
                                         USERNS_INSIDE,
                                         "--netns",
                                         NETNS_INSIDE,
                                         NULL};
static const char *const slirp_root[] = {"slirp4netns",
                                         "--enable-sandbox",
                                         "--configure",
                                         "--mtu=65520",
                                         "--disable-host-loopback",
                                         "--enable-seccomp",
                                         "--userns-path=" USERNS_INSIDE,
                                         "--netns-type=path",
                                         NETNS_INSIDE,
                                         "tap0",
                                         NULL};

/* A guard starts it, since joining the sandbox's user namespace costs it its parent-death signal.
 * Both are named after the sandbox: a sweep finds what a killed guard leaves. It tells which of its
 * programs pasta is by its name. It holds both ends of `words`: it goes on speaking after we have
 * stopped to listen, and a pipe without a reader would end it. */
static int spawn_helper(const struct local *l, const struct local_net *net, pid_t payload,
                        const int words[2], pid_t *out, struct err *err) {
    AUTO_CLOSE int netns = -1;
    AUTO_CLOSE int userns = -1;
    int r = open_namespaces(payload, &netns, &userns, err);
    if (r < 0) {
        return r;
    }
    char own_name[64];
    char name[80];
    snprintf(own_name, sizeof own_name, BOX_PROCESS_NAME "%s", l->box.id);
    snprintf(name, sizeof name, "%s-%s", own_name, (net->is_pasta ? pasta_root : slirp_root)[0]);
    /* Only root can be told to stay root, and only root's slirp4netns can shut itself in. */
    const char *argv[4 + ARRAY_LEN(pasta_root)] = {own_name, "guard", net->program, name};
    const char *const *from = net->is_pasta ? pasta_root : slirp_root;
    size_t n = 4;
    for (size_t i = 1; from[i]; i++) {
        bool only_root = i == 1 || (net->is_pasta && i == 2);
        if (!only_root || geteuid() == 0) {
            argv[n++] = from[i];
        }
    }
    argv[n] = NULL;
    struct spawn what = {
        .program = l->guest_program,
        .argv = argv,
        .fds = {netns, userns, words[0]},
        .n_fds = 3,
        .stderr_fd = words[1],
    };
    return spawner_start(&what, out, err);
}

/* Both configure a default route last of all. */
static bool is_up(pid_t payload) {
    char path[64];
    AUTO_BUF struct buf routes = {0};
    snprintf(path, sizeof path, "/proc/%d/net/route", (int)payload);
    return file_read(path, ROUTES_MAX, &routes, NULL) == 0 &&
           sv_find(buf_sv(&routes), SV("\t00000000\t")) != (size_t)-1;
}

static int explain(const struct local_net *net, int words, struct err *err) {
    char text[WORDS_MAX];
    ssize_t n = read(words, text, sizeof text);
    size_t len = n > 0 ? (size_t)n : 0;
    while (len > 0 && text[len - 1] == '\n') {
        len--;
    }
    const char *line = memrchr(text, '\n', len);
    line = line ? line + 1 : text;
    return err_set(err, ERR_ENVIRONMENT, "'%s' could not make the sandbox's network: '%.*s'",
                   net->program, (int)(text + len - line), line);
}

static int await_up(const struct local *l, const struct local_net *net, pid_t payload, int words,
                    deadline_ms until, const struct cancel *cancel, pid_t *helper,
                    struct err *err) {
    deadline_ms patience = deadline_in_ms(ATTACH_MS);
    while (!is_up(payload)) {
        if (waitpid(*helper, NULL, WNOHANG) != 0) {
            *helper = 0;
            return explain(net, words, err);
        }
        if (deadline_passed(patience)) {
            return err_set(err, ERR_ENVIRONMENT, "'%s' did not bring the sandbox's network up",
                           net->program);
        }
        struct pollfd none = {.fd = -1};
        struct err pause = {0};
        int r =
            local_poll(l, &none, 1, deadline_min(until, deadline_in_ms(LOOK_MS)), cancel, &pause);
        if (r != ERR_TIMEOUT || deadline_passed(until)) {
            return err_set(err, r, "%s", pause.msg);
        }
    }
    return 0;
}

int local_net_attach(const struct local *l, const struct local_net *net, pid_t payload,
                     deadline_ms until, const struct cancel *cancel, pid_t *out_helper,
                     struct err *err) {
    int words[2];
    if (pipe2(words, O_CLOEXEC | O_NONBLOCK) < 0) {
        return err_sys(err, ERR_SYS, errno, "cannot make a pipe");
    }
    int r = spawn_helper(l, net, payload, words, out_helper, err);
    close(words[1]);
    if (r == 0) {
        r = await_up(l, net, payload, words[0], until, cancel, out_helper, err);
    }
    close(words[0]);
    return r;
}
