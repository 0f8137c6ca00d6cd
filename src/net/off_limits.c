/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/off_limits.h"

#include <netinet/in.h>
#include <stddef.h>
#include <string.h>

#include "base/mem.h"

/* The first `bits` of `bytes` are the same. */
struct block {
    unsigned char bytes[16];
    unsigned bits;
};

static const struct block v4[] = {
    {{169, 254}, 16},           /* Link-local; most clouds' metadata. */
    {{100, 100, 100, 200}, 32}, /* Alibaba's. */
    {{168, 63, 129, 16}, 32},   /* Azure's wire server. */
    {{192, 0, 0, 192}, 32},     /* Oracle's classic one. */
};

static const struct block v6[] = {
    {{0xfe, 0x80}, 10},             /* Link-local. */
    {{0xfd, 0x00, 0x0e, 0xc2}, 32}, /* Amazon's. */
    {{0xfd, 0x20, 0x00, 0xce}, 32}, /* Google's. */
};

/* Where an IPv6 address of such a block carries one of IPv4. */
static const struct {
    struct block block;
    size_t at;
} carriers[] = {
    {{{[10] = 0xff, [11] = 0xff}, 96}, 12},           /* ::ffff:a.b.c.d */
    {{{[8] = 0xff, [9] = 0xff}, 96}, 12},             /* ::ffff:0:a.b.c.d */
    {{{0}, 96}, 12},                                  /* ::a.b.c.d */
    {{{0x00, 0x64, 0xff, 0x9b}, 96}, 12},             /* NAT64. */
    {{{0x00, 0x64, 0xff, 0x9b, 0x00, 0x01}, 48}, 12}, /* NAT64 of a network's own. */
    {{{0x20, 0x02}, 16}, 2},                          /* 6to4. */
};

static bool is_in(const unsigned char *a, const struct block *b) {
    size_t whole = b->bits / 8;
    unsigned rest = b->bits % 8;
    return memcmp(a, b->bytes, whole) == 0 &&
           (rest == 0 || (a[whole] ^ b->bytes[whole]) >> (8 - rest) == 0);
}

static bool is_any(const unsigned char *a, const struct block *blocks, size_t n) {
    bool found = false;
    for (size_t i = 0; i < n && !found; i++) {
        found = is_in(a, &blocks[i]);
    }
    return found;
}

bool address_is_off_limits(const struct sockaddr *a) {
    if (a->sa_family == AF_INET) {
        const struct sockaddr_in *in = (const void *)a;
        return is_any((const unsigned char *)&in->sin_addr, v4, ARRAY_LEN(v4));
    }
    if (a->sa_family != AF_INET6) {
        return false;
    }
    const unsigned char *bytes = ((const struct sockaddr_in6 *)(const void *)a)->sin6_addr.s6_addr;
    bool carries = false;
    for (size_t i = 0; i < ARRAY_LEN(carriers) && !carries; i++) {
        carries =
            is_in(bytes, &carriers[i].block) && is_any(bytes + carriers[i].at, v4, ARRAY_LEN(v4));
    }
    return carries || is_any(bytes, v6, ARRAY_LEN(v6));
}
