/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_SANDBOX_IMAGE_IMPL_H
#define SNAFFLE_SANDBOX_IMAGE_IMPL_H

#include <stdbool.h>
#include <stdint.h>

#include "sandbox/image.h"

/* The parts of image.h. */

#define IMAGE_UNPACKING "unpacking" /* The folder that becomes an image when it is whole. */

/* image.c: the lock of the images' folder; ERR_TIMEOUT when another process unpacks until then. */
int image_take_lock(const char *images, deadline_ms until, const struct cancel *cancel, int *out_fd,
                    struct err *err) CHECK_RESULT;

/* image_layout.c: whether the folder is a layout; fills name, env and layers from it. */
bool image_is_layout(const char *path);
int image_read_layout(const char *path, struct image *out, struct err *err) CHECK_RESULT;

/* "sha256:<64 hex>" into the blob's path; the caller frees. ERR_INPUT for anything else. */
int image_blob_path(const char *layout, const char *digest, char **out,
                    struct err *err) CHECK_RESULT;

/* image_root.c: paths inside a root folder, resolved as if it were "/"; no link leads out. */

/* An O_PATH descriptor. ERR_NOT_FOUND. */
int image_root_open(int root, const char *path, int *out_fd, struct err *err) CHECK_RESULT;

/* The folder in which `path` (of parts that are neither "." nor "..") is to stand, made where
 * missing; *out_name points at its last part. */
int image_root_parent(int root, const char *path, int *out_fd, const char **out_name,
                      struct err *err) CHECK_RESULT;

/* Removes what stands there, folders with all they hold; nothing there is fine. */
int image_root_remove(int parent, const char *name, struct err *err) CHECK_RESULT;

/* What has been unpacked so far: an image is bounded as a whole. */
struct image_count {
    uint64_t bytes;
    uint64_t entries;
};

/* image_layer.c: checks the blob's digest, then lays it over the root. */
struct image_layer {
    const char *path;
    const char *digest;
    deadline_ms until;
    const struct cancel *cancel;
};
int image_layer_apply(int root, const struct image_layer *layer, struct image_count *count,
                      struct err *err) CHECK_RESULT;

#endif
