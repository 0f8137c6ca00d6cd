/* SPDX-License-Identifier: BSD-3-Clause */
/* The guest's program inside: what the image has, or sent there. */
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "sandbox/digest.h"
#include "sandbox/hf/hf.h"
#include "sandbox/state.h"

#define GUEST_MAX (8u << 20)
#define IMAGE_PATH_MAX 4096
/* An image of ours names each of its programs' paths under their digests. */
#define BY_DIGEST "/opt/snaffle/by-digest/"

static int load(struct buf *out, struct err *err) {
    AUTO_FREE char *state = NULL;
    AUTO_FREE char *program = NULL;
    int r = state_dir(&state, err);
    r = r < 0 ? r : state_guest(state, &program, err);
    return r < 0 ? r : file_read(program, GUEST_MAX, out, err);
}

int hf_put_guest(struct hf *s, const char *path, deadline_ms until, const struct cancel *cancel,
                 struct err *err) {
    AUTO_BUF struct buf bytes = {0};
    int r = load(&bytes, err);
    return r < 0 ? r : hf_server_write(&s->server, path, buf_sv(&bytes), 0755, until, cancel, err);
}

/* Gives its path where the image has just this program; NULL otherwise. */
static int look(struct hf *s, struct sv bytes, deadline_ms until, const struct cancel *cancel,
                char **out, struct err *err) {
    char digest[DIGEST_HEX_MAX];
    AUTO_BUF struct buf path = {0};
    if (digest_hex(bytes.p, bytes.n, digest) < 0) {
        return err_set(err, ERR_INTERNAL, "cannot make the guest's digest");
    }
    AUTO_FREE char *note = mem_printf(BY_DIGEST "%s", digest);
    if (!note) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    struct hf_server_part part = {
        .path = note, .length = IMAGE_PATH_MAX, .attempts = HF_SERVER_ATTEMPTS};
    int r = hf_server_read(&s->server, &part, until, cancel, &path, err);
    struct sv found = sv_trim(buf_sv(&path));
    found.n -= sv_ends_with(found, SV("\n"));
    if (r < 0 || found.n == 0 || found.p[0] != '/') {
        return r < 0 && r != ERR_NOT_FOUND && r != ERR_INPUT ? r : 0;
    }
    *out = mem_strndup(found.p, found.n);
    return *out ? 0 : err_set(err, ERR_NOMEM, "out of memory");
}

int hf_place_guest(struct hf *s, deadline_ms until, const struct cancel *cancel, struct err *err) {
    AUTO_BUF struct buf bytes = {0};
    char *found = NULL;
    int r = load(&bytes, err);
    r = r < 0 ? r : look(s, buf_sv(&bytes), until, cancel, &found, err);
    if (r == 0 && !found) {
        return hf_server_write(&s->server, s->guest, buf_sv(&bytes), 0755, until, cancel, err);
    }
    if (r == 0) {
        s->image_guest = found;
        atomic_store(&s->program, found);
    }
    return r;
}

int hf_replace_guest(struct hf *s, deadline_ms until, const struct cancel *cancel,
                     struct err *err) {
    if (s->user != 0) {
        return 0; /* Nobody but root could have touched it. */
    }
    int r = hf_put_guest(s, s->guest, until, cancel, err);
    if (r == 0) {
        atomic_store(&s->program, s->guest);
    }
    return r;
}
