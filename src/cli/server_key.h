/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_CLI_SERVER_KEY_H
#define SNAFFLE_CLI_SERVER_KEY_H

#include <stdbool.h>

#include "base/err.h"
#include "base/sv.h"

#define SERVER_KEY_MAX 4096 /* Keys have some hundred bytes. */

/* A key for as long as a server needs it, and where it came from. Its holder wipes it. */
struct server_key {
    const char *command; /* For messages; set by the holder. */
    char text[SERVER_KEY_MAX];
    const char *name; /* NULL: there is none. */
};

/* Without line ends behind it; ERR_INPUT for what is no key. `name`: where it is from; kept. */
int server_key_set(struct server_key *key, const char *name, struct sv text,
                   struct err *err) CHECK_RESULT;

/* The key that clients must show: of the file if `path` is given, else of the variable, else none.
 */
int server_key_find(const char *path, const char *variable, struct server_key *key,
                    struct err *err) CHECK_RESULT;
/* The same of a variable that the operator named, and that has to be set. */
int server_key_of(const char *variable, struct server_key *key, struct err *err) CHECK_RESULT;

bool server_key_is_loopback(const char *host); /* Needs no key; NULL is. */

#endif
