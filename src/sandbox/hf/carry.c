/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A home from one sandbox to another, as a tar that this machine passes on and never opens. What
 * packs it is sent for it; what unpacks it is a user with no rights outside of the home.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/rand.h"
#include "guest/protocol.h"
#include "sandbox/hf/hf.h"

#define PACK_S 300.0
#define AT_ONCE 8 /* Each holds a range in memory. */
#define SAID_MAX 300

static const char empty[] = "set -e; find \"$0\" -mindepth 1 -maxdepth 1 -exec rm -rf -- {} +\n"
                            "chown \"$1:$1\" \"$0\"; chmod u+rwx \"$0\"\n";

static const char own[] = "chown -R -h \"$1:$1\" \"$0\"";

/* Runs a command of the carrying's to its end, which must be 0. */
static int run(struct hf *s, uint32_t user, struct sandbox_exec *what, deadline_ms until,
               const struct cancel *cancel, struct err *err) {
    struct sandbox_output out = {0};
    what->clean = true;
    what->cwd = "/";
    what->timeout_s = (double)deadline_left_ms(until) / 1000 + 0.001;
    what->cancel = cancel;
    int r = hf_exec_as(s, user, what, &out, err);
    if (r == 0 && (out.timed_out || out.exit_code != 0)) {
        r = err_set(err, out.timed_out ? ERR_TIMEOUT : ERR_SYS,
                    "the home can't be carried to another sandbox: exit %d: %.*s", out.exit_code,
                    SAID_MAX, buf_cstr(&out.err));
    }
    sandbox_output_deinit(&out);
    return r;
}

/* Where `what` of a sandbox's is put for the carrying: a folder that nobody inside knows of. */
static int name_places(char **guest, char **tar, struct err *err) {
    char word[17];
    rand_hex(word, 8);
    *guest = mem_printf("/.snaffle-%s/guest", word);
    *tar = mem_printf("/.snaffle-%s/home.tar", word);
    return *guest && *tar ? 0 : err_set(err, ERR_NOMEM, "out of memory");
}

static int judge_pack(const struct hf_events *said, uint64_t max, struct err *err) {
    if (said->exit_code == PROTOCOL_EXIT_ERR - ERR_LIMIT) {
        return err_set(err, ERR_LIMIT,
                       "the home is more than the %llu MB that are carried to another sandbox "
                       "(grade it where it is: verify_in same)",
                       (unsigned long long)(max >> 20));
    }
    return said->exit_code == 0
               ? 0
               : err_set(err, ERR_SYS,
                         "the home can't be carried to another sandbox: exit %d: %.*s",
                         said->exit_code, SAID_MAX, buf_cstr(&said->err));
}

/* By root, who may read all of it, and by a program that is sent anew: the agent may have replaced
 * every other. Done again when its end was not told. */
static int pack_home(struct hf *s, const char *guest, const char *tar, uint64_t max,
                     deadline_ms until, const struct cancel *cancel, uint64_t *size,
                     struct err *err) {
    char limit[24];
    (void)snprintf(limit, sizeof limit, "%llu", (unsigned long long)max);
    const char *const argv[] = {guest, "pack",  "--from", s->home, "--to",
                                tar,   "--max", limit,    NULL};
    struct hf_server_run run = {.argv = argv, .may_repeat = true, .seconds = PACK_S};
    int r = hf_put_guest(s, guest, until, cancel, err);
    if (r < 0) {
        return r;
    }
    r = ERR_UPSTREAM;
    for (int i = 0; i < HF_SERVER_ATTEMPTS && hf_server_may_pass(r); i++) {
        struct hf_events said = {0};
        r = hf_server_run(&s->server, &run, until, cancel, &said, err);
        r = r < 0 ? r : judge_pack(&said, max, err);
        hf_events_deinit(&said);
    }
    return r < 0 ? r : hf_server_size(&s->server, tar, until, cancel, size, err);
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
    r = r < 0 ? r : run(s, HF_AGENT_UID, &what, until, cancel, err);
    r = r < 0 ? r : hf_run_shell(s, own, s->home, owner, until, cancel, err);
    return r < 0 ? r : hf_server_delete(&s->server, tar, until, err);
}

int hf_carry_home(struct sandbox *from_box, struct sandbox *to_box, deadline_ms until,
                  const struct cancel *cancel, struct err *err) {
    return hf_carry(from_box, to_box, HF_CARRY_MAX, until, cancel, err);
}

int hf_carry(struct sandbox *from_box, struct sandbox *to_box, uint64_t max, deadline_ms until,
             const struct cancel *cancel, struct err *err) {
    struct hf *from = (struct hf *)from_box;
    struct hf *to = (struct hf *)to_box;
    uint64_t size = 0;
    AUTO_FREE char *guest = NULL;
    AUTO_FREE char *from_tar = NULL;
    AUTO_FREE char *to_tar = mem_printf("%s/home.tar", to->dir);
    int r = to_tar ? name_places(&guest, &from_tar, err) : err_set(err, ERR_NOMEM, "out of memory");
    r = r < 0 ? r : pack_home(from, guest, from_tar, max, until, cancel, &size, err);
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
