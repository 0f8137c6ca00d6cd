/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_SERVER_ACCESS_H
#define SNAFFLE_SERVER_ACCESS_H

#include <stdbool.h>

#include "net/server.h"

/* Who may ask a server of ours that people and programs reach over HTTP. */
struct access {
    const char *key; /* NULL: none is asked for. */
    bool is_public;  /* It listens elsewhere than on loopback. */
};

enum access_verdict {
    ACCESS_GRANTED,
    ACCESS_NO_KEY,     /* 401: a key is needed, and was not shown or is wrong. */
    ACCESS_BAD_ORIGIN, /* 403: a page of another site asks, in its reader's name. */
};

/*
 * A key comes as "Authorization: Bearer", as X-Api-Key, or as the path's prefix /k/<key>, for
 * clients that can send no header. *path is the exchange's without that prefix.
 */
enum access_verdict access_judge(const struct access *a, const struct exchange *x, struct sv *path);

/* "localhost", 127.x, ::1, with or without brackets and port. */
bool access_is_loopback(struct sv host);

#endif
