/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_TESTS_GATEWAY_AGENT_H
#define SNAFFLE_TESTS_GATEWAY_AGENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

/* A test's agent: one blocking connection to a gateway. */
struct agent {
    int fd;
    struct buf in; /* Read, not used yet. */
};

struct answer {
    int status;
    struct buf head;
    struct buf body; /* Without chunk framing. */
    bool has_end;    /* The framing says that it is whole. */
};

struct agent agent_connect_tcp(uint16_t port);
struct agent agent_connect_unix(const char *path);
void agent_close(struct agent *a);

void agent_send(struct agent *a, struct sv bytes);
/* POST with a bearer token (may be NULL) and a JSON body. */
void agent_post(struct agent *a, const char *path, const char *token, struct sv body);
void agent_get(struct agent *a, const char *path, const char *token);
/* Reads one whole answer, or what came before the connection's end. */
struct answer agent_read(struct agent *a);
/* Reads until the body holds `text` or ends; gives what came. */
struct answer agent_read_until(struct agent *a, const char *text);
void answer_deinit(struct answer *r);

#endif
