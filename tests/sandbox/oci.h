/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_TESTS_SANDBOX_OCI_H
#define SNAFFLE_TESTS_SANDBOX_OCI_H

#include <stddef.h>

#include "base/buf.h"

/* Makes OCI image layouts, good and evil ones. Failures fail the test. */

struct oci_entry {
    char type;        /* 'f'ile, 'd'irectory, sym'l'ink, 'h'ard link, 'c'haracter device, FI'p'o. */
    const char *path; /* As it stands in the archive. */
    const char *text; /* The content, or what the link leads to. */
    unsigned mode;    /* 0: 0644 or 0755. */
};

enum oci_packing { OCI_TAR, OCI_GZIP, OCI_ZSTD };

/* Appends one layer. */
void oci_layer(const struct oci_entry *entries, size_t n, enum oci_packing packing,
               struct buf *out);

/* Writes a blob under `dir`; gives "sha256:...", which the caller frees. */
char *oci_blob(const char *dir, const void *bytes, size_t n);

/* What an image says of itself; NULL members: this machine's architecture, and nothing. */
struct oci_about {
    const char *architecture;
    const char *env; /* The JSON of config.Env: "[\"A=b\"]". */
};

/* Writes manifest and configuration over the layers, and gives the manifest's digest. */
char *oci_manifest(const char *dir, const struct oci_about *about, const struct buf *layers,
                   size_t n);

/* The words of an index's entry for this digest; the caller frees. */
char *oci_index_entry(const char *digest, const char *architecture);

void oci_write_index(const char *dir, const char *entries);

/* A whole layout of one image. */
void oci_image(const char *dir, const struct oci_about *about, const struct buf *layers, size_t n);

/* This machine's architecture as images name it. */
const char *oci_machine(void);

#endif
