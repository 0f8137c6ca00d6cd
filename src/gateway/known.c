/* SPDX-License-Identifier: BSD-3-Clause */
#include "gateway/known.h"

#include <stdlib.h>

#include "base/mem.h"

void known_init(struct known *k, enum engine configured) {
    *k = (struct known){.configured = configured};
    pthread_mutex_init(&k->lock, NULL);
}

static void forget(struct known *k) {
    for (unsigned i = 0; i < k->n; i++) {
        free(k->entries[i].model);
    }
    k->n = 0;
}

void known_deinit(struct known *k) {
    forget(k);
    pthread_mutex_destroy(&k->lock);
}

const struct profile *known_profile(struct known *k) {
    pthread_mutex_lock(&k->lock);
    enum engine e = k->configured ? k->configured : k->learned;
    pthread_mutex_unlock(&k->lock);
    return profile_of(e);
}

void known_learn_engine(struct known *k, enum engine e) {
    pthread_mutex_lock(&k->lock);
    if (e != ENGINE_UNKNOWN && !k->configured && k->learned != e) {
        if (k->learned) { /* What an unknown one refused, it refuses under its name too. */
            forget(k);
        }
        k->learned = e;
    }
    pthread_mutex_unlock(&k->lock);
}

/* Under the lock. */
static struct known_entry *find(struct known *k, struct sv model, bool stream, bool tools) {
    for (unsigned i = 0; i < k->n; i++) {
        struct known_entry *e = &k->entries[i];
        if (e->stream == stream && e->tools == tools && sv_eq(sv_from(e->model), model)) {
            return e;
        }
    }
    return NULL;
}

unsigned known_withdrawn(struct known *k, struct sv model, bool stream, bool tools,
                         int64_t now_ms) {
    pthread_mutex_lock(&k->lock);
    const struct known_entry *e = find(k, model, stream, tools);
    unsigned what = e && now_ms < e->until_ms ? e->withdrawn : 0;
    what |= e && now_ms < e->silence.until_ms ? e->silence.what : 0;
    pthread_mutex_unlock(&k->lock);
    return what;
}

static int64_t lasts_until(const struct known_entry *e) {
    return e->until_ms > e->silence.until_ms ? e->until_ms : e->silence.until_ms;
}

/* Under the lock: a free place, or that of who would be forgotten first. */
static struct known_entry *make_room(struct known *k) {
    struct known_entry *oldest = &k->entries[0];
    if (k->n < KNOWN_MAX) {
        return &k->entries[k->n++];
    }
    for (unsigned i = 1; i < k->n; i++) {
        if (lasts_until(&k->entries[i]) < lasts_until(oldest)) {
            oldest = &k->entries[i];
        }
    }
    free(oldest->model);
    return oldest;
}

/* Under the lock. NULL: no memory; no more is lost than a round trip. */
static struct known_entry *find_or_add(struct known *k, struct sv model, bool stream, bool tools) {
    struct known_entry *e = find(k, model, stream, tools);
    char *copy = e ? NULL : mem_strndup(model.p ? model.p : "", model.n);
    if (copy) {
        e = make_room(k);
        *e = (struct known_entry){.model = copy, .stream = stream, .tools = tools};
    }
    return e;
}

void known_withdraw(struct known *k, struct sv model, bool stream, bool tools, unsigned what,
                    int64_t now_ms) {
    if (what == 0) {
        return;
    }
    pthread_mutex_lock(&k->lock);
    struct known_entry *e = find_or_add(k, model, stream, tools);
    if (e) {
        e->withdrawn = (now_ms < e->until_ms ? e->withdrawn : 0) | what;
        e->until_ms = now_ms + KNOWN_MS;
    }
    pthread_mutex_unlock(&k->lock);
}

static void note_silence(struct known_silence *s, unsigned what, int64_t now_ms) {
    if (now_ms < s->until_ms) {
        return; /* A call that was under way when it was confirmed. */
    }
    if (s->what != what) {
        *s = (struct known_silence){.what = what, .for_ms = KNOWN_SILENT_MS};
    }
    if (++s->in_a_row >= KNOWN_SILENT_MAX) {
        s->until_ms = now_ms + s->for_ms;
        s->for_ms = s->for_ms < KNOWN_MS / 2 ? 2 * s->for_ms : KNOWN_MS;
    }
}

void known_note_ids(struct known *k, struct sv model, bool stream, bool tools, unsigned what,
                    bool came, int64_t now_ms) {
    pthread_mutex_lock(&k->lock);
    struct known_entry *e =
        came ? find(k, model, stream, tools) : find_or_add(k, model, stream, tools);
    if (e && !came) {
        note_silence(&e->silence, what, now_ms);
    } else if (e && e->silence.what == what) {
        e->silence = (struct known_silence){0};
    }
    pthread_mutex_unlock(&k->lock);
}
