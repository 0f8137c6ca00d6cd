/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_TESTS_UNIT_NET_TLS_TESTING_H
#define SNAFFLE_TESTS_UNIT_NET_TLS_TESTING_H

/* A certificate authority, a server certificate for "localhost" (and no address), made on the spot,
 * and a blocking OpenSSL server in a thread. */

#include "tests/unit/net/net_testing.h"

#include <pthread.h>
#include <signal.h>
/* OpenSSL has a type of the name of one of our error codes. */
#define ERR_STATE openssl_error_state
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#undef ERR_STATE

struct tls_peer {
    SSL_CTX *ctx;
    int listen_fd;
    uint16_t port;
    pthread_t thread;
    char ca_path[64];
    /* Serves one connection; the handshake is done. Runs on the peer's thread. */
    void (*serve)(SSL *ssl);
};

static inline void tls_add_extension(X509 *cert, X509 *issuer, int nid, const char *value) {
    X509V3_CTX ctx;
    X509V3_set_ctx(&ctx, issuer, cert, NULL, NULL, 0);
    X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    assert_non_null(e);
    X509_add_ext(cert, e, -1);
    X509_EXTENSION_free(e);
}

static inline X509 *tls_make_cert(EVP_PKEY *key, const char *name, X509 *issuer,
                                  EVP_PKEY *issuer_key) {
    X509 *cert = X509_new();
    X509_set_version(cert, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(cert), issuer ? 2 : 1);
    X509_gmtime_adj(X509_getm_notBefore(cert), -60);
    X509_gmtime_adj(X509_getm_notAfter(cert), 3600);
    X509_set_pubkey(cert, key);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(cert), "CN", MBSTRING_ASC,
                               (const unsigned char *)name, -1, -1, 0);
    X509_set_issuer_name(cert, X509_get_subject_name(issuer ? issuer : cert));
    if (issuer) {
        tls_add_extension(cert, issuer, NID_subject_alt_name, "DNS:localhost");
    } else {
        tls_add_extension(cert, cert, NID_basic_constraints, "critical,CA:TRUE");
    }
    assert_true(X509_sign(cert, issuer_key, EVP_sha256()) > 0);
    return cert;
}

static inline void tls_make_identity(struct tls_peer *p) {
    EVP_PKEY *ca_key = EVP_EC_gen("P-256");
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *ca = tls_make_cert(ca_key, "test authority", NULL, ca_key);
    X509 *cert = tls_make_cert(key, "localhost", ca, ca_key);
    p->ctx = SSL_CTX_new(TLS_server_method());
    assert_int_equal(SSL_CTX_use_certificate(p->ctx, cert), 1);
    assert_int_equal(SSL_CTX_use_PrivateKey(p->ctx, key), 1);
    snprintf(p->ca_path, sizeof p->ca_path, "/tmp/snaffle-ca-XXXXXX");
    int fd = mkstemp(p->ca_path);
    FILE *f = fdopen(fd, "w");
    assert_non_null(f);
    assert_int_equal(PEM_write_X509(f, ca), 1);
    fclose(f);
    X509_free(ca);
    X509_free(cert);
    EVP_PKEY_free(ca_key);
    EVP_PKEY_free(key);
}

static inline void *tls_peer_run(void *arg) {
    struct tls_peer *p = arg;
    int fd = accept(p->listen_fd, NULL, NULL);
    SSL *ssl = SSL_new(p->ctx);
    SSL_set_fd(ssl, fd);
    if (fd >= 0 && SSL_accept(ssl) == 1) {
        p->serve(ssl);
    }
    SSL_free(ssl);
    if (fd >= 0) {
        close(fd);
    }
    return NULL;
}

static inline void tls_peer_start(struct tls_peer *p, void (*serve)(SSL *ssl)) {
    struct sockaddr_in a = {.sin_family = AF_INET};
    socklen_t n = sizeof a;
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    *p = (struct tls_peer){.serve = serve};
    signal(SIGPIPE, SIG_IGN);
    tls_make_identity(p);
    p->listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(p->listen_fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(p->listen_fd, 16), 0);
    assert_int_equal(getsockname(p->listen_fd, (struct sockaddr *)&a, &n), 0);
    p->port = ntohs(a.sin_port);
    assert_int_equal(pthread_create(&p->thread, NULL, tls_peer_run, p), 0);
}

static inline void tls_peer_stop(struct tls_peer *p) {
    shutdown(p->listen_fd, SHUT_RDWR); /* Ends an accept that nobody came for. */
    pthread_join(p->thread, NULL);
    close(p->listen_fd);
    SSL_CTX_free(p->ctx);
    unlink(p->ca_path);
}

#endif
