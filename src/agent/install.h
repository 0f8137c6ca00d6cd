/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_AGENT_INSTALL_H
#define SNAFFLE_AGENT_INSTALL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/err.h"

struct agent;

/*
 * The agents of this machine: `<cache_dir>/<agent>/<version>/` holds one program and a note of what
 * it is (installed.json). A folder appears as a whole or not at all. Any thread; installers of one
 * agent wait for each other, also those of other processes.
 *
 *     agent_find_installed(dir, &agent_opencode, NULL, &found, err)
 */
struct agent_installed {
    char *version; /* Exact. */
    char *folder;  /* What to mount; holds the program under the agent's name. */
    char *program;
    char *sha256; /* As noted at installation; NULL: the program was put there by hand. */
};
void agent_installed_deinit(struct agent_installed *i);

struct agent_install {
    const char *cache_dir;
    const struct agent *agent;
    const char *version;  /* Exact, or "latest"; NULL: the agent's default. */
    bool again;           /* Also when it is there already. */
    int64_t backoff_ms;   /* Before the second try, doubled before the third; 0: 2000. */
    deadline_ms deadline; /* 0: never. */
    const struct cancel *cancel;
};

/* Gives what is there already, else fetches it through npm. ERR_NOT_FOUND: no such version;
 * ERR_ENVIRONMENT: this machine lacks npm, or a way to the registry; both say what to do. */
int agent_install(const struct agent_install *what, struct agent_installed *out,
                  struct err *err) CHECK_RESULT;

/* Without network. "latest" is what it was when last resolved. ERR_ENVIRONMENT with the remedy when
 * it is not installed. */
int agent_find_installed(const char *cache_dir, const struct agent *agent, const char *version,
                         struct agent_installed *out, struct err *err) CHECK_RESULT;

/* Reads the program and compares it with the note; ERR_CORRUPT when it is another. */
int agent_check_installed(const struct agent_installed *i, struct err *err) CHECK_RESULT;

#endif
