/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "guest/protocol.h"
#include "sandbox/hf/hf.h"

#define CALL_S 120.0 /* An agent's program of 200 MB over 20 Mbit/s. */

char *hf_path(const struct hf *s, const char *path) {
    if (path[0] == '/') {
        return mem_strdup(path);
    }
    while (strncmp(path, "./", 2) == 0) {
        path += 2;
    }
    return strcmp(path, ".") == 0 ? mem_strdup(s->home) : mem_printf("%s/%s", s->home, path);
}

/* Once: beside, by upload, and then in its place by the guest. */
static int put(struct hf *s, const char *to, struct sv content, unsigned mode, deadline_ms until,
               int *code, struct buf *said, struct err *err) {
    AUTO_FREE char *from = mem_printf("%s/%u.up", s->dir, atomic_fetch_add(&s->next, 1));
    char octal[16];
    char user[16];
    if (!from) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    int r = hf_server_write(&s->server, from, content, 0600, until, NULL, err);
    if (r < 0) {
        return r;
    }
    (void)snprintf(octal, sizeof octal, "%o", mode & 07777);
    (void)snprintf(user, sizeof user, "%u", s->user);
    const char *const argv[] = {atomic_load(&s->program),
                                "put",
                                "--from",
                                from,
                                "--to",
                                to,
                                "--mode",
                                octal,
                                "--user",
                                user,
                                NULL};
    return hf_server_exec(&s->server, argv, 1, until, NULL, code, said, err);
}

/* Whole or not at all, as the user and with what that user may. Done again when nobody knows
 * whether it was: with an upload of its own, since a put takes that away. */
int hf_write_file(struct sandbox *b, const char *path, struct sv content, unsigned mode,
                  struct err *err) {
    struct hf *s = (struct hf *)b;
    AUTO_FREE char *to = hf_path(s, path);
    AUTO_BUF struct buf said = {0};
    deadline_ms until = deadline_in_s(CALL_S);
    int code = 0;
    int r = to ? ERR_UPSTREAM : err_set(err, ERR_NOMEM, "out of memory");
    for (int i = 0; i < HF_SERVER_ATTEMPTS && hf_server_may_pass(r); i++) {
        r = put(s, to, content, mode, until, &code, &said, err);
    }
    if (r < 0) {
        return hf_explain(s, r, err);
    }
    if (code == 0) {
        return 0;
    }
    bool known = code > PROTOCOL_EXIT_ERR && code - PROTOCOL_EXIT_ERR < ERR_POS_COUNT_;
    return err_set(err, known ? PROTOCOL_EXIT_ERR - code : ERR_SYS, "cannot write '%s': %s", path,
                   said.len ? buf_cstr(&said) : err_name(PROTOCOL_EXIT_ERR - code));
}

/* For the first generation, which would read a device for ever. */
static int check_regular(struct hf *s, const char *path, deadline_ms until, struct err *err) {
    const char *const argv[] = {"/bin/sh", "-c", "test -f \"$0\" && test ! -L \"$0\"", path, NULL};
    AUTO_BUF struct buf said = {0};
    int code = 0;
    int r = hf_server_exec(&s->server, argv, HF_SERVER_ATTEMPTS, until, NULL, &code, &said, err);
    return r < 0 || code == 0 ? r : err_set(err, ERR_INPUT, "'%s' is no regular file", path);
}

int hf_read_file(struct sandbox *b, const char *path, uint64_t offset, size_t length,
                 struct buf *out, struct err *err) {
    struct hf *s = (struct hf *)b;
    AUTO_FREE char *full = hf_path(s, path);
    uint64_t size = 0;
    deadline_ms until = deadline_in_s(CALL_S);
    if (!full) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    int r = hf_server_size(&s->server, full, until, NULL, &size, err);
    /* A device or a FIFO shows as an empty file; only the newer generations refuse it. */
    bool is_refused = size == 0 && s->server.protocol > 1;
    if (r == 0 && size == 0 && !is_refused) {
        r = check_regular(s, full, until, err);
    } else if (r == 0 && length > 0 && (offset < size || is_refused)) {
        uint64_t left = size > offset ? size - offset : 1;
        struct hf_server_part part = {full, offset, length < left ? length : (size_t)left,
                                      HF_SERVER_ATTEMPTS};
        r = hf_server_read(&s->server, &part, until, NULL, out, err);
    }
    return r < 0 ? hf_explain(s, r, err) : 0;
}

/* What can't be read is a folder or a device, or stands below a file, where nothing is. */
static int exists_unread(struct hf *s, const char *path, deadline_ms until, struct err *err) {
    const char *const argv[] = {"/bin/sh", "-c", "test -e \"$0\"", path, NULL};
    AUTO_BUF struct buf said = {0};
    int code = 0;
    int r = hf_server_exec(&s->server, argv, HF_SERVER_ATTEMPTS, until, NULL, &code, &said, err);
    return r < 0 ? r : code == 0;
}

/* Through a link: reading nothing of it tells, as a rule. */
int hf_exists(struct sandbox *b, const char *path, struct err *err) {
    struct hf *s = (struct hf *)b;
    AUTO_FREE char *full = hf_path(s, path);
    AUTO_BUF struct buf nothing = {0};
    struct hf_server_part part = {.path = full, .attempts = HF_SERVER_ATTEMPTS};
    deadline_ms until = deadline_in_s(CALL_S);
    int r = full ? hf_server_read(&s->server, &part, until, NULL, &nothing, err)
                 : err_set(err, ERR_NOMEM, "out of memory");
    if (r == ERR_NOT_FOUND) {
        return 0;
    }
    r = r == ERR_INPUT ? exists_unread(s, full, until, err) : r < 0 ? r : 1;
    return r < 0 ? hf_explain(s, r, err) : r;
}
