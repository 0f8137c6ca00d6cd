/* SPDX-License-Identifier: BSD-3-Clause */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "sandbox/digest.h"
#include "sandbox/image_impl.h"

/*
 * An OCI image layout: index.json leads to manifests, perhaps through further indexes, and the
 * manifest for this machine to the configuration and the layers.
 */

#define JSON_BYTES_MAX (4u << 20) /* As registries bound a manifest. */
#define DEPTH_MAX 4               /* An index in an index is rare; deeper is a loop. */
#define LAYERS_MAX 512            /* Engines stop at 127. */
#define PREFIX "sha256:"

bool image_is_layout(const char *path) {
    AUTO_FREE char *index = file_join(path, "index.json");
    AUTO_FREE char *blobs = file_join(path, "blobs");
    return index && blobs && file_exists(index) && file_exists(blobs);
}

static bool is_digest(const char *digest) {
    size_t n = strlen(PREFIX);
    return digest && strncmp(digest, PREFIX, n) == 0 && strlen(digest + n) == DIGEST_HEX_MAX - 1 &&
           strspn(digest + n, "0123456789abcdef") == DIGEST_HEX_MAX - 1;
}

int image_blob_path(const char *layout, const char *digest, char **out, struct err *err) {
    if (!is_digest(digest)) {
        return err_set(err, ERR_INPUT, "rootfs: '%.100s' is no SHA-256 digest (in '%s')",
                       digest ? digest : "", layout);
    }
    *out = mem_printf("%s/blobs/sha256/%s", layout, digest + strlen(PREFIX));
    return *out ? 0 : err_set(err, ERR_NOMEM, "out of memory");
}

/* A blob of JSON, checked against its digest. */
static int load_blob(const char *layout, const char *digest, json_t **out, struct err *err) {
    AUTO_FREE char *path = NULL;
    AUTO_BUF struct buf bytes = {0};
    char have[DIGEST_HEX_MAX];
    int r = image_blob_path(layout, digest, &path, err);
    r = r < 0 ? r : file_read(path, JSON_BYTES_MAX, &bytes, err);
    if (r < 0) {
        return r == ERR_NOMEM ? r
                              : err_set(err, ERR_INPUT, "rootfs: cannot read the blob '%s'",
                                        path ? path : digest);
    }
    if (digest_hex(bytes.data, bytes.len, have) < 0 || strcmp(have, digest + strlen(PREFIX)) != 0) {
        return err_set(err, ERR_INPUT, "rootfs: the blob '%s' is not what its name says", path);
    }
    return json_parse(buf_sv(&bytes), path, out, err);
}

/* This machine, by the words that images use. */
static const char *machine(void) {
    static const char *const words[][2] = {
        {"x86_64", "amd64"}, {"aarch64", "arm64"}, {"armv7l", "arm"}, {"i686", "386"}};
    static struct utsname u;
    if (uname(&u) < 0) {
        return "unknown";
    }
    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        if (strcmp(u.machine, words[i][0]) == 0) {
            return words[i][1];
        }
    }
    return u.machine;
}

static const char *text_at(const json_t *object, const char *field) {
    const char *text = json_string_value(json_object_get(object, field));
    return text ? text : "";
}

static bool fits(const json_t *platform) {
    const char *os = text_at(platform, "os");
    return strcmp(text_at(platform, "architecture"), machine()) == 0 &&
           (!*os || strcmp(os, "linux") == 0);
}

/* The entry for this machine; without any platforms, an only entry. NULL: none. */
static const json_t *choose(const json_t *entries) {
    size_t i;
    json_t *entry;
    json_array_foreach(entries, i, entry) {
        if (fits(json_object_get(entry, "platform"))) {
            return entry;
        }
    }
    const json_t *only = json_array_size(entries) == 1 ? json_array_get(entries, 0) : NULL;
    return json_object_get(only, "platform") ? NULL : only;
}

/* The digest of the manifest, from the index down. */
static int find_manifest(const char *layout, json_t **manifest, char **digest, struct err *err) {
    AUTO_FREE char *path = file_join(layout, "index.json");
    AUTO_JSON json_t *at = NULL;
    if (!path) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    int r = json_load(path, JSON_BYTES_MAX, &at, err);
    for (int depth = 0; r == 0 && json_object_get(at, "manifests"); depth++) {
        const json_t *entry = choose(json_object_get(at, "manifests"));
        if (!entry || depth == DEPTH_MAX) {
            return err_set(err, ERR_INPUT, "rootfs: '%s' has no one image for this machine (%s)",
                           layout, machine());
        }
        free(*digest);
        *digest = mem_strdup(text_at(entry, "digest"));
        json_t *next = NULL;
        r = *digest ? load_blob(layout, *digest, &next, err)
                    : err_set(err, ERR_NOMEM, "out of memory");
        json_decref(at);
        at = next;
    }
    if (r == 0 && !*digest) {
        return err_set(err, ERR_INPUT, "%s: want manifests", path);
    }
    *manifest = r == 0 ? TAKE(at) : NULL;
    return r;
}

/* The digests alone. */
static int take_layers(const json_t *manifest, struct image *out, struct err *err) {
    const json_t *layers = json_object_get(manifest, "layers");
    size_t i;
    json_t *layer;
    if (!json_is_array(layers) || json_array_size(layers) > LAYERS_MAX) {
        return err_set(err, ERR_INPUT, "rootfs: the manifest '%s' has no list of layers",
                       out->name);
    }
    out->layers = json_array();
    json_array_foreach(layers, i, layer) {
        if (json_array_append_new(out->layers, json_string(text_at(layer, "digest"))) < 0) {
            return err_set(err, ERR_NOMEM, "out of memory");
        }
    }
    return out->layers ? 0 : err_set(err, ERR_NOMEM, "out of memory");
}

/* What goes on to the agent: NAME=value lines that an environment can hold. */
static int take_env(const json_t *config, struct image *out, struct err *err) {
    size_t i;
    json_t *line;
    out->env = json_array();
    json_array_foreach(json_object_get(json_object_get(config, "config"), "Env"), i, line) {
        const char *text = json_string_value(line);
        bool good =
            text && strchr(text, '=') && text[0] != '=' && strlen(text) == json_string_length(line);
        if (good && json_array_append(out->env, line) < 0) {
            return err_set(err, ERR_NOMEM, "out of memory");
        }
    }
    return out->env ? 0 : err_set(err, ERR_NOMEM, "out of memory");
}

static int check_machine(const json_t *config, const char *layout, struct err *err) {
    const char *architecture = text_at(config, "architecture");
    if (*architecture && !fits(config)) {
        return err_set(err, ERR_INPUT,
                       "rootfs: the image in '%s' is for %s, and this machine is %s", layout,
                       architecture, machine());
    }
    return 0;
}

int image_read_layout(const char *path, struct image *out, struct err *err) {
    AUTO_JSON json_t *manifest = NULL;
    AUTO_JSON json_t *config = NULL;
    int r = find_manifest(path, &manifest, &out->name, err);
    r = r < 0
            ? r
            : load_blob(path, text_at(json_object_get(manifest, "config"), "digest"), &config, err);
    r = r < 0 ? r : check_machine(config, path, err);
    r = r < 0 ? r : take_layers(manifest, out, err);
    return r < 0 ? r : take_env(config, out, err);
}
