/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/openenv/environment.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/rand.h"

void uuid_make(char out[UUID_TEXT_MAX]) {
    unsigned char b[16];
    rand_bytes(b, sizeof b);
    b[6] = (unsigned char)((b[6] & 0x0f) | 0x40);
    b[8] = (unsigned char)((b[8] & 0x3f) | 0x80);
    (void)snprintf(out, UUID_TEXT_MAX,
                   "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0],
                   b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13],
                   b[14], b[15]);
}

void environment_deinit(struct environment *e) {
    free(e->episode_id);
    free(e->last_task_id);
    free(e->last_sandbox_id);
    *e = (struct environment){0};
}

int environment_reset(struct environment *e, struct sv id) {
    char fresh[UUID_TEXT_MAX];
    if (id.n == 0) {
        uuid_make(fresh);
        id = sv_from(fresh);
    }
    char *copy = mem_strndup(id.p, id.n);
    if (!copy) {
        return ERR_NOMEM;
    }
    environment_deinit(e);
    e->episode_id = copy;
    return 0;
}

static void replace(char **text, const char *by) {
    char *copy = mem_strdup(by);
    if (copy) {
        free(*text);
        *text = copy;
    }
}

void environment_note(struct environment *e, const struct tool_result *r) {
    if (r->outcome == TOOL_DONE) {
        e->rollouts_completed++;
        e->has_reward = r->has_reward;
        e->last_reward = r->reward;
        replace(&e->last_task_id, r->task_id);
        replace(&e->last_sandbox_id, r->sandbox_id);
    }
}

json_t *environment_state(const struct environment *e) {
    json_t *reward = e->has_reward ? json_real(e->last_reward) : json_null();
    return json_pack("{s:o, s:I, s:I, s:o, s:s?, s:s?}", "episode_id",
                     json_text(sv_from(e->episode_id)), "step_count", (json_int_t)e->step_count,
                     "rollouts_completed", (json_int_t)e->rollouts_completed, "last_reward", reward,
                     "last_task_id", e->last_task_id, "last_sandbox_id", e->last_sandbox_id);
}
