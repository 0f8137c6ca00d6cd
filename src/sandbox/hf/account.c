/* SPDX-License-Identifier: BSD-3-Clause */
#include "sandbox/hf/account.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/env.h"
#include "base/file.h"
#include "base/mem.h"

#define ENDPOINT "https://huggingface.co"
#define ENDPOINT_STAGING "https://hub-ci.huggingface.co"
#define TOKEN_FILE_MAX 4096 /* A token has 37 bytes; OAuth's have some hundred. */

static bool is_true(const char *text) {
    static const char *const words[] = {"1", "ON", "YES", "TRUE"};
    for (size_t i = 0; text && i < ARRAY_LEN(words); i++) {
        if (strcasecmp(text, words[i]) == 0) {
            return true;
        }
    }
    return false;
}

static char *endpoint(void) {
    const char *named = env_get("HF_ENDPOINT");
    const char *text = is_true(env_get("HUGGINGFACE_CO_STAGING")) ? ENDPOINT_STAGING
                       : named                                    ? named
                                                                  : ENDPOINT;
    size_t n = strlen(text);
    while (n > 0 && text[n - 1] == '/') {
        n--;
    }
    return mem_strndup(text, n);
}

/* "~" and "$NAME" at the beginning, as people write them in these variables. */
static char *expanded(const char *path) {
    if (path[0] == '~' && (path[1] == '/' || !path[1])) {
        const char *home = env_get("HOME");
        return mem_printf("%s%s", home ? home : "", path + 1);
    }
    if (path[0] == '$') {
        size_t n = strcspn(path + 1, "/");
        AUTO_FREE char *name = mem_strndup(path + 1, n);
        const char *value = name ? env_get(name) : NULL;
        return mem_printf("%s%s", value ? value : "", path + 1 + n);
    }
    return mem_strdup(path);
}

static char *token_path(void) {
    const char *path = env_get("HF_TOKEN_PATH");
    if (path) {
        return expanded(path);
    }
    const char *home = env_get("HF_HOME");
    const char *cache = env_get("XDG_CACHE_HOME");
    AUTO_FREE char *dir = home    ? expanded(home)
                          : cache ? mem_printf("%s/huggingface", cache)
                                  : expanded("~/.cache/huggingface");
    return dir ? file_join(dir, "token") : NULL;
}

/* Without line ends and blanks around it; NULL when nothing is left. */
static char *cleaned(const char *text) {
    AUTO_FREE char *copy = mem_strdup(text);
    size_t n = 0;
    for (const char *c = text; copy && *c; c++) {
        if (*c != '\r' && *c != '\n') {
            copy[n++] = *c;
        }
    }
    struct sv rest = sv_trim((struct sv){copy, n});
    return copy && rest.n > 0 ? mem_strndup(rest.p, rest.n) : NULL;
}

static char *token_of_file(struct err *err) {
    AUTO_BUF struct buf text = {0};
    AUTO_FREE char *path = token_path();
    if (!path || !file_exists(path) || file_read(path, TOKEN_FILE_MAX, &text, err) < 0) {
        return NULL;
    }
    return cleaned(buf_cstr(&text));
}

int hf_account_open(const char *token, struct hf_account *out, struct err *err) {
    const char *const given[] = {token, env_get("HF_TOKEN"), env_get("HUGGING_FACE_HUB_TOKEN")};
    struct hf_account a = {.endpoint = endpoint()};
    if (!token && env_get("HF_OIDC_RESOURCE")) {
        hf_account_deinit(&a);
        return err_set(err, ERR_UNSUPPORTED,
                       "HF_OIDC_RESOURCE (a token exchange of CI) is not spoken: set HF_TOKEN");
    }
    for (size_t i = 0; !a.token && i < ARRAY_LEN(given); i++) {
        a.token = given[i] ? cleaned(given[i]) : NULL;
    }
    struct err why = {0};
    if (!a.token) {
        a.token = token_of_file(&why);
    }
    if (!a.endpoint || !a.token) {
        hf_account_deinit(&a);
        return err_set(err, ERR_ENVIRONMENT,
                       "no Hugging Face token%s%s: set HF_TOKEN, or log in with the hf program",
                       why.code ? ": " : "", why.code ? why.msg : "");
    }
    *out = a;
    return 0;
}

void hf_account_deinit(struct hf_account *a) {
    free(a->endpoint);
    if (a->token) {
        explicit_bzero(a->token, strlen(a->token));
    }
    free(a->token);
    *a = (struct hf_account){0};
}
