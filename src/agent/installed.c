/* SPDX-License-Identifier: BSD-3-Clause */
#include "agent/installed.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
/* OpenSSL has a type of the name of one of our error codes; it is not used here. */
#define ERR_STATE openssl_error_state
#include <openssl/evp.h>
#undef ERR_STATE
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"

#define VERSION_MAX 64 /* "1.18.33-beta.20261130" and the like, doubled. */
#define NOTE_MAX 65536 /* A note has a few hundred bytes. */
#define READ_PIECE (64u * 1024)
#define NOTE_NAME "installed.json"

void agent_installed_deinit(struct agent_installed *i) {
    free(i->version);
    free(i->folder);
    free(i->program);
    free(i->sha256);
    *i = (struct agent_installed){0};
}

int installed_check_version(const char *version, struct err *err) {
    size_t n = strlen(version);
    bool good = n > 0 && n <= VERSION_MAX && isdigit((unsigned char)version[0]);
    for (size_t i = 0; i < n && good; i++) {
        good = isalnum((unsigned char)version[i]) || version[i] == '.' || version[i] == '-';
    }
    return good ? 0
                : err_set(err, ERR_INPUT,
                          "'%.*s' is no version (want an exact one as '1.2.3', or 'latest')",
                          VERSION_MAX, version);
}

static void free_digest(EVP_MD_CTX **ctx) {
    EVP_MD_CTX_free(*ctx);
}

static int finish_digest(EVP_MD_CTX *ctx, struct buf *out) {
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    int r = EVP_DigestFinal_ex(ctx, digest, &n) == 1 ? 0 : ERR_INTERNAL;
    for (unsigned i = 0; i < n && r == 0; i++) {
        r = buf_addf(out, "%02x", digest[i]);
    }
    return r;
}

int installed_digest(const char *path, struct buf *out, struct err *err) {
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return err_sys(err, ERR_SYS, errno, "cannot open '%s'", path);
    }
    AUTO(free_digest) EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    AUTO_FREE char *piece = malloc(READ_PIECE);
    if (!ctx || !piece || EVP_DigestInit_ex(ctx, EVP_sha256(), NULL) != 1) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    ssize_t n;
    while ((n = read(fd, piece, READ_PIECE)) != 0) {
        if (n < 0 && errno != EINTR) {
            return err_sys(err, ERR_SYS, errno, "cannot read '%s'", path);
        }
        if (n > 0 && EVP_DigestUpdate(ctx, piece, (size_t)n) != 1) {
            return err_set(err, ERR_INTERNAL, "cannot digest '%s'", path);
        }
    }
    return finish_digest(ctx, out) < 0 ? err_set(err, ERR_NOMEM, "out of memory") : 0;
}

int installed_write_note(const char *folder, const struct agent_installed *i, const char *package,
                         struct err *err) {
    AUTO_FREE char *path = file_join(folder, NOTE_NAME);
    AUTO_BUF struct buf text = {0};
    AUTO_JSON json_t *note = json_pack("{s:s, s:s, s:s}", "version", i->version, "package", package,
                                       "sha256", i->sha256);
    if (!path || !note || json_pretty(note, &text) < 0) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    return file_write(path, buf_sv(&text), 0644, err);
}

/* A missing note is no error: the program may have been put there by hand. */
static int read_note(const char *folder, const char *version, struct agent_installed *out,
                     struct err *err) {
    AUTO_FREE char *path = file_join(folder, NOTE_NAME);
    AUTO_JSON json_t *note = NULL;
    const char *noted = NULL;
    const char *sha256 = NULL;
    if (!path) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    if (!file_exists(path)) {
        return 0;
    }
    int r = json_load(path, NOTE_MAX, &note, err);
    struct json_at at = {note, path};
    r = r < 0 ? r : json_get_string(at, "version", &noted, err);
    r = r < 0 ? r : json_get_string(at, "sha256", &sha256, err);
    if (r < 0 || !noted || !sha256 || strcmp(noted, version) != 0) {
        return err_set(err, ERR_CORRUPT, "'%s' is not the note of version '%s' (install it again)",
                       path, version);
    }
    out->sha256 = mem_strdup(sha256);
    return out->sha256 ? 0 : err_set(err, ERR_NOMEM, "out of memory");
}

int installed_read(const char *folder, const char *agent, const char *version,
                   struct agent_installed *out, struct err *err) {
    AUTO(agent_installed_deinit)
    struct agent_installed i = {.version = mem_strdup(version),
                                .folder = mem_strdup(folder),
                                .program = file_join(folder, agent)};
    if (!i.version || !i.folder || !i.program) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    if (access(i.program, X_OK) < 0) {
        return err_set(err, ERR_NOT_FOUND, "no program at '%s'", i.program);
    }
    int r = read_note(folder, version, &i, err);
    if (r == 0) {
        *out = i;
        i = (struct agent_installed){0};
    }
    return r;
}

int agent_check_installed(const struct agent_installed *i, struct err *err) {
    AUTO_BUF struct buf digest = {0};
    if (!i->sha256) {
        return 0;
    }
    int r = installed_digest(i->program, &digest, err);
    if (r == 0 && strcmp(buf_cstr(&digest), i->sha256) != 0) {
        r = err_set(err, ERR_CORRUPT, "'%s' is not what was installed (install it again)",
                    i->program);
    }
    return r;
}
