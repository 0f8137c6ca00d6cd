/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdbool.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "sandbox/local.h"

/* From bwrap's complaint and the kernel's switches to a line that says what to do. The switches
 * only word the error: whether a sandbox starts is found out by starting one. */

#define SWITCH_BYTES_MAX 64 /* One number. */
#define WORDS_MAX 300

static bool has(struct sv words, struct sv needle) {
    return sv_find(words, needle) != (size_t)-1;
}

static bool switch_is(const char *sysctls, const char *name, const char *value) {
    AUTO_BUF struct buf text = {0};
    AUTO_FREE char *path = file_join(sysctls, name);
    return path && file_read(path, SWITCH_BYTES_MAX, &text, NULL) == 0 &&
           sv_eq(buf_sv(&text), sv_from(value));
}

static const char *namespaces_remedy(struct sv words, const char *sysctls) {
    if (switch_is(sysctls, "kernel/apparmor_restrict_unprivileged_userns", "1\n")) {
        return "AppArmor keeps unprivileged programs from user namespaces: enable its profile "
               "'bwrap-userns-restrict' (package apparmor-profiles), or run `sysctl "
               "kernel.apparmor_restrict_unprivileged_userns=0`";
    }
    if (switch_is(sysctls, "kernel/unprivileged_userns_clone", "0\n")) {
        return "user namespaces are closed: run `sysctl kernel.unprivileged_userns_clone=1`";
    }
    if (switch_is(sysctls, "user/max_user_namespaces", "0\n")) {
        return "user namespaces are closed: run `sysctl user.max_user_namespaces=15000`";
    }
    if (has(words, SV("Resource temporarily unavailable"))) {
        return "a limit on processes was hit (`ulimit -u`, or the container's pids limit)";
    }
    if (has(words, SV("No space left on device"))) {
        return "the number of user namespaces is used up (`sysctl user.max_user_namespaces`), or "
               "this is inside a sandbox that allows none";
    }
    return "user namespaces are refused here (in a container, its seccomp profile must allow "
           "unshare and mount)";
}

static const char *remedy(struct sv words, const char *sysctls) {
    if (has(words, SV("Unknown option"))) {
        return "bubblewrap is too old: version 0.8 or newer is needed";
    }
    if (has(words, SV("new namespace failed")) || has(words, SV("creating new namespace")) ||
        has(words, SV("uid map")) || has(words, SV("RTM_NEWADDR")) || has(words, SV("user ns"))) {
        return namespaces_remedy(words, sysctls);
    }
    if (has(words, SV("mount proc"))) {
        return "the container hides parts of /proc: start it with `--security-opt "
               "systempaths=unconfined`";
    }
    return NULL;
}

int local_diagnose(struct sv words, const char *sysctls, struct err *err) {
    const char *end = memchr(words.p, '\n', words.n);
    size_t n = end ? (size_t)(end - words.p) : words.n;
    struct sv line = {words.p, n < WORDS_MAX ? n : WORDS_MAX};
    if (line.n == 0) {
        return err_set(err, ERR_ENVIRONMENT,
                       "the sandbox did not start: bwrap ended without a word");
    }
    const char *what_to_do = remedy(words, sysctls);
    return err_set(err, ERR_ENVIRONMENT, "the sandbox did not start: '%.*s'%s%s", SV_ARG(line),
                   what_to_do ? ": " : "", what_to_do ? what_to_do : "");
}
