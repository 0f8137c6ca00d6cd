/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A name server that changes its mind, to be loaded before the C library: 'rebinds.test' stands for
 * 127.0.0.1 as often as REBINDS_AFTER says, and for 169.254.169.254 from then on. Every other name
 * is looked up as ever.
 */
#include <dlfcn.h>
#include <netdb.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

int getaddrinfo(const char *restrict node, const char *restrict service,
                const struct addrinfo *restrict hints, struct addrinfo **restrict list) {
    static atomic_long asked;
    int (*next)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
    *(void **)&next = dlsym(RTLD_NEXT, "getaddrinfo");
    if (node && strcmp(node, "rebinds.test") == 0) {
        const char *after = getenv("REBINDS_AFTER"); // NOLINT(concurrency-mt-unsafe)
        long good = after ? strtol(after, NULL, 10) : 0;
        node = atomic_fetch_add(&asked, 1) < good ? "127.0.0.1" : "169.254.169.254";
    }
    return next(node, service, hints, list);
}
