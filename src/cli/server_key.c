/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/server_key.h"

#include <string.h>

#include "base/env.h"
#include "base/file.h"

int server_key_set(struct server_key *key, const char *name, struct sv text, struct err *err) {
    while (text.n > 0 && strchr("\r\n", text.p[text.n - 1])) {
        text.n--;
    }
    if (text.n == 0) {
        return err_set(err, ERR_INPUT, "%s: the key from %s is empty", key->command, name);
    }
    if (text.n >= sizeof key->text) {
        return err_set(err, ERR_INPUT, "%s: the key from %s has more than %d bytes", key->command,
                       name, SERVER_KEY_MAX - 1);
    }
    memcpy(key->text, text.p, text.n);
    key->text[text.n] = 0;
    key->name = name;
    for (size_t i = 0; i < text.n; i++) {
        if ((unsigned char)key->text[i] <= ' ' || key->text[i] == 0x7f) {
            return err_set(err, ERR_INPUT, "%s: the key from %s holds a blank or control byte",
                           key->command, name);
        }
    }
    return 0;
}

int server_key_find(const char *path, const char *variable, struct server_key *key,
                    struct err *err) {
    const char *value = env_get(variable);
    AUTO_BUF struct buf text = {0};
    if (!path) {
        return value ? server_key_set(key, variable, sv_from(value), err) : 0;
    }
    int rc = file_read(path, SERVER_KEY_MAX, &text, err);
    rc = rc < 0 ? rc : server_key_set(key, "--key-file", buf_sv(&text), err);
    if (text.data) {
        explicit_bzero(text.data, text.len);
    }
    return rc;
}

int server_key_of(const char *variable, struct server_key *key, struct err *err) {
    const char *value = env_get(variable);
    return value
               ? server_key_set(key, variable, sv_from(value), err)
               : err_set(err, ERR_USAGE, "%s: --key-env: '%s' is not set", key->command, variable);
}

bool server_key_is_loopback(const char *host) {
    return !host || strcmp(host, "localhost") == 0 || strcmp(host, "::1") == 0 ||
           strncmp(host, "127.", 4) == 0;
}
