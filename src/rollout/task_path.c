/* SPDX-License-Identifier: BSD-3-Clause */
#include "rollout/task_path.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/sv.h"

#define PATH_BYTES_MAX 3072 /* Leaves room for the home before Linux's 4,096. */
#define PART_BYTES_MAX 255  /* Linux's own limit for one name. */

/* Adds one part between slashes; ERR_INPUT with the reason. */
static int add_part(const char *where, const char *path, struct sv part, struct buf *out,
                    struct err *err) {
    if (part.n == 0 || sv_eq(part, SV("."))) {
        return 0;
    }
    if (sv_eq(part, SV(".."))) {
        return err_set(err, ERR_INPUT, "%s: '%s': '..' is not allowed in a path", where, path);
    }
    if (part.n > PART_BYTES_MAX) {
        return err_set(err, ERR_INPUT, "%s: a name in a path is longer than %d bytes", where,
                       PART_BYTES_MAX);
    }
    if ((out->len > 0 && buf_addc(out, '/') < 0) || buf_add_sv(out, part) < 0) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    return 0;
}

static int check_whole(const char *where, const char *path, struct err *err) {
    size_t n = strlen(path);
    if (n > PATH_BYTES_MAX) {
        return err_set(err, ERR_INPUT, "%s: a path is longer than %d bytes", where, PATH_BYTES_MAX);
    }
    for (size_t i = 0; i < n; i++) {
        if ((unsigned char)path[i] < ' ' || path[i] == 0x7f) {
            return err_set(err, ERR_INPUT, "%s: a path holds a control character", where);
        }
    }
    if (n == 0 || path[n - 1] == '/') {
        return err_set(err, ERR_INPUT, "%s: '%s': want the path of a file", where, path);
    }
    return 0;
}

int task_path_clean(const char *where, const char *path, char **out, struct err *err) {
    AUTO_BUF struct buf clean = {0};
    int r = check_whole(where, path, err);
    for (const char *p = path; r == 0 && *p;) {
        size_t n = strcspn(p, "/");
        r = add_part(where, path, (struct sv){p, n}, &clean, err);
        p += n + (p[n] == '/');
    }
    if (r < 0) {
        return r;
    }
    if (clean.len == 0) {
        return err_set(err, ERR_INPUT, "%s: '%s': want the path of a file", where, path);
    }
    bool absolute = path[0] == '/';
    if (absolute && strcmp(path + 1, buf_cstr(&clean)) != 0) {
        return err_set(err, ERR_INPUT, "%s: '%s': write an absolute path plainly: '/%s'", where,
                       path, buf_cstr(&clean));
    }
    char *copy = mem_strdup(absolute ? path : buf_cstr(&clean));
    if (!copy) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    *out = copy;
    return 0;
}
