/* SPDX-License-Identifier: BSD-3-Clause */
#include "sandbox/inside.h"

#include <string.h>

#include "base/mem.h"

#define PATH_INSIDE_MAX 1024 /* Leaves room under PATH_MAX for what the agent puts there. */

bool inside_is_within(const char *path, const char *folder) {
    size_t n = strlen(folder);
    return strncmp(path, folder, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

/* Absolute, without empty, "." and ".." parts, nor what passwd(5) can't hold. */
static bool is_plain(const char *path) {
    if (path[0] != '/' || path[1] == '\0' || strlen(path) > PATH_INSIDE_MAX) {
        return false;
    }
    for (const char *p = path; *p; p++) {
        if ((unsigned char)*p < ' ' || *p == ':' || *p == 0x7f) {
            return false;
        }
    }
    for (const char *p = path; *p;) {
        size_t n = strcspn(p + 1, "/");
        if (n == 0 || (n == 1 && p[1] == '.') || (n == 2 && p[1] == '.' && p[2] == '.')) {
            return false;
        }
        p += n + 1;
    }
    return true;
}

/* Folders that are the system's inside, and names that must stay what they are. */
static const char *taken_by(const char *path) {
    static const char *const within[] = {"/usr",   "/bin",           "/sbin",     "/lib",  "/lib32",
                                         "/lib64", "/libx32",        "/etc",      "/proc", "/dev",
                                         "/sys",   INSIDE_MODEL_DIR, INSIDE_GUEST};
    static const char *const itself[] = {"/tmp", "/run", "/var", "/var/tmp"};
    for (size_t i = 0; i < ARRAY_LEN(within); i++) {
        if (inside_is_within(path, within[i])) {
            return within[i];
        }
    }
    for (size_t i = 0; i < ARRAY_LEN(itself); i++) {
        if (strcmp(path, itself[i]) == 0) {
            return itself[i];
        }
    }
    return inside_is_within(path, "/var/tmp") ? "/var/tmp" : NULL;
}

int inside_check(const char *what, const char *path, struct err *err) {
    if (!is_plain(path)) {
        return err_set(
            err, ERR_INPUT,
            "%s '%s' must be an absolute path of at most %d bytes without '.', '..', ':' "
            "and control characters",
            what, path, PATH_INSIDE_MAX);
    }
    const char *taken = taken_by(path);
    if (taken) {
        return err_set(err, ERR_INPUT, "%s '%s' can't stand there: '%s' is the system's", what,
                       path, taken);
    }
    return 0;
}
