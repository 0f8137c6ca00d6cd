/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/sandbox/oci.h"

#include <archive.h>
#include <archive_entry.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#include "base/file.h"
#include "base/mem.h"
#include "sandbox/digest.h"
#include "tests/testing.h"

#define LAYER_MAX (32u << 20)

static void set_kind(struct archive_entry *e, const struct oci_entry *entry) {
    unsigned mode = entry->mode;
    switch (entry->type) {
    case 'd':
        archive_entry_set_filetype(e, AE_IFDIR);
        mode = mode ? mode : 0755;
        break;
    case 'l':
        archive_entry_set_filetype(e, AE_IFLNK);
        archive_entry_set_symlink(e, entry->text);
        break;
    case 'h':
        archive_entry_set_filetype(e, AE_IFREG);
        archive_entry_set_hardlink(e, entry->text);
        break;
    case 'c':
        archive_entry_set_filetype(e, AE_IFCHR);
        archive_entry_set_rdevmajor(e, 1);
        archive_entry_set_rdevminor(e, 3);
        break;
    case 'p':
        archive_entry_set_filetype(e, AE_IFIFO);
        break;
    default:
        archive_entry_set_filetype(e, AE_IFREG);
        archive_entry_set_size(e, (la_int64_t)strlen(entry->text));
    }
    archive_entry_set_perm(e, mode ? mode : 0644);
}

void oci_layer(const struct oci_entry *entries, size_t n, enum oci_packing packing,
               struct buf *out) {
    size_t used = 0;
    char *memory = malloc(LAYER_MAX);
    struct archive *a = archive_write_new();
    assert_non_null(memory);
    assert_int_equal(archive_write_set_format_pax_restricted(a), ARCHIVE_OK);
    if (packing == OCI_GZIP) {
        assert_int_equal(archive_write_add_filter_gzip(a), ARCHIVE_OK);
    } else if (packing == OCI_ZSTD) {
        assert_int_equal(archive_write_add_filter_zstd(a), ARCHIVE_OK);
    }
    assert_int_equal(archive_write_open_memory(a, memory, LAYER_MAX, &used), ARCHIVE_OK);
    for (size_t i = 0; i < n; i++) {
        struct archive_entry *e = archive_entry_new();
        archive_entry_set_pathname(e, entries[i].path);
        archive_entry_set_mtime(e, 1234567890, 0);
        archive_entry_set_uid(e, 4242);
        set_kind(e, &entries[i]);
        assert_true(archive_write_header(a, e) >=
                    ARCHIVE_WARN); /* A name beyond the locale warns. */
        if (entries[i].type == 'f') {
            size_t length = strlen(entries[i].text);
            assert_int_equal(archive_write_data(a, entries[i].text, length), length);
        }
        archive_entry_free(e);
    }
    assert_int_equal(archive_write_close(a), ARCHIVE_OK);
    archive_write_free(a);
    assert_int_equal(buf_add(out, memory, used), 0);
    free(memory);
}

char *oci_blob(const char *dir, const void *bytes, size_t n) {
    struct err err = {0};
    char hex[DIGEST_HEX_MAX];
    assert_int_equal(digest_hex(bytes, n, hex), 0);
    AUTO_FREE char *folder = mem_printf("%s/blobs/sha256", dir);
    AUTO_FREE char *path = mem_printf("%s/%s", folder, hex);
    assert_ok(file_mkdirs(folder, 0755, &err), &err);
    assert_ok(file_write(path, (struct sv){bytes, n}, 0644, &err), &err);
    return mem_printf("sha256:%s", hex);
}

const char *oci_machine(void) {
    static struct utsname u;
    assert_int_equal(uname(&u), 0);
    return strcmp(u.machine, "x86_64") == 0    ? "amd64"
           : strcmp(u.machine, "aarch64") == 0 ? "arm64"
                                               : u.machine;
}

char *oci_manifest(const char *dir, const struct oci_about *about, const struct buf *layers,
                   size_t n) {
    AUTO_BUF struct buf text = {0};
    AUTO_FREE char *config =
        mem_printf("{\"architecture\": \"%s\", \"os\": \"linux\", \"config\": {\"Env\": %s}}",
                   about && about->architecture ? about->architecture : oci_machine(),
                   about && about->env ? about->env : "null");
    AUTO_FREE char *digest = oci_blob(dir, config, strlen(config));
    assert_int_equal(buf_addf(&text,
                              "{\"schemaVersion\": 2, \"config\": {\"digest\": \"%s\"}, "
                              "\"layers\": [",
                              digest),
                     0);
    for (size_t i = 0; i < n; i++) {
        AUTO_FREE char *layer = oci_blob(dir, layers[i].data, layers[i].len);
        assert_int_equal(buf_addf(&text, "%s{\"digest\": \"%s\"}", i ? ", " : "", layer), 0);
    }
    assert_int_equal(buf_adds(&text, "]}"), 0);
    return oci_blob(dir, text.data, text.len);
}

char *oci_index_entry(const char *digest, const char *architecture) {
    return architecture
               ? mem_printf("{\"digest\": \"%s\", \"platform\": {\"architecture\": \"%s\", "
                            "\"os\": \"linux\"}}",
                            digest, architecture)
               : mem_printf("{\"digest\": \"%s\"}", digest);
}

void oci_write_index(const char *dir, const char *entries) {
    struct err err = {0};
    AUTO_FREE char *path = file_join(dir, "index.json");
    AUTO_FREE char *text = mem_printf("{\"schemaVersion\": 2, \"manifests\": [%s]}", entries);
    assert_ok(file_write(path, sv_from(text), 0644, &err), &err);
}

void oci_image(const char *dir, const struct oci_about *about, const struct buf *layers, size_t n) {
    AUTO_FREE char *digest = oci_manifest(dir, about, layers, n);
    AUTO_FREE char *entry = oci_index_entry(digest, NULL);
    oci_write_index(dir, entry);
}
