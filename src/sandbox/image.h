/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_SANDBOX_IMAGE_H
#define SNAFFLE_SANDBOX_IMAGE_H

#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/err.h"

/*
 * A system for a sandbox in place of the host's: a folder with /bin, /usr and so on, or an OCI
 * image layout (index.json, blobs/), which is unpacked once into the state directory:
 *
 *     images/<sha256 of the manifest>/     the root folder, as a whole or not at all
 *     images/lock                          held by whoever unpacks
 *
 * Unpacked files belong to us and every user may read them, since inside nobody is root; there are
 * no set-id bits, devices or sockets. What an image holds can't write outside its folder, whatever
 * its names and links say.
 */
struct image {
    char *dir;      /* The root folder; absolute, no link. */
    char *name;     /* What it is called in records: the folder, or "sha256:..." of the manifest. */
    json_t *env;    /* ["NAME=value"], as the image's configuration says; NULL: none. */
    json_t *layers; /* Private: [{digest, mediaType}] to unpack; NULL: a plain folder. */
    char *layout;   /* Private: where they are. */
    bool is_held;   /* Private: by `hold`, so that no sweep takes it away. */
    int hold;
};

/* Looks at `path` and fills `out`; nothing is unpacked. ERR_INPUT when it is no system's folder and
 * no image for this machine; ERR_ENVIRONMENT when `uid` can't pass through to it. */
int image_look(const char *state, const char *path, uid_t uid, struct image *out,
               struct err *err) CHECK_RESULT;

/* Sees to it that `dir` is there and has a /bin/bash, and stays until image_deinit. */
int image_make_ready(const char *state, struct image *image, deadline_ms until,
                     const struct cancel *cancel, struct err *err) CHECK_RESULT;

void image_deinit(struct image *image);

struct image_sweep {
    double unused_s; /* Of those that no sandbox has, only what none had for so long. */
    bool dry_run;    /* Only count. */
};

/* Removes unpacked images, and what killed processes left among them; adds to *removed. While one
 * is being unpacked all are left alone. */
int image_sweep(const char *state, const struct image_sweep *o, unsigned *removed,
                struct err *err) CHECK_RESULT;

#endif
