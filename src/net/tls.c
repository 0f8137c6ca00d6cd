/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
/* OpenSSL has a type of the name of one of our error codes; it is not used here. */
#define ERR_STATE openssl_error_state
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#undef ERR_STATE
#include <stdlib.h>
#include <unistd.h>

#include "base/env.h"
#include "base/mem.h"

struct tls_context {
    SSL_CTX *ssl;
};

struct tls {
    SSL *ssl;
};

static int load_file(SSL_CTX *ctx, const char *path, struct err *err) {
    if (SSL_CTX_load_verify_locations(ctx, path, NULL) != 1) {
        return err_set(err, ERR_INPUT, "cannot read certificates from '%s'", path);
    }
    return 0;
}

/* Other distributions than the one OpenSSL was built for keep their certificates elsewhere; a
 * static binary meets them all. */
static int load_system(SSL_CTX *ctx, struct err *err) {
    static const char *const bundles[] = {
        "/etc/ssl/certs/ca-certificates.crt",
        "/etc/pki/tls/certs/ca-bundle.crt",
        "/etc/ssl/ca-bundle.pem",
        "/etc/ssl/cert.pem",
    };
    bool has_default = access(X509_get_default_cert_dir(), R_OK) == 0 ||
                       access(X509_get_default_cert_file(), R_OK) == 0;
    if (SSL_CTX_set_default_verify_paths(ctx) != 1) {
        return err_set(err, ERR_ENVIRONMENT, "cannot use the system's certificates");
    }
    for (size_t i = 0; !has_default && i < ARRAY_LEN(bundles); i++) {
        if (access(bundles[i], R_OK) == 0) {
            return load_file(ctx, bundles[i], err);
        }
    }
    return 0; /* With none at all each handshake fails and says why. */
}

static struct sv roots; /* Built in; empty: none. */

void tls_set_roots(struct sv der) {
    roots = der;
}

static int load_roots(SSL_CTX *ctx, struct err *err) {
    X509_STORE *store = SSL_CTX_get_cert_store(ctx);
    const unsigned char *at = (const unsigned char *)roots.p;
    const unsigned char *end = at + roots.n;
    while (at < end) {
        X509 *certificate = d2i_X509(NULL, &at, end - at);
        int added = certificate ? X509_STORE_add_cert(store, certificate) : 0;
        X509_free(certificate);
        if (added != 1) {
            return err_set(err, ERR_INTERNAL, "cannot read the certificates that are built in");
        }
    }
    return 0;
}

static int load_trust(SSL_CTX *ctx, const char *ca_file, struct err *err) {
    const char *file = ca_file ? ca_file : env_get("SSL_CERT_FILE");
    const char *dir = ca_file ? NULL : env_get("SSL_CERT_DIR");
    if (!file && !dir) {
        return roots.n > 0 ? load_roots(ctx, err) : load_system(ctx, err);
    }
    int r = file ? load_file(ctx, file, err) : 0;
    if (r == 0 && dir && SSL_CTX_load_verify_locations(ctx, NULL, dir) != 1) {
        r = err_set(err, ERR_INPUT, "cannot read certificates from '%s'", dir);
    }
    return r;
}

int tls_context_new(const char *ca_file, struct tls_context **out, struct err *err) {
    static const unsigned char alpn[] = "\x08http/1.1";
    SSL_CTX *ssl = SSL_CTX_new(TLS_client_method());
    struct tls_context *ctx = calloc(1, sizeof *ctx);
    if (!ssl || !ctx) {
        SSL_CTX_free(ssl);
        free(ctx);
        return err_set(err, ERR_NOMEM, "no memory for TLS");
    }
    ctx->ssl = ssl;
    SSL_CTX_set_min_proto_version(ssl, TLS1_2_VERSION);
    SSL_CTX_set_verify(ssl, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_options(ssl, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
    SSL_CTX_set_mode(ssl, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                              SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_alpn_protos(ssl, alpn, sizeof alpn - 1);
    int r = load_trust(ssl, ca_file, err);
    ERR_clear_error();
    if (r < 0) {
        tls_context_free(ctx);
        return r;
    }
    *out = ctx;
    return 0;
}

void tls_context_free(struct tls_context *ctx) {
    if (ctx) {
        SSL_CTX_free(ctx->ssl);
        free(ctx);
    }
}

static bool is_address(const char *host) {
    struct in6_addr addr;
    return inet_pton(AF_INET, host, &addr) == 1 || inet_pton(AF_INET6, host, &addr) == 1;
}

/* Partial wildcards ("a*.example") are long out of use and only help who abuses them. */
static int set_peer(SSL *ssl, const char *host) {
    if (is_address(host)) {
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host);
    }
    SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return SSL_set1_host(ssl, host) && SSL_set_tlsext_host_name(ssl, host);
}

int tls_new(struct tls_context *ctx, int fd, const char *host, struct tls **out, struct err *err) {
    struct tls *t = calloc(1, sizeof *t);
    SSL *ssl = t ? SSL_new(ctx->ssl) : NULL;
    if (!ssl || SSL_set_fd(ssl, fd) != 1 || set_peer(ssl, host) != 1) {
        SSL_free(ssl);
        free(t);
        ERR_clear_error();
        return err_set(err, ERR_NOMEM, "cannot set up TLS to '%s'", host);
    }
    SSL_set_connect_state(ssl);
    t->ssl = ssl;
    *out = t;
    return 0;
}

void tls_free(struct tls *t) {
    if (t) {
        SSL_free(t->ssl);
        free(t);
    }
}

static int handshake_error(struct tls *t, int errnum, struct err *err) {
    long verify = SSL_get_verify_result(t->ssl);
    const char *reason = ERR_reason_error_string(ERR_peek_error());
    if (verify != X509_V_OK) {
        return err_set(err, ERR_CONNECT, "TLS: the certificate is refused: %s",
                       X509_verify_cert_error_string(verify));
    }
    if (reason) {
        return err_set(err, ERR_CONNECT, "TLS: the handshake failed: %s", reason);
    }
    return err_sys(err, ERR_CONNECT, errnum ? errnum : ECONNRESET, "TLS: the handshake failed");
}

int tls_handshake(struct tls *t, struct err *err) {
    ERR_clear_error();
    errno = 0;
    int r = SSL_do_handshake(t->ssl);
    int errnum = errno;
    if (r == 1) {
        return 0;
    }
    int why = SSL_get_error(t->ssl, r);
    if (why == SSL_ERROR_WANT_READ) {
        return TLS_WANT_READ;
    }
    if (why == SSL_ERROR_WANT_WRITE) {
        return TLS_WANT_WRITE;
    }
    return handshake_error(t, errnum, err);
}

static ssize_t io_error(int why, int errnum, struct err *err) {
    if (why == SSL_ERROR_WANT_READ) {
        return TLS_WANT_READ;
    }
    if (why == SSL_ERROR_WANT_WRITE) {
        return TLS_WANT_WRITE;
    }
    if (why == SSL_ERROR_SYSCALL && errnum) {
        return err_sys(err, ERR_CLOSED, errnum, "TLS: the connection was lost");
    }
    const char *reason = ERR_reason_error_string(ERR_peek_error());
    return err_set(err, ERR_CLOSED, "TLS: %s", reason ? reason : "the connection was lost");
}

ssize_t tls_read(struct tls *t, void *out, size_t n, bool *truncated, struct err *err) {
    ERR_clear_error();
    errno = 0;
    int got = SSL_read(t->ssl, out, n < INT_MAX ? (int)n : INT_MAX);
    int errnum = errno;
    if (got > 0) {
        return got;
    }
    int why = SSL_get_error(t->ssl, got);
    bool cut = why == SSL_ERROR_SSL &&
               ERR_GET_REASON(ERR_peek_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING;
    if (cut || why == SSL_ERROR_ZERO_RETURN) {
        *truncated = cut;
        return 0;
    }
    return io_error(why, errnum, err);
}

bool tls_has_pending(const struct tls *t) {
    return SSL_pending(t->ssl) > 0;
}

ssize_t tls_write(struct tls *t, struct sv bytes, struct err *err) {
    ERR_clear_error();
    errno = 0;
    int sent = SSL_write(t->ssl, bytes.p, bytes.n < INT_MAX ? (int)bytes.n : INT_MAX);
    int errnum = errno;
    return sent > 0 ? sent : io_error(SSL_get_error(t->ssl, sent), errnum, err);
}

void tls_close_notify(struct tls *t) {
    ERR_clear_error();
    (void)SSL_shutdown(t->ssl); /* The peer's answer is not waited for. */
    ERR_clear_error();
}
