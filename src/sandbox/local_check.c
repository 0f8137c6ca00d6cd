/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "base/mem.h"
#include "sandbox/local.h"

/* Whether sandboxes work and hold is found out by making one and looking round inside. */

#define CHECK_S 30 /* A sandbox starts in milliseconds; a loaded machine gets its time. */

/* Prints a word for each thing that is not as it must be, and "done" at the end. */
static const char probe[] =
    "[ \"$(id -u)\" = 1000 ] || echo uid\n"
    "grep -q '^NoNewPrivs:[[:space:]]*1$' /proc/self/status || echo privileges\n"
    "grep -q '^CapEff:[[:space:]]*0*$' /proc/self/status || echo capabilities\n"
    "grep -q 127.0.0.1 /proc/net/fib_trie || echo loopback\n"
    "{ : >\"$HOME/.check\" && rm \"$HOME/.check\"; } 2>/dev/null || echo home\n"
    "{ cat /proc/sys/vm/swappiness >/proc/sys/vm/swappiness; } 2>/dev/null && echo sysctl\n"
    "unshare -U true 2>/dev/null && echo namespaces\n"
    "echo done\n";

static const struct {
    const char *word;
    const char *meaning;
} faults[] = {
    {"uid", "the user inside is not the one asked for"},
    {"privileges", "programs inside can gain privileges"},
    {"capabilities", "programs inside have capabilities"},
    {"loopback", "the loopback interface inside is down"},
    {"home", "the home inside is not writable"},
    {"sysctl", "the machine's settings can be written from inside"},
    {"namespaces", "programs inside can make user namespaces"},
};

static int judge(const struct sandbox_output *o, struct err *err) {
    struct sv said = buf_sv(&o->out);
    if (!sv_ends_with(said, SV("done\n"))) {
        return err_set(err, ERR_ENVIRONMENT, "a trial sandbox ran no command: '%s'",
                       buf_cstr(&o->err));
    }
    for (size_t i = 0; i < ARRAY_LEN(faults); i++) {
        if (sv_find(said, sv_from(faults[i].word)) != (size_t)-1) {
            return err_set(err, ERR_ENVIRONMENT, "a trial sandbox does not hold: %s",
                           faults[i].meaning);
        }
    }
    return 0;
}

int local_check(struct err *err) {
    struct sandbox *s = NULL;
    struct sandbox_output out = {0};
    struct sandbox_spec spec = {.owner = "check", .run = "check", .rollout = "check"};
    struct sandbox_exec what = {.shell = probe, .clean = true, .timeout_s = CHECK_S};
    int r = sandbox_create(&sandbox_local, &spec, deadline_in_s(CHECK_S), NULL, &s, err);
    if (r == 0) {
        r = sandbox_exec(s, &what, &out, err);
    }
    if (r == 0) {
        r = judge(&out, err);
    }
    if (s) {
        r = r < 0 ? r : sandbox_kill(s, err);
    }
    sandbox_free(s);
    sandbox_output_deinit(&out);
    return r;
}
