/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A home from one sandbox to another, as a tar that this machine passes on and never opens. What
 * packs it may be the agent's; what unpacks it is a user with no rights outside of the home.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "sandbox/hf/hf.h"

#define CARRY_MAX (1u << 30) /* Of the tar: some minutes of transfer, within any flavor's disk. */
#define AT_ONCE 8            /* Each holds a range in memory. */
#define SAID_MAX 300

static const char empty[] = "set -e; find \"$0\" -mindepth 1 -maxdepth 1 -exec rm -rf -- {} +\n"
                            "chown \"$1:$1\" \"$0\"; chmod u+rwx \"$0\"\n";

static const char own[] = "chown -R -h \"$1:$1\" \"$0\"";

/* Runs a command of the carrying's to its end; an exit status above `good` is an error. */
static int run(struct hf *s, uint32_t user, struct sandbox_exec *what, int good, deadline_ms until,
               const struct cancel *cancel, struct err *err) {
    struct sandbox_output out = {0};
    what->clean = true;
    what->cwd = "/";
    what->timeout_s = (double)deadline_left_ms(until) / 1000 + 0.001;
    what->cancel = cancel;
    int r = hf_exec_as(s, user, what, &out, err);
    if (r == 0 && (out.timed_out || out.exit_code > good)) {
        r = err_set(err, out.timed_out ? ERR_TIMEOUT : ERR_SYS,
                    "the home can't be carried to another sandbox: exit %d: %.*s", out.exit_code,
                    SAID_MAX, buf_cstr(&out.err));
    }
    sandbox_output_deinit(&out);
    return r;
}

/* By root, who may read all of it, and without a shell, which the agent may have replaced. What
 * tar left out (a socket) it tells by 1. */
static int pack_home(struct hf *s, const char *tar, deadline_ms until, const struct cancel *cancel,
                     uint64_t *size, struct err *err) {
    const char *const argv[] = {"tar", "-C", s->home, "-cf", tar, ".", NULL};
    struct sandbox_exec what = {.argv = argv};
    int r = run(s, /* user= */ 0, &what, 1, until, cancel, err);
    r = r < 0 ? r : hf_server_size(&s->server, tar, until, cancel, size, err);
    if (r == 0 && *size > CARRY_MAX) {
        return err_set(err, ERR_LIMIT,
                       "the home is more than the %u MB that are carried to another sandbox (grade "
                       "it where it is: verify_in same)",
                       CARRY_MAX >> 20);
    }
    return r;
}

/* --- the transfer --- */

struct carry {
    struct hf_server *from;
    struct hf_server *to;
    const char *from_path;
    const char *to_path;
    size_t size;
    deadline_ms until;
    const struct cancel *cancel;
    atomic_size_t next;
    pthread_mutex_t lock;
    struct err err; /* The first; code 0: none. Under lock. */
};

static int read_range(struct carry *c, size_t at, size_t n, struct buf *out, struct err *err) {
    struct hf_server_part part = {c->from_path, at, n, HF_SERVER_ATTEMPTS};
    int r = hf_server_read(c->from, &part, c->until, c->cancel, out, err);
    return r < 0 || out->len == n
               ? r
               : err_set(err, ERR_PROTOCOL, "the sandbox gives less of a file than it has");
}

static int carry_range(struct carry *c, size_t at, struct err *err) {
    AUTO_BUF struct buf bytes = {0};
    size_t n = c->size - at < HF_SERVER_RANGE ? c->size - at : HF_SERVER_RANGE;
    int r = n > 0 ? read_range(c, at, n, &bytes, err) : 0;
    struct hf_server_range range = {
        .path = c->to_path, .at = at, .bytes = buf_sv(&bytes), .mode = 0644};
    return r < 0 ? r : hf_server_write_range(c->to, &range, c->until, c->cancel, err);
}

static void *carry_ranges(void *arg) {
    struct carry *c = arg;
    for (;;) {
        size_t at = atomic_fetch_add(&c->next, HF_SERVER_RANGE);
        struct err err = {0};
        if (at >= c->size) {
            return NULL;
        }
        if (carry_range(c, at, &err) < 0) {
            pthread_mutex_lock(&c->lock);
            c->err = c->err.code ? c->err : err;
            pthread_mutex_unlock(&c->lock);
            atomic_store(&c->next, c->size); /* The others need not go on. */
            return NULL;
        }
    }
}

/* The first range makes the file; what no thread can be had for, this one does. */
static int carry_file(struct carry *c, struct err *err) {
    pthread_t threads[AT_ONCE];
    size_t n = 0;
    int r = carry_range(c, 0, err);
    if (r < 0) {
        return r;
    }
    atomic_store(&c->next, HF_SERVER_RANGE);
    size_t ranges = c->size / HF_SERVER_RANGE;
    while (n < ranges && n < AT_ONCE && pthread_create(&threads[n], NULL, carry_ranges, c) == 0) {
        n++;
    }
    (void)carry_ranges(c);
    for (size_t i = 0; i < n; i++) {
        pthread_join(threads[i], NULL);
    }
    if (c->err.code < 0 && err) {
        *err = c->err;
    }
    return c->err.code;
}

/* --- the other end --- */

static int unpack_home(struct hf *s, const char *tar, deadline_ms until,
                       const struct cancel *cancel, struct err *err) {
    char user[16];
    char owner[16];
    (void)snprintf(user, sizeof user, "%u", HF_AGENT_UID);
    (void)snprintf(owner, sizeof owner, "%u", s->user);
    const char *const argv[] = {"tar", "-C", s->home, "-xpf", tar, NULL};
    struct sandbox_exec what = {.argv = argv};
    int r = hf_run_shell(s, empty, s->home, user, until, cancel, err);
    r = r < 0 ? r : run(s, HF_AGENT_UID, &what, 0, until, cancel, err);
    r = r < 0 ? r : hf_run_shell(s, own, s->home, owner, until, cancel, err);
    return r < 0 ? r : hf_server_delete(&s->server, tar, until, err);
}

int hf_carry_home(struct sandbox *from_box, struct sandbox *to_box, deadline_ms until,
                  const struct cancel *cancel, struct err *err) {
    struct hf *from = (struct hf *)from_box;
    struct hf *to = (struct hf *)to_box;
    uint64_t size = 0;
    AUTO_FREE char *from_tar =
        mem_printf("%s/home-%u.tar", from->dir, atomic_fetch_add(&from->next, 1));
    AUTO_FREE char *to_tar = mem_printf("%s/home.tar", to->dir);
    if (!from_tar || !to_tar) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    int r = pack_home(from, from_tar, until, cancel, &size, err);
    if (r < 0) {
        return hf_explain(from, r, err);
    }
    struct carry c = {.from = &from->server,
                      .to = &to->server,
                      .from_path = from_tar,
                      .to_path = to_tar,
                      .size = (size_t)size,
                      .until = until,
                      .cancel = cancel,
                      .lock = PTHREAD_MUTEX_INITIALIZER};
    r = carry_file(&c, err);
    pthread_mutex_destroy(&c.lock);
    if (r < 0) {
        return hf_explain(from, r, err);
    }
    r = unpack_home(to, to_tar, until, cancel, err);
    return r < 0 ? hf_explain(to, r, err) : 0;
}
