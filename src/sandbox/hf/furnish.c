/* SPDX-License-Identifier: BSD-3-Clause */
/* What a new sandbox is given before its first command: a home, the guest, mounts. Each call is a
 * round trip to the provider, so there are few. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "sandbox/digest.h"
#include "sandbox/hf/hf.h"

#define IMAGE_PATH_MAX 4096
#define EXIT_NOTED 3 /* Of the text below. */
/* An image of ours names each of its programs' paths under their digests. */
#define BY_DIGEST "/opt/snaffle/by-digest/"

/* The home, and for a user that is not root ($1: the uid) a name, which programs ask for. Only
 * once: later it may hold links of the agent's to what is not its own. The exit code, which comes
 * through where words may be lost, tells whether the note $2 is there. */
static const char make_home[] =
    "set -e; mkdir -p \"$0\"\n"
    "if [ \"$1\" != 0 ]; then\n"
    "  chown -R -h \"$1:$1\" \"$0\"\n"
    "  grep -q \"^[^:]*:[^:]*:$1:\" /etc/passwd || "
    "echo \"agent:x:$1:$1::$0:/bin/bash\" >>/etc/passwd\n"
    "  grep -q \"^[^:]*:[^:]*:$1:\" /etc/group || echo \"agent:x:$1:\" >>/etc/group\n"
    "fi\n"
    "[ ! -f \"$2\" ] || exit 3\n";

static int make(struct hf *s, const char *note, deadline_ms until, const struct cancel *cancel,
                bool *noted, struct err *err) {
    char user[16];
    (void)snprintf(user, sizeof user, "%u", s->user);
    const char *const argv[] = {"/bin/sh", "-c", make_home, s->home, user, note, NULL};
    AUTO_BUF struct buf said = {0};
    int code = 0;
    int r = hf_server_exec(&s->server, argv, HF_SERVER_ATTEMPTS, until, cancel, &code, &said, err);
    *noted = r == 0 && code == EXIT_NOTED;
    return r < 0 || code == 0 || *noted
               ? r
               : err_set(err, ERR_SYS, "cannot make the home '%s' inside: exit %d: %s", s->home,
                         code, buf_cstr(&said));
}

/* Takes the guest that the image has; leaves all as it is where the note names none. */
static int take_noted(struct hf *s, const char *note, deadline_ms until,
                      const struct cancel *cancel, struct err *err) {
    AUTO_BUF struct buf path = {0};
    struct hf_server_part part = {
        .path = note, .length = IMAGE_PATH_MAX, .attempts = HF_SERVER_ATTEMPTS};
    int r = hf_server_read(&s->server, &part, until, cancel, &path, err);
    struct sv found = sv_trim(buf_sv(&path));
    found.n -= sv_ends_with(found, SV("\n"));
    if (r < 0 || found.n == 0 || found.p[0] != '/') {
        return r;
    }
    s->image_guest = mem_strndup(found.p, found.n);
    if (!s->image_guest) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    atomic_store(&s->program, s->image_guest);
    return 0;
}

static int furnish(struct hf *s, struct sv guest, const char *note, deadline_ms until,
                   const struct cancel *cancel, struct err *err) {
    bool noted = false;
    int r = make(s, note, until, cancel, &noted, err);
    r = r < 0 || !noted ? r : take_noted(s, note, until, cancel, err);
    return r < 0 || s->image_guest
               ? r
               : hf_server_write(&s->server, s->guest, guest, 0755, until, cancel, err);
}

int hf_furnish(struct hf *s, const struct sandbox_spec *spec, deadline_ms until,
               const struct cancel *cancel, struct err *err) {
    char digest[DIGEST_HEX_MAX];
    AUTO_BUF struct buf guest = {0};
    int r = hf_load_guest(&guest, err);
    if (r == 0 && digest_hex(guest.data, guest.len, digest) < 0) {
        r = err_set(err, ERR_INTERNAL, "cannot make the guest's digest");
    }
    AUTO_FREE char *note = r < 0 ? NULL : mem_printf(BY_DIGEST "%s", digest);
    if (r == 0 && !note) {
        r = err_set(err, ERR_NOMEM, "out of memory");
    }
    r = r < 0 ? r : furnish(s, buf_sv(&guest), note, until, cancel, err);
    return r < 0 ? r : hf_mounts_place(s, spec, until, cancel, err);
}
