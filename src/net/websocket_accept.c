/* SPDX-License-Identifier: BSD-3-Clause */
/* The handshake: from an HTTP request to a stream of frames. */
#include "net/websocket_internal.h"

/* OpenSSL has a type of the name of one of our error codes; it is not used here. */
#define ERR_STATE openssl_error_state
#include <openssl/evp.h>
#undef ERR_STATE

#define KEY_GUID "258EAFA5-E914-47DA-95CA-C5AB0DC85B11" /* RFC 6455, 1.3 */
#define KEY_TEXT 24u                                    /* Sixteen bytes in Base64. */
#define ACCEPT_TEXT 28u                                 /* Twenty. */

bool websocket_is_asked(const struct exchange *x) {
    const struct http1_head *head = exchange_head(x);
    return head->upgrade && http1_lists(head, SV("Upgrade"), SV("websocket"));
}

static bool is_key(struct sv key) {
    unsigned char bytes[KEY_TEXT];
    return key.n == KEY_TEXT && sv_ends_with(key, SV("==")) &&
           EVP_DecodeBlock(bytes, (const unsigned char *)key.p, (int)key.n) >= 0;
}

static int accept_of(struct sv key, char out[ACCEPT_TEXT + 1]) {
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    AUTO_BUF struct buf text = {0};
    int r = buf_add_sv(&text, key);
    r = r < 0 ? r : buf_adds(&text, KEY_GUID);
    if (r < 0 || EVP_Digest(text.data, text.len, digest, &n, EVP_sha1(), NULL) != 1) {
        return ERR_NOMEM;
    }
    (void)EVP_EncodeBlock((unsigned char *)out, digest, (int)n);
    return 0;
}

static int refuse(struct exchange *x, int status, const char *why, struct err *err) {
    const struct server_field fields[] = {{SV("Content-Type"), SV("text/plain")},
                                          {SV("Sec-WebSocket-Version"), SV("13")}};
    struct sv text = sv_from(why);
    (void)exchange_start(x, status, fields, 2, HTTP1_LENGTH, text.n);
    (void)exchange_send(x, text);
    exchange_end(x);
    return err_set(err, ERR_PROTOCOL, "%s", why);
}

int websocket_accept(struct exchange *x, const struct websocket_options *o, struct websocket **out,
                     struct err *err) {
    const struct http1_head *head = exchange_head(x);
    struct sv key = http1_get(head, SV("Sec-WebSocket-Key"));
    char answer[ACCEPT_TEXT + 1];
    AUTO_BUF struct buf early = {0};
    AUTO_BUF struct buf text = {0};
    struct conn *conn = NULL;
    if (!sv_eq(http1_get(head, SV("Sec-WebSocket-Version")), SV("13"))) {
        return refuse(x, 426, "want Sec-WebSocket-Version: 13", err);
    }
    if (!sv_eq(head->method, SV("GET")) || head->minor == 0 || !websocket_is_asked(x) ||
        !is_key(key) || accept_of(key, answer) < 0) {
        return refuse(x, 400, "this is no WebSocket handshake", err);
    }
    int r = buf_addf(&text,
                     "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
                     "Connection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n",
                     answer);
    r = r < 0 ? r : exchange_send_raw(x, buf_sv(&text));
    if (r < 0) {
        exchange_cut(x, EXCHANGE_CUT_RESET);
        return err_set(err, r, "the client has left");
    }
    r = exchange_take(x, &conn, &early, err);
    return r < 0 ? r : websocket_new(conn, &early, o, out, err);
}
