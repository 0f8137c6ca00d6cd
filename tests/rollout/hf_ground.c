/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/rollout/hf_ground.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/json.h"
#include "base/mem.h"
#include "tests/sandbox/hf_hub.h"
#include "tests/sandbox/local_world.h"
#include "tests/testing.h"

struct hf_ground hf_ground;
static void *model_ground;

void hf_ground_assert_outcome(const struct rollout_result *r, const char *status,
                              const char *cause) {
    if (strcmp(r->status, status) != 0 || strcmp(r->cause ? r->cause : "-", cause) != 0) {
        AUTO_FREE char *text = json_dumps(r->json, JSON_INDENT(1));
        fail_msg("want %s/%s, got %s/%s: %s\n%s", status, cause, r->status,
                 r->cause ? r->cause : "-", r->error ? r->error : "", text);
    }
}

const char *hf_ground_text(const json_t *object, const char *field) {
    const char *text = json_string_value(json_object_get(object, field));
    return text ? text : "";
}

json_int_t hf_ground_int(const struct rollout_result *r, const char *field) {
    return json_integer_value(json_object_get(r->json, field));
}

/* A port that nobody else gets: bound, it can still be listened at by who shares the address. */
static int reserve_port(void) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof at;
    int yes = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes), 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &n), 0);
    return ntohs(at.sin_port);
}

bool hf_ground_begin(const char *words, const char *script) {
    cmocka_set_message_output(CM_OUTPUT_TAP);
    world_enter(/* as_user= */ false);
    assert_int_equal(ground_set_up(&model_ground), 0);
    model_start(&hf_ground.model, model_ground, script);
    hub_reach((int)strtol(strrchr(hf_ground.model.url, ':') + 1, NULL, 10));
    hf_ground.public_port = reserve_port();
    hub_reach(hf_ground.public_port);
    hf_ground.mounts = json_pack("[s]", SOURCE_ROOT "/tests/rollout/call.py:/opt/call.py");
    if (hub_start(words)) {
        return true;
    }
    (void)printf("1..0 # SKIP no fake Hub here\n");
    return false;
}

int hf_ground_end(int failed) {
    hub_stop();
    model_stop(&hf_ground.model);
    ground_take_down(&model_ground);
    json_decref(hf_ground.mounts);
    return world_leave() ? failed : 1;
}

int hf_ground_set_up(void **state) {
    hub_set_faults("[]");
    int r = ground_set_up(state);
    struct ground *g = *state;
    g->options.backend = "hf";
    g->options.logprobs_processed = true; /* The scripted model's are. */
    g->config.agent.base_url = hf_ground.model.url;
    g->config.agent.model = "scripted";
    g->config.agent.sandbox_home = "/root";
    g->config.agent.mounts = hf_ground.mounts;
    return r;
}
