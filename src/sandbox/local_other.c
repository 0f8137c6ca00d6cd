/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "base/fd.h"
#include "base/mem.h"
#include "sandbox/local.h"

/*
 * Sandboxes of other processes, by their id. Whoever may open a box's folder may connect to its
 * guest, so a command of ours is one call more to a guest that serves many; and the record names
 * the first process, so an end needs nobody's help.
 */

static int connect_box(void *arg, int *out_fd, struct err *err) {
    const char *path = arg;
    return fd_connect_unix(path, out_fd, err) < 0
               ? err_set(err, ERR_LOST, "the sandbox has ended, or is just beginning anew")
               : 0;
}

static int find_state(const char *id, char **out, struct err *err) {
    if (!*id || id[strspn(id, "0123456789abcdef")]) {
        return err_set(err, ERR_NOT_FOUND, "'%.40s' is no sandbox's id", id);
    }
    return state_dir(out, err);
}

int local_exec_in(const char *id, const struct sandbox_exec *what, struct sandbox_output *out,
                  struct err *err) {
    AUTO_FREE char *state = NULL;
    AUTO_FREE char *path = NULL;
    int r = find_state(id, &state, err);
    r = r < 0 ? r : box_guest_socket(state, id, &path, err);
    if (r < 0) {
        return r;
    }
    struct guest_client guest = {.connect = connect_box, .arg = path};
    return guest_exec(&guest, what, out, err);
}

int local_kill_in(const char *id, bool *was_alive, struct err *err) {
    AUTO_FREE char *state = NULL;
    int r = find_state(id, &state, err);
    return r < 0 ? r : box_end(state, id, was_alive, err);
}
