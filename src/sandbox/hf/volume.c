/* SPDX-License-Identifier: BSD-3-Clause */
/* Volumes: what of the Hub is mounted inside, by objects or by their short text. */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "sandbox/hf/hf.h"
#include "sandbox/inside.h"

#define VOLUMES_MAX 32 /* A job takes a handful. */

static const char *const fields[] = {"type", "source",    "mount_path", "revision",
                                     "path", "read_only", NULL};
static const char *const types[] = {"bucket", "model", "dataset", "space", NULL};

static int refuse(const char *text, struct err *err) {
    return err_set(err, ERR_INPUT,
                   "volumes: '%.120s' is none (one is 'datasets/OWNER/NAME:/data', or "
                   "'buckets/OWNER/NAME:/out:ro')",
                   text);
}

/* The type that a word in the plural names. */
static const char *type_of(struct sv plural) {
    for (const char *const *type = types; *type; type++) {
        if (plural.n == strlen(*type) + 1 && memcmp(plural.p, *type, plural.n - 1) == 0 &&
            plural.p[plural.n - 1] == 's') {
            return *type;
        }
    }
    return NULL;
}

/* "[hf://]TYPEs/OWNER/NAME[@REVISION]:/MOUNT[:ro]" into an object. */
static int from_text(const char *text, json_t **out, struct err *err) {
    struct sv all = sv_from(text);
    bool read_only = sv_ends_with(all, SV(":ro"));
    all.n -= read_only ? 3 : 0;
    all = sv_cut(all, sv_starts_with(all, SV("hf://")) ? 5 : 0);
    size_t colon = sv_find(all, SV(":"));
    size_t slash = sv_find(all, SV("/"));
    if (colon == (size_t)-1 || slash == (size_t)-1 || slash > colon) {
        return refuse(text, err);
    }
    const char *type = type_of((struct sv){all.p, slash});
    struct sv source = {all.p + slash + 1, colon - slash - 1};
    size_t at = sv_find(source, SV("@"));
    struct sv revision = at == (size_t)-1 ? (struct sv){0} : sv_cut(source, at + 1);
    source.n = at == (size_t)-1 ? source.n : at;
    if (!type) {
        return refuse(text, err);
    }
    json_t *o = json_pack("{s:s, s:o, s:o}", "type", type, "source", json_text(source),
                          "mount_path", json_text(sv_cut(all, colon + 1)));
    int r = !o ? -1 : revision.n ? json_object_set_new(o, "revision", json_text(revision)) : 0;
    r = r < 0 || !read_only ? r : json_object_set_new(o, "read_only", json_true());
    *out = o;
    return r < 0 ? err_set(err, ERR_NOMEM, "out of memory") : 0;
}

static bool is_repository(const char *source) {
    const char *slash = strchr(source, '/');
    return slash && slash != source && slash[1] && !strchr(slash + 1, '/') &&
           !source[strcspn(source, " \t\r\n:?#")];
}

/* Reads one in our spelling, and adds it in the Hub's. */
static int add_object(const json_t *o, json_t *list, struct err *err) {
    struct json_at at = {o, "volumes"};
    const char *type = NULL;
    const char *source = NULL;
    const char *mount_path = NULL;
    const char *revision = NULL;
    const char *path = NULL;
    bool read_only = false;
    int r = json_check_fields(at, fields, err);
    r = r < 0 ? r : json_get_string(at, "type", &type, err);
    r = r < 0 ? r : json_get_string(at, "source", &source, err);
    r = r < 0 ? r : json_get_string(at, "mount_path", &mount_path, err);
    r = r < 0 ? r : json_get_string(at, "revision", &revision, err);
    r = r < 0 ? r : json_get_string(at, "path", &path, err);
    r = r < 0 ? r : json_get_bool(at, "read_only", &read_only, err);
    if (r < 0) {
        return r;
    }
    bool known = false;
    for (const char *const *t = types; type && *t; t++) {
        known = known || strcmp(type, *t) == 0;
    }
    if (!known) {
        return err_set(err, ERR_INPUT,
                       "volumes: type: '%.40s' is none (use bucket, model, dataset or space)",
                       type ? type : "");
    }
    if (!source || !is_repository(source)) {
        return err_set(err, ERR_INPUT, "volumes: source: want OWNER/NAME, got '%.80s'",
                       source ? source : "");
    }
    r = inside_check("volumes: mount_path", mount_path ? mount_path : "", err);
    if (r < 0) {
        return r;
    }
    json_t *wire =
        json_pack("{s:s, s:s, s:s, s:s*, s:s*, s:b}", "type", type, "source", source, "mountPath",
                  mount_path, "revision", revision, "path", path, "readOnly", read_only);
    return json_array_append_new(list, wire) < 0 ? err_set(err, ERR_NOMEM, "out of memory") : 0;
}

static int add(const json_t *entry, json_t *list, struct err *err) {
    if (json_is_object(entry)) {
        return add_object(entry, list, err);
    }
    if (!json_is_string(entry)) {
        return err_set(err, ERR_INPUT, "volumes: want texts or objects, got %s", json_kind(entry));
    }
    AUTO_JSON json_t *o = NULL;
    int r = from_text(json_string_value(entry), &o, err);
    return r < 0 ? r : add_object(o, list, err);
}

int hf_volumes_add(const json_t *volumes, json_t *list, struct err *err) {
    size_t i;
    json_t *entry;
    int r = 0;
    if (json_array_size(volumes) > VOLUMES_MAX) {
        return err_set(err, ERR_INPUT, "volumes: at most %d", VOLUMES_MAX);
    }
    json_array_foreach((json_t *)volumes, i, entry) {
        r = r < 0 ? r : add(entry, list, err);
    }
    return r;
}
