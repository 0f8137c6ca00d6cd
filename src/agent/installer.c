/* SPDX-License-Identifier: BSD-3-Clause */
#include "agent/installer.h"

#include <stddef.h>
#include <string.h>

#include "agent/installed.h"
#include "base/mem.h"
#include "base/utf8.h"

#define EXIT_NO_TOOL 96 /* Ours; programs use small numbers, and shells those from 126 up. */
#define SHOWN_CHARS 300

static const char no_version[] = "Failed to fetch version information";

int installer_command(const char *url, const char *version, char **out, struct err *err) {
    int r = version ? installed_check_version(version, err) : 0;
    if (r < 0) {
        return r;
    }
    /* The version is told to the installer and not to what fetches it. */
    char *text =
        mem_printf("set -o pipefail\n"
                   "if command -v curl >/dev/null; then curl -fsSL '%s'\n"
                   "elif command -v wget >/dev/null; then wget -qO- '%s'\n"
                   "else echo 'there is neither curl nor wget' >&2; exit %d; fi |\n"
                   "bash -s --%s%s",
                   url, url, EXIT_NO_TOOL, version ? " --version " : "", version ? version : "");
    if (!text) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    *out = text;
    return 0;
}

static bool has(struct sv text, const char *words) {
    return sv_find(text, sv_from(words)) != (size_t)-1;
}

/* curl's: names, connections, time-outs, cut transfers, TLS that broke off. */
static bool is_network(int exit_code) {
    static const int codes[] = {5, 6, 7, 16, 18, 28, 35, 52, 55, 56, 92};
    for (size_t i = 0; i < ARRAY_LEN(codes); i++) {
        if (codes[i] == exit_code) {
            return true;
        }
    }
    return false;
}

/* curl's 22 is any failing status; only these pass by themselves. */
static bool is_busy(struct sv said) {
    static const char *const statuses[] = {"error: 429", "error: 500", "error: 502", "error: 503",
                                           "error: 504"};
    for (size_t i = 0; i < ARRAY_LEN(statuses); i++) {
        if (has(said, statuses[i])) {
            return true;
        }
    }
    return false;
}

static bool may_pass(const struct installer_end *end) {
    if (end->timed_out || is_network(end->exit_code)) {
        return true;
    }
    struct sv said = sv_trim(end->err);
    return end->exit_code == 22 ? is_busy(said) : said.n == 0;
}

int installer_judge(const struct installer_end *end, bool *again, struct err *err) {
    *again = false;
    if (end->exit_code == 0 && !end->timed_out) {
        return 0;
    }
    if (has(end->out, no_version)) {
        return err_set(err, ERR_ENVIRONMENT,
                       "%s: its installer can't find out which version is the latest (pin one: "
                       "--opencode-version, or opencode_version in the configuration)",
                       end->agent);
    }
    if (end->exit_code == EXIT_NO_TOOL) {
        return err_set(err, ERR_ENVIRONMENT,
                       "%s: the image has neither curl nor wget for its installer (run 'snaffle "
                       "agent install %s' to have it sent from here)",
                       end->agent, end->agent);
    }
    *again = may_pass(end);
    struct sv said = sv_trim(end->err.n > 0 ? end->err : end->out);
    AUTO_BUF struct buf clean = {0};
    if (utf8_clean(utf8_last(said, SHOWN_CHARS), &clean) < 0) {
        buf_reset(&clean);
    }
    for (size_t i = 0; i < clean.len; i++) {
        clean.data[i] = (unsigned char)clean.data[i] < ' ' ? ' ' : clean.data[i];
    }
    return err_set(err, ERR_SYS, "%s: its installer %s (exit %d): %s", end->agent,
                   end->timed_out ? "ran out of time" : "failed", end->exit_code,
                   clean.len ? buf_cstr(&clean) : "it said nothing");
}
