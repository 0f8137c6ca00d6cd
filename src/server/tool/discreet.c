/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/tool/discreet.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/env.h"
#include "base/json.h"
#include "base/mem.h"
#include "sandbox/state.h"

/* --- places --- */

/* Takes `path`. Relative ones tell nothing of the machine, unless they lead out of the folder. */
static int add(struct host_places *p, char *path, struct err *err) {
    AUTO_FREE char *own = path;
    size_t n = own ? strlen(own) : 0;
    bool tells = n > 1 && (own[0] == '/' || strncmp(own, "../", 3) == 0);
    if (!tells) {
        return 0;
    }
    while (n > 1 && own[n - 1] == '/') {
        own[--n] = '\0';
    }
    char **more = reallocarray(p->at, p->n + 1, sizeof *more);
    if (!more) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    p->at = more;
    p->at[p->n++] = TAKE(own);
    return 0;
}

static int add_copy(struct host_places *p, const char *path, struct err *err) {
    AUTO_FREE char *real = path ? realpath(path, NULL) : NULL;
    int r = add(p, path ? mem_strdup(path) : NULL, err);
    return r < 0 || !real || strcmp(real, path) == 0 ? r : add(p, TAKE(real), err);
}

/* Where the guest and the gateway are looked for. A system's folder is in every sandbox too. */
static int add_own_folder(struct host_places *p, struct err *err) {
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = '\0';
    char *slash = strrchr(self, '/');
    if (slash) {
        *slash = '\0';
    }
    bool is_system = strncmp(self, "/usr", 4) == 0 || strcmp(self, "/bin") == 0;
    return is_system ? 0 : add(p, mem_strdup(self), err);
}

/* "HOST:PATH" each. */
static int add_mounts(struct host_places *p, const json_t *mounts, struct err *err) {
    int r = 0;
    size_t i;
    json_t *one;
    json_array_foreach(mounts, i, one) {
        const char *text = json_string_value(one);
        const char *colon = text ? strrchr(text, ':') : NULL;
        AUTO_FREE char *host = colon ? mem_strndup(text, (size_t)(colon - text)) : NULL;
        r = r < 0 ? r : add_copy(p, host, err);
    }
    return r;
}

int host_places_find(const struct tool_options *o, struct host_places *out, struct err *err) {
    struct host_places p = {.hides = true};
    AUTO_FREE char *state = state_place();
    int r = add_copy(&p, o->rollout ? o->rollout->runs_dir : NULL, err);
    r = r < 0 ? r : add_copy(&p, state, err);
    r = r < 0 ? r : add_copy(&p, json_string_value(json_object_get(o->config, "rootfs")), err);
    r = r < 0 ? r : add_mounts(&p, json_object_get(o->config, "mounts"), err);
    r = r < 0 ? r : add_copy(&p, env_get("SNAFFLE_GUEST"), err);
    r = r < 0 ? r : add_copy(&p, env_get("SNAFFLE_GATEWAY_PROGRAM"), err);
    r = r < 0 ? r : add_own_folder(&p, err);
    if (r < 0) {
        host_places_deinit(&p);
        return r;
    }
    *out = p;
    return 0;
}

void host_places_deinit(struct host_places *p) {
    for (size_t i = 0; i < p->n; i++) {
        free(p->at[i]);
    }
    free(p->at);
    *p = (struct host_places){0};
}

/* --- texts --- */

/* What to hide. */
struct discreet {
    const struct host_places *places;
    bool hides_all;    /* Absolute paths wherever they lead, */
    const char *known; /* but not these. */
};

/* A path begins behind one of these, or at the text's beginning. */
static bool may_begin(struct sv text, size_t i) {
    return i == 0 || strchr(" \t\n'\"`([{<=:,;", text.p[i - 1]);
}

/* Up to its closing quote, if it has one, else to what no plain path has. */
static struct sv path_at(struct sv text, size_t begin) {
    char quote = begin > 0 && strchr("'\"`", text.p[begin - 1]) ? text.p[begin - 1] : '\0';
    struct sv rest = sv_cut(text, begin);
    const char *closing = quote ? memchr(rest.p, quote, rest.n) : NULL;
    if (closing) {
        return (struct sv){rest.p, (size_t)(closing - rest.p)};
    }
    size_t n = 0;
    while (n < rest.n && rest.p[n] && !strchr(" \t\n'\"`)]}>,;", rest.p[n])) {
        n++;
    }
    while (n > 0 && rest.p[n - 1] == ':') {
        n--;
    }
    return (struct sv){rest.p, n};
}

static bool is_inside(const struct host_places *p, struct sv path) {
    for (size_t i = 0; i < p->n; i++) {
        size_t n = strlen(p->at[i]);
        if (path.n >= n && memcmp(path.p, p->at[i], n) == 0 &&
            (path.n == n || path.p[n] == '/' || path.p[n] == ':')) {
            return true;
        }
    }
    return false;
}

static bool is_known(const char *known, struct sv path) {
    return known && sv_find(sv_from(known), path) != (size_t)-1;
}

static bool is_hidden(const struct discreet *d, struct sv path) {
    bool is_address = sv_starts_with(path, SV("//")); /* Of a URL, behind its scheme. */
    bool is_absolute = path.n > 1 && path.p[0] == '/' && !is_address;
    return is_inside(d->places, path) || (d->hides_all && is_absolute && !is_known(d->known, path));
}

static int hide(const struct discreet *d, struct sv text, struct buf *out) {
    int hidden = 0;
    size_t i = 0;
    while (i < text.n) {
        struct sv path = may_begin(text, i) ? path_at(text, i) : (struct sv){0};
        bool gone = path.n > 0 && is_hidden(d, path);
        int r = gone ? buf_adds(out, DISCREET_PATH) : buf_add(out, text.p + i, 1);
        if (r < 0) {
            return ERR_NOMEM;
        }
        i += gone ? path.n : 1;
        hidden = hidden || gone;
    }
    return hidden;
}

int discreet_text(const struct host_places *p, struct sv text, struct buf *out) {
    return hide(&(struct discreet){.places = p}, text, out);
}

int discreet_fault(const struct host_places *p, const char *known, struct sv text,
                   struct buf *out) {
    return hide(&(struct discreet){p, .hides_all = p->hides, .known = known}, text, out);
}

/* --- results --- */

static int hide_in(const struct host_places *p, json_t *object, const char *field,
                   struct buf *whole) {
    const char *text = json_string_value(json_object_get(object, field));
    AUTO_BUF struct buf told = {0};
    int hidden = text ? discreet_text(p, sv_from(text), &told) : 0;
    if (hidden <= 0) {
        return hidden;
    }
    return buf_addf(whole, "%s%s", whole->len > 0 ? "\n" : "", text) < 0 ||
                   json_object_set_new(object, field, json_text(buf_sv(&told))) < 0
               ? ERR_NOMEM
               : 0;
}

int discreet_result(const struct host_places *p, json_t *result, struct buf *whole) {
    int r = hide_in(p, result, "error", whole);
    size_t i;
    json_t *finding;
    json_array_foreach(json_object_get(result, "findings"), i, finding) {
        r = r < 0 ? r : hide_in(p, finding, "detail", whole);
    }
    return r;
}
