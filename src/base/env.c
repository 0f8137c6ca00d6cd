/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/env.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"

#define DOTENV_BYTES_MAX 65536 /* A file of settings, not of data. */

const char *env_get(const char *name) {
    const char *value = getenv(name);
    return value && value[0] ? value : NULL;
}

static struct sv unquote(struct sv v) {
    if (v.n >= 2 && (v.p[0] == '"' || v.p[0] == '\'') && v.p[v.n - 1] == v.p[0]) {
        return (struct sv){v.p + 1, v.n - 2};
    }
    size_t comment = sv_find(v, SV(" #"));
    return comment == (size_t)-1 ? v : sv_trim((struct sv){v.p, comment});
}

static int take_line(struct sv line, const char *path, int number, struct err *err) {
    line = sv_trim(line);
    if (line.n > 0 && line.p[line.n - 1] == '\r') {
        line = sv_trim((struct sv){line.p, line.n - 1});
    }
    if (line.n == 0 || line.p[0] == '#') {
        return 0;
    }
    if (sv_starts_with(line, SV("export "))) {
        line = sv_trim(sv_cut(line, 7));
    }
    size_t eq = sv_find(line, SV("="));
    if (eq == (size_t)-1 || eq == 0) {
        return err_set(err, ERR_INPUT, "%s line %d: want NAME=value", path, number);
    }
    struct sv name = sv_trim((struct sv){line.p, eq});
    struct sv value = unquote(sv_trim(sv_cut(line, eq + 1)));
    AUTO_FREE char *name_text = mem_strndup(name.p, name.n);
    AUTO_FREE char *value_text = mem_strndup(value.p, value.n);
    if (!name_text || !value_text || setenv(name_text, value_text, /* overwrite= */ 0) < 0) {
        return err_set(err, ERR_INPUT, "%s line %d: not a variable's name", path, number);
    }
    return 0;
}

int env_load_dotenv(const char *path, struct err *err) {
    AUTO_BUF struct buf text = {0};
    int r = file_read(path, DOTENV_BYTES_MAX, &text, err);
    if (r < 0) {
        return r == ERR_NOT_FOUND ? 0 : r;
    }
    struct sv rest = buf_sv(&text);
    for (int number = 1; rest.n > 0; number++) {
        size_t n = sv_find(rest, SV("\n"));
        n = n == (size_t)-1 ? rest.n : n;
        r = take_line((struct sv){rest.p, n}, path, number, err);
        if (r < 0) {
            return r;
        }
        rest = sv_cut(rest, n + 1);
    }
    return 0;
}
