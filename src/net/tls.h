/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_NET_TLS_H
#define SNAFFLE_NET_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/sv.h"

/*
 * TLS client over OpenSSL on a non-blocking socket. The peer's certificate and name are always
 * verified. Trust comes from `ca_file`, else SSL_CERT_FILE and SSL_CERT_DIR, else the system.
 */
struct tls_context; /* Shared by connections; immutable after its making, so by threads too. */
struct tls;         /* One connection's. */

/* Certificates to trust in place of the system's (not of those that a variable names), in DER one
 * behind the other. Kept. Called once, before other threads start. */
void tls_set_roots(struct sv der);

int tls_context_new(const char *ca_file, struct tls_context **out, struct err *err) CHECK_RESULT;
void tls_context_free(struct tls_context *ctx); /* Streams made from it live on. Accepts NULL. */

/* `fd` is kept (and not closed); `host` is a name (sent as SNI) or an address literal. */
int tls_new(struct tls_context *ctx, int fd, const char *host, struct tls **out,
            struct err *err) CHECK_RESULT;
void tls_free(struct tls *t);

/* What the stream waits for when it can't go on. */
enum { TLS_WANT_READ = -101, TLS_WANT_WRITE = -102 };

/* 0: done. TLS_WANT_*, or ERR_CONNECT with the reason ("certificate has expired"). */
int tls_handshake(struct tls *t, struct err *err) CHECK_RESULT;

/* > 0: bytes; 0: the stream ended, *truncated tells whether without the closing alert. TLS_WANT_*;
 * ERR_CLOSED. One record at most: call until TLS_WANT_READ. */
ssize_t tls_read(struct tls *t, void *out, size_t n, bool *truncated, struct err *err) CHECK_RESULT;
bool tls_has_pending(const struct tls *t); /* Bytes inside that no socket event will announce. */

/* Bytes taken (maybe fewer than given); after TLS_WANT_* the same bytes must be given first again,
 * at any address. ERR_CLOSED. */
ssize_t tls_write(struct tls *t, struct sv bytes, struct err *err) CHECK_RESULT;

/* Sends the closing alert if the socket takes it at once. */
void tls_close_notify(struct tls *t);

#endif
