/* SPDX-License-Identifier: BSD-3-Clause */
/* Sessions that were open when the process that had them died. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "journal/sessions.h"
#include "server/capture/server.h"

static const char *text_at(const json_t *object, const char *field) {
    return json_string_value(json_object_get(object, field));
}

/* Where it went, as a NULL-ended list of what the head says; NULL in *out: to the gateway's. */
static int upstreams_at(const json_t *head, const char ***out, struct err *err) {
    const json_t *many = json_object_get(head, "upstreams");
    const char *one = text_at(head, "upstream");
    size_t n = json_array_size(many);
    if (!one) {
        return 0;
    }
    const char **list = calloc(n + 2, sizeof *list);
    if (!list) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    list[0] = one;
    for (size_t i = 0; i < n; i++) {
        const char *url = json_string_value(json_array_get(many, i));
        list[i] = url ? url : one;
    }
    *out = list;
    return 0;
}

static int make_managed(const struct journal_session *s, const json_t *opener, struct managed **out,
                        struct err *err) {
    const char *id = text_at(opener, "session_id");
    const json_t *metadata = json_object_get(opener, "metadata");
    struct managed *m = calloc(1, sizeof *m);
    if (m) {
        m->id = mem_strdup(id);
        m->name = mem_strdup(s->name);
        m->metadata = json_is_object(metadata) ? json_deep_copy(metadata) : json_object();
        m->is_restored = true;
    }
    if (!m || (id && !m->id) || !m->name || !m->metadata) {
        managed_free(m);
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    *out = m;
    return 0;
}

/* Whether it had a key that is not at hand: one of its own, or the gateway's where that has none
 * now. */
static bool lacks_key(const struct capture *c, const char *key_name, bool has_upstreams) {
    if (!key_name) {
        return false;
    }
    return strcmp(key_name, MANAGED_KEY) == 0 || has_upstreams || !c->o->session.key_name;
}

static int open_again(struct capture *c, const struct journal_session *s, struct managed *m,
                      struct err *err) {
    const json_t *opener = json_object_get(s->head, "opener");
    const char *key_name = text_at(s->head, "key_name");
    const json_t *policy = json_object_get(s->head, "policy_version");
    const json_t *began = json_object_get(s->head, "began");
    AUTO_FREE const char **upstreams = NULL;
    AUTO_BUF struct buf policy_text = {0};
    AUTO_BUF struct buf opener_text = {0};
    int rc = upstreams_at(s->head, &upstreams, err);
    if (rc == 0 && (json_compact(opener, &opener_text) < 0 ||
                    (policy && json_compact(policy, &policy_text) < 0))) {
        rc = err_set(err, ERR_NOMEM, "out of memory");
    }
    if (rc < 0) {
        return rc;
    }
    const char *digest = text_at(s->head, "token_sha256");
    const struct gateway_session_past past = {
        .token_sha256 = digest ? digest : "",
        .calls = s->calls,
        .began = json_is_number(began) ? json_number_value(began) : s->opened,
        .lacks_key = lacks_key(c, key_name, upstreams != NULL),
    };
    struct gateway_session_options so = c->o->session;
    so.name = s->name;
    so.past = &past;
    so.opener = buf_cstr(&opener_text);
    so.upstreams = upstreams;
    so.model_override = text_at(s->head, "model");
    so.level = text_at(s->head, "level_max");
    so.neutral_sampling = json_is_true(json_object_get(opener, "neutral_sampling"));
    so.policy_version = policy_text.len ? buf_cstr(&policy_text) : NULL;
    so.policy_is_json = true;
    if (past.lacks_key || upstreams) { /* Else it goes to the gateway's engines, with its key. */
        so.api_key = NULL;
        so.key_name = key_name;
    }
    return gateway_session_open(c->gateway, &so, &m->session, err);
}

static int restore_one(struct capture *c, const struct journal_session *s, struct err *err) {
    struct managed *m = NULL;
    int rc = make_managed(s, json_object_get(s->head, "opener"), &m, err);
    rc = rc < 0 ? rc : open_again(c, s, m, err);
    if (rc < 0) {
        managed_free(m);
        return rc;
    }
    pthread_mutex_lock(&c->mutex);
    m->next = c->managed;
    c->managed = m;
    pthread_mutex_unlock(&c->mutex);
    return 0;
}

static bool is_to_restore(const struct journal_session *s) {
    return !s->is_closed && !s->is_alive && json_is_object(json_object_get(s->head, "opener"));
}

static int by_opening(const void *a, const void *b) {
    const struct journal_session *x = a;
    const struct journal_session *y = b;
    return (x->opened > y->opened) - (x->opened < y->opened);
}

/* One that can't be restored must not keep the others from it. */
static void restore_all(struct capture *c, struct journal_sessions *all) {
    qsort(all->list, all->n, sizeof *all->list, by_opening);
    for (size_t i = 0; i < all->n; i++) {
        struct err err = {0};
        if (is_to_restore(&all->list[i]) && restore_one(c, &all->list[i], &err) < 0) {
            log_error("cannot restore the session '%s': %s", all->list[i].name, err.msg);
        }
    }
}

int restore_sessions(struct capture *c, struct err *err) {
    const char *dir = c->o->journal_dir;
    struct journal_sessions all = {0};
    /* Two that start at once would both find them: the second waits, and finds that their writer,
     * which is the first then, lives. */
    AUTO_CLOSE int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    while (fd < 0 || flock(fd, LOCK_EX) < 0) {
        if (fd < 0 || errno != EINTR) {
            return err_sys(err, ERR_SYS, errno, "cannot lock the journal '%s'", dir);
        }
    }
    int rc = journal_sessions_read(dir, &all, err);
    if (rc == 0) {
        restore_all(c, &all);
    }
    journal_sessions_deinit(&all);
    return rc < 0 ? err_wrap(err, "cannot restore sessions") : 0;
}
