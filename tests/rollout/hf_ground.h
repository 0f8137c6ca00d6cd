/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_TESTS_ROLLOUT_HF_GROUND_H
#define SNAFFLE_TESTS_ROLLOUT_HF_GROUND_H

#include <jansson.h>
#include <stdbool.h>

#include "tests/rollout/model.h"

/* What tests of rollouts in sandboxes of a fake Hub stand on: one Hub and one scripted model, which
 * its jobs reach. */
struct hf_ground {
    struct model model;
    int public_port; /* Of this machine's loopback; jobs reach it, and nobody else gets it. */
    json_t *mounts;  /* tests/rollout/call.py at /opt/call.py */
};
extern struct hf_ground hf_ground;

/* With the Hub's words and the model's script, a file. false, having said so in TAP: not here. */
bool hf_ground_begin(const char *words, const char *script);
int hf_ground_end(int failed); /* Gives the exit status. */

int hf_ground_set_up(void **state); /* Beside ground_take_down. */

const char *hf_ground_text(const json_t *object, const char *field); /* "" where there is none. */
json_int_t hf_ground_int(const struct rollout_result *r, const char *field);
/* "-": no cause. */
void hf_ground_assert_outcome(const struct rollout_result *r, const char *status,
                              const char *cause);

#endif
