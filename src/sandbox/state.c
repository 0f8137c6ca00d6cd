/* SPDX-License-Identifier: BSD-3-Clause */
#include "sandbox/state.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/env.h"
#include "base/file.h"
#include "base/mem.h"
#include "sandbox/digest.h"

#define GUEST_BYTES_MAX                                                                            \
    (16u << 20) /* The guest is under 1 MB; a debug build under sanitizers more. */

static char *absolute(const char *path) {
    if (path[0] == '/') {
        return mem_strdup(path);
    }
    AUTO_FREE char *cwd = getcwd(NULL, 0);
    return cwd ? file_join(cwd, path) : NULL;
}

char *state_place(void) {
    const char *named = env_get("SNAFFLE_STATE");
    if (named) {
        return absolute(named);
    }
    if (geteuid() == 0) {
        return mem_strdup("/var/lib/snaffle");
    }
    const char *xdg = env_get("XDG_STATE_HOME");
    if (xdg && xdg[0] == '/') {
        return file_join(xdg, "snaffle");
    }
    const char *home = env_get("HOME");
    return home ? mem_printf("%s/.local/state/snaffle", home) : NULL;
}

/* Makes one folder 0711, whatever the umask; one that is there stays as it is. */
static int make_folder(const char *path, struct err *err) {
    if (mkdir(path, 0711) == 0) {
        if (chmod(path, 0711) < 0) {
            return err_sys(err, ERR_SYS, errno, "cannot make the folder '%s' passable", path);
        }
        return 0;
    }
    if (errno == EEXIST) {
        return 0;
    }
    return err_sys(err, ERR_ENVIRONMENT, errno,
                   "cannot make the state folder '%s' (set SNAFFLE_STATE to a folder of yours)",
                   path);
}

static int make_folders(const char *path, struct err *err) {
    AUTO_FREE char *p = mem_strdup(path);
    if (!p) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    for (char *s = strchr(p + 1, '/'); s; s = strchr(s + 1, '/')) {
        *s = '\0';
        int r = make_folder(p, err);
        *s = '/';
        if (r < 0) {
            return r;
        }
    }
    return make_folder(p, err);
}

/* Whether `uid`, a member of no group, may pass through the folder. */
static bool passes(const char *folder, uid_t uid) {
    struct stat st;
    if (uid == geteuid()) {
        return faccessat(AT_FDCWD, folder, X_OK, AT_EACCESS) == 0;
    }
    if (stat(folder, &st) < 0) {
        return false;
    }
    return (st.st_mode & (st.st_uid == uid ? S_IXUSR : S_IXOTH)) != 0;
}

int state_check_passable(const char *path, uid_t uid, struct err *err) {
    AUTO_FREE char *p = mem_strdup(path);
    if (!p) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    for (char *s = strchr(p + 1, '/'); s; s = strchr(s + 1, '/')) {
        *s = '\0';
        if (!passes(p, uid)) {
            return err_set(err, ERR_ENVIRONMENT,
                           "the folder '%s' keeps the sandbox's user out of '%s': run `chmod o+x "
                           "%s`, or set SNAFFLE_STATE to a folder that every user may pass through",
                           p, path, p);
        }
        *s = '/';
    }
    return 0;
}

static int check_ours(const char *dir, struct err *err) {
    struct stat st;
    if (lstat(dir, &st) < 0 || !S_ISDIR(st.st_mode)) {
        return err_set(err, ERR_ENVIRONMENT, "the state folder '%s' is not a folder", dir);
    }
    if (st.st_uid != geteuid() || (st.st_mode & (S_IWGRP | S_IWOTH))) {
        return err_set(
            err, ERR_ENVIRONMENT,
            "the state folder '%s' is not yours alone (set SNAFFLE_STATE to a folder that "
            "you own and nobody else may write)",
            dir);
    }
    return 0;
}

static int check_dir(const char *dir, struct err *err) {
    int r = check_ours(dir, err);
    if (r < 0) {
        return r;
    }
    /* The path of a file inside, so that the directory itself is looked at too. */
    AUTO_FREE char *inside = file_join(dir, "sandboxes");
    if (!inside) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    return state_check_passable(inside, geteuid() == 0 ? STATE_UID_FIRST : geteuid(), err);
}

int state_dir(char **out, struct err *err) {
    AUTO_FREE char *wanted = state_place();
    if (!wanted) {
        return err_set(err, ERR_ENVIRONMENT,
                       "no place for the state folder: HOME is not set (set SNAFFLE_STATE)");
    }
    int r = make_folders(wanted, err);
    if (r < 0) {
        return r;
    }
    AUTO_FREE char *dir = realpath(wanted, NULL);
    if (!dir) {
        return err_sys(err, ERR_ENVIRONMENT, errno, "cannot use the state folder '%s'", wanted);
    }
    r = check_dir(dir, err);
    static const char *const parts[] = {"guest", "images", "uids", "sandboxes"};
    for (size_t i = 0; r == 0 && i < ARRAY_LEN(parts); i++) {
        AUTO_FREE char *part = file_join(dir, parts[i]);
        r = part ? make_folder(part, err) : err_set(err, ERR_NOMEM, "out of memory");
    }
    if (r == 0) {
        *out = TAKE(dir);
    }
    return r;
}

/* The places of a program of ours beside another in `dir`: installed together, in the build tree,
 * installed under a prefix, in a source tree where it was built by itself. */
static char *find_beside(const char *dir, const char *name) {
    static const char *const places[] = {".", "../guest", "../libexec/snaffle", "../../../dist"};
    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        AUTO_FREE char *path = mem_printf("%s/%s/%s", dir, places[i], name);
        if (path && access(path, R_OK) == 0) {
            return TAKE(path);
        }
    }
    return NULL;
}

/* NULL: there is none. */
static char *find_program(const char *name, const char *variable) {
    const char *named = env_get(variable);
    char exe[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    if (named || n <= 0) {
        return mem_strdup(named);
    }
    exe[n] = '\0';
    char *slash = strrchr(exe, '/');
    *(slash ? slash : exe) = '\0';
    return find_beside(exe, name);
}

int state_gateway(char **out, struct err *err) {
    char *path = find_program("snaffle-gateway", "SNAFFLE_GATEWAY_PROGRAM");
    if (!path) {
        return err_set(err, ERR_ENVIRONMENT,
                       "no program 'snaffle-gateway' beside snaffle (run `./dev build static`, or "
                       "set SNAFFLE_GATEWAY_PROGRAM to its path)");
    }
    *out = path;
    return 0;
}

static int find_guest(char **out, struct err *err) {
    *out = find_program("snaffle-guest", "SNAFFLE_GUEST");
    if (!*out) {
        return err_set(err, ERR_ENVIRONMENT,
                       "no program 'snaffle-guest' beside snaffle (install it there, or set "
                       "SNAFFLE_GUEST to its path)");
    }
    return 0;
}

int state_guest(const char *dir, char **out, struct err *err) {
    AUTO_FREE char *source = NULL;
    AUTO_BUF struct buf bytes = {0};
    char digest[DIGEST_HEX_MAX];
    int r = find_guest(&source, err);
    if (r == 0) {
        r = file_read(source, GUEST_BYTES_MAX, &bytes, err);
    }
    if (r < 0) {
        return r;
    }
    if (digest_hex(bytes.data, bytes.len, digest) < 0) {
        return err_set(err, ERR_INTERNAL, "cannot make the digest of '%s'", source);
    }
    AUTO_FREE char *copy = mem_printf("%s/guest/%s", dir, digest);
    if (!copy) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    /* A copy appears whole or not at all, and nobody else writes here: its name vouches for it. */
    if (!file_exists(copy)) {
        r = file_write(copy, buf_sv(&bytes), 0755, err);
    }
    if (r == 0) {
        *out = TAKE(copy);
    }
    return r;
}
