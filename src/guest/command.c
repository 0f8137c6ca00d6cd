/* SPDX-License-Identifier: BSD-3-Clause */
#include "guest/command.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "guest/files.h"
#include "guest/protocol.h"

/* A month: beyond any sandbox's life, and far from overflow. */
#define TIMEOUT_MAX_MS (31ULL * 24 * 3600 * 1000)

/* "--" so that a text which begins with a dash is the text. */
static int add_shell(struct command *c, struct sv text, bool clean, struct err *err) {
    static const char *const login[] = {"bash", "-l", "-c", "--", NULL};
    static const char *const plain[] = {"bash", "--noprofile", "--norc", "-c", "--", NULL};
    int r = 0;
    for (const char *const *word = clean ? plain : login; *word && r == 0; word++) {
        r = words_add(&c->argv, sv_from(*word), err);
    }
    return r < 0 ? r : words_add(&c->argv, text, err);
}

static int add_words(struct command *c, struct sv fields, struct err *err) {
    uint8_t tag;
    struct sv value;
    int r = 0;
    while (r == 0 && protocol_each(&fields, &tag, &value)) {
        if (tag == PROTOCOL_ARGV) {
            r = words_add(&c->argv, value, err);
        } else if (tag == PROTOCOL_ENV) {
            r = child_env_set(&c->env, value, err);
        }
    }
    return r;
}

static int add_clean_home(struct command *c, struct err *err) {
    if (child_env_has(&c->env, SV("HOME"))) {
        return 0;
    }
    AUTO_FREE char *home = mem_strdup("/tmp/home-XXXXXX");
    if (!home || !mkdtemp(home) || (c->user && chown(home, c->user, c->user) < 0)) {
        return err_sys(err, errno == ENOSPC ? ERR_FULL : ERR_SYS, errno,
                       "cannot make an empty home under '/tmp'");
    }
    c->clean_home = TAKE(home);
    AUTO_FREE char *pair = mem_printf("HOME=%s", c->clean_home);
    return pair ? child_env_set(&c->env, sv_from(pair), err)
                : err_set(err, ERR_NOMEM, "out of memory");
}

static int open_output(struct sv fields, uint8_t tag, int dir_fd, int *out_fd, struct err *err) {
    struct sv value;
    if (!protocol_find(fields, tag, &value)) {
        return 0;
    }
    AUTO_FREE char *path = NULL;
    int r = files_path(value, &path, err);
    return r < 0 ? r : files_open_append(dir_fd, path, out_fd, err);
}

static int open_places(struct command *c, struct sv fields, int dir_fd, struct err *err) {
    AUTO_FREE char *cwd = NULL;
    struct sv value = SV(".");
    (void)protocol_find(fields, PROTOCOL_CWD, &value);
    int r = files_path(value, &cwd, err);
    if (r == 0) {
        r = files_open_dir(dir_fd, cwd, &c->cwd_fd, err);
    }
    if (r == 0) {
        r = open_output(fields, PROTOCOL_STDOUT_PATH, dir_fd, &c->stdout_fd, err);
    }
    if (r == 0) {
        r = open_output(fields, PROTOCOL_STDERR_PATH, dir_fd, &c->stderr_fd, err);
    }
    return r;
}

static int fill(struct command *c, struct sv fields, int dir_fd, struct err *err) {
    bool clean = protocol_u64(fields, PROTOCOL_CLEAN, 0) != 0;
    struct sv shell;
    bool has_shell = protocol_find(fields, PROTOCOL_SHELL, &shell);
    c->is_detached = protocol_u64(fields, PROTOCOL_DETACHED, 0) != 0;
    c->has_input = protocol_u64(fields, PROTOCOL_HAS_INPUT, 0) != 0;
    c->timeout_ms = protocol_u64(fields, PROTOCOL_TIMEOUT_MS, 0);
    c->user = (uint32_t)protocol_u64(fields, PROTOCOL_USER, 0);
    if (c->timeout_ms > TIMEOUT_MAX_MS) {
        c->timeout_ms = TIMEOUT_MAX_MS;
    }
    int r = clean ? child_env_clean(&c->env, err) : child_env_inherit(&c->env, err);
    if (r == 0 && has_shell) {
        r = add_shell(c, shell, clean, err);
    }
    size_t before = c->argv.n;
    if (r == 0) {
        r = add_words(c, fields, err);
    }
    if (r == 0 && (c->argv.n == 0 || (has_shell && c->argv.n != before) || !*c->argv.p[0])) {
        r = err_set(err, ERR_INPUT, "a command needs either arguments or shell text");
    }
    if (r == 0) {
        r = open_places(c, fields, dir_fd, err);
    }
    return r == 0 && clean ? add_clean_home(c, err) : r;
}

int command_parse(struct sv fields, int dir_fd, struct command *out, struct err *err) {
    struct command c = {.cwd_fd = -1, .stdout_fd = -1, .stderr_fd = -1};
    int r = fill(&c, fields, dir_fd, err);
    if (r < 0) {
        command_deinit(&c);
        return r;
    }
    *out = c;
    return 0;
}

void command_deinit(struct command *c) {
    words_deinit(&c->argv);
    words_deinit(&c->env);
    mem_auto_close(&c->cwd_fd);
    mem_auto_close(&c->stdout_fd);
    mem_auto_close(&c->stderr_fd);
    if (c->clean_home) {
        rmdir(c->clean_home);
        mem_auto_free(&c->clean_home);
    }
    *c = (struct command){.cwd_fd = -1, .stdout_fd = -1, .stderr_fd = -1};
}
