/* SPDX-License-Identifier: BSD-3-Clause */
#include "agent/npm.h"

#include <stdlib.h>
#include <string.h>

#include "agent/agent.h"
#include "base/mem.h"
#include "base/proc.h"

#define ATTEMPTS 3 /* A registry that fails three times in a row is down, not busy. */
#define BACKOFF_MS_DEFAULT 2000

/* Codes of failures that may be gone a moment later: name look-ups, connections, busy servers,
 * downloads that arrived damaged. */
static const char *const transient[] = {
    "ECONNRESET",   "ECONNREFUSED", "ETIMEDOUT",
    "ENOTFOUND",    "EAI_AGAIN",    "ENETUNREACH",
    "EHOSTUNREACH", "EPIPE",        "ERR_SOCKET_TIMEOUT",
    "EINTEGRITY",   "E429",         "E500",
    "E502",         "E503",         "E504",
    "FETCH_ERROR",
};

struct sv npm_error_code(struct sv talk) {
    static const struct sv marks[] = {{"npm error code ", 15}, {"npm ERR! code ", 14}};
    for (size_t i = 0; i < ARRAY_LEN(marks); i++) {
        size_t at = sv_find(talk, marks[i]);
        if (at == (size_t)-1) {
            continue;
        }
        struct sv code = sv_cut(talk, at + marks[i].n);
        size_t end = sv_find(code, SV("\n"));
        code.n = end == (size_t)-1 ? code.n : end;
        return sv_trim(code);
    }
    return (struct sv){"", 0};
}

static bool is_transient(struct sv code) {
    for (size_t i = 0; i < ARRAY_LEN(transient); i++) {
        if (sv_eq(code, sv_from(transient[i]))) {
            return true;
        }
    }
    return false;
}

/* Says what failed and what to do. `target` is package@version, or a package. */
static int explain(const struct agent_install *what, const char *target, struct sv code,
                   struct err *err) {
    const char *name = what->agent->name;
    const char *at = strchr(target, '@');
    int package_n = at ? (int)(at - target) : (int)strlen(target);
    if (sv_eq(code, SV("E404")) || sv_eq(code, SV("ETARGET"))) {
        return err_set(err, ERR_NOT_FOUND,
                       "%s: no such version: npm knows no '%s' (see 'npm view %.*s versions')",
                       name, target, package_n, target);
    }
    if (is_transient(code)) {
        return err_set(err, ERR_ENVIRONMENT,
                       "%s: npm could not fetch '%s' in %d tries: %.*s (check the network and "
                       "npm's registry and proxy settings, or put the program at "
                       "'%s/%s/VERSION/%s')",
                       name, target, ATTEMPTS, SV_ARG(code), what->cache_dir, name, name);
    }
    return err_set(err, ERR_ENVIRONMENT,
                   "%s: npm failed on '%s'%s%.*s (run 'npm view %s' to see why, or put the program "
                   "at '%s/%s/VERSION/%s')",
                   name, target, code.n ? ": " : "", SV_ARG(code), target, what->cache_dir, name,
                   name);
}

extern char **environ;

/* What npm is told of our environment. The rest may hold the model's key and is not its matter. */
static const char *const shown[] = {
    "PATH=",        "HOME=",       "USER=",        "LOGNAME=",  "SHELL=",     "LANG=",
    "LC_",          "TMPDIR=",     "XDG_",         "NPM_",      "npm_",       "NODE_",
    "SSL_CERT_",    "HTTP_PROXY=", "HTTPS_PROXY=", "NO_PROXY=", "ALL_PROXY=", "http_proxy=",
    "https_proxy=", "no_proxy=",   "all_proxy=",
};

static bool is_shown(const char *entry) {
    for (size_t i = 0; i < ARRAY_LEN(shown); i++) {
        if (strncmp(entry, shown[i], strlen(shown[i])) == 0) {
            return true;
        }
    }
    return false;
}

/* NULL-ended; borrows the entries. NULL: out of memory. */
static const char **npm_environment(void) {
    size_t n = 0;
    while (environ[n]) {
        n++;
    }
    const char **env = calloc(n + 1, sizeof *env);
    for (size_t i = 0, to = 0; env && i < n; i++) {
        if (is_shown(environ[i])) {
            env[to++] = environ[i];
        }
    }
    return env;
}

/* Runs npm until it does it, fails for good, or has failed ATTEMPTS times. */
static int run(const struct agent_install *what, const char *const *argv, const char *target,
               struct proc_result *out, struct err *err) {
    int64_t pause = what->backoff_ms > 0 ? what->backoff_ms : BACKOFF_MS_DEFAULT;
    AUTO_FREE const char **env = npm_environment();
    struct proc_options o = {
        .argv = argv, .env = env, .deadline = what->deadline, .cancel = what->cancel};
    if (!env) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    for (int attempt = 1;; attempt++, pause *= 2) {
        proc_result_deinit(out);
        int r = proc_run(&o, out, err);
        if (r == ERR_NOT_FOUND) {
            return err_set(err, ERR_ENVIRONMENT,
                           "%s: npm not found (install nodejs and npm, or put the program at "
                           "'%s/%s/VERSION/%s')",
                           what->agent->name, what->cache_dir, what->agent->name,
                           what->agent->name);
        }
        if (r < 0 || out->exit_code == 0) {
            return r < 0 ? err_wrap(err, "%s", what->agent->name) : 0;
        }
        struct sv code = npm_error_code(buf_sv(&out->err));
        if (!is_transient(code) || attempt == ATTEMPTS) {
            return explain(what, target, code, err);
        }
        r = cancel_sleep(
            what->cancel,
            deadline_min(deadline_in_ms(pause), what->deadline ? what->deadline : DEADLINE_NEVER),
            err);
        if (r < 0) {
            return r;
        }
    }
}

int npm_install(const struct agent_install *what, const char *package, const char *version,
                const char *folder, struct err *err) {
    AUTO_FREE char *target = mem_printf("%s@%s", package, version);
    const char *const argv[] = {"npm",        "install",   "--ignore-scripts", "--no-save",
                                "--no-audit", "--no-fund", "--prefix",         folder,
                                target,       NULL};
    AUTO(proc_result_deinit) struct proc_result result = {0};
    return target ? run(what, argv, target, &result, err)
                  : err_set(err, ERR_NOMEM, "out of memory");
}

int npm_latest(const struct agent_install *what, const char *package, struct buf *out,
               struct err *err) {
    const char *const argv[] = {"npm", "view", package, "version", NULL};
    AUTO(proc_result_deinit) struct proc_result result = {0};
    int r = run(what, argv, package, &result, err);
    if (r < 0) {
        return r;
    }
    struct sv text = buf_sv(&result.out);
    while (text.n > 0 && (text.p[text.n - 1] == '\n' || text.p[text.n - 1] == '\r')) {
        text.n--;
    }
    return buf_add_sv(out, sv_trim(text)) < 0 ? err_set(err, ERR_NOMEM, "out of memory") : 0;
}
