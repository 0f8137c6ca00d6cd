/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_TESTS_SANDBOX_GREETER_H
#define SNAFFLE_TESTS_SANDBOX_GREETER_H

#include <netinet/in.h>
#include <pthread.h>

#include "base/cancel.h"

/* A server of the host that says a word to whoever comes. */
struct greeter {
    int fd; /* Listening; closed at the end. */
    const char *word;
    struct cancel *end;
    pthread_t thread;
};

void greeter_begin(struct greeter *g);
void greeter_end(struct greeter *g);

/* Listens at a free port of the address, or at a name of the abstract unix sockets; -1 where the
 * machine has no such thing. */
int greeter_listen(struct in_addr address, unsigned *port);
int greeter_listen_6(const char *address, unsigned *port);
int greeter_listen_abstract(const char *name);

#endif
