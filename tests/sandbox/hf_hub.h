/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_TESTS_SANDBOX_HF_HUB_H
#define SNAFFLE_TESTS_SANDBOX_HF_HUB_H

#include <jansson.h>
#include <stdbool.h>

/*
 * A fake Hub of a test's own (tests/doubles/README.md), named to this process by HF_ENDPOINT and
 * HF_TOKEN. $SNAFFLE_FAKE_HUB and $SNAFFLE_SBX_DOUBLE are its programs.
 */

/* Starts it; `words` are those of --sbx-words. false where it can't work: not root, say, or no
 * program; the reason stands on stdout as a comment of TAP. */
bool hub_start(const char *words);
/* Before it: jobs see this port of the machine's loopback on their own. Three at most. */
void hub_reach(int port);
/* Before it: this folder lies over each job's system, as an image's. Kept. */
void hub_layer(const char *folder);
void hub_stop(void);

void hub_set_faults(const char *rules); /* JSON. */
json_t *hub_state(void);                /* The caller owns it. */
long hub_alive(void);                   /* Jobs that are not over. */
const char *hub_log_path(void);

#endif
