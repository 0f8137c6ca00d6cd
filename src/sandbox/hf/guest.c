/* SPDX-License-Identifier: BSD-3-Clause */
/* The guest's program, sent inside. */
#include "base/file.h"
#include "base/mem.h"
#include "sandbox/hf/hf.h"
#include "sandbox/state.h"

#define GUEST_MAX (8u << 20)

int hf_load_guest(struct buf *out, struct err *err) {
    AUTO_FREE char *state = NULL;
    AUTO_FREE char *program = NULL;
    int r = state_dir(&state, err);
    r = r < 0 ? r : state_guest(state, &program, err);
    return r < 0 ? r : file_read(program, GUEST_MAX, out, err);
}

int hf_put_guest(struct hf *s, const char *path, deadline_ms until, const struct cancel *cancel,
                 struct err *err) {
    AUTO_BUF struct buf bytes = {0};
    int r = hf_load_guest(&bytes, err);
    return r < 0 ? r : hf_server_write(&s->server, path, buf_sv(&bytes), 0755, until, cancel, err);
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
