/* SPDX-License-Identifier: BSD-3-Clause */
/* What a specification asks of the Hub, looked at before anything is made. */
#include <ctype.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "sandbox/hf/hf.h"

#define WORD_MAX 200 /* Of an image's, a flavor's or a namespace's name: the Hub's are shorter. */
#define START_MAX_S 3600 /* A large image comes within minutes; an hour is a mistake. */
#define RESERVED "SBX_"  /* Variables of the sandbox's server begin so. */

static const char *const space_addresses[] = {
    "https://huggingface.co/spaces/",
    "https://hf.co/spaces/",
    "huggingface.co/spaces/",
    "hf.co/spaces/",
};

const char *hf_space_of(const char *image) {
    for (size_t i = 0; i < ARRAY_LEN(space_addresses); i++) {
        size_t n = strlen(space_addresses[i]);
        if (strncmp(image, space_addresses[i], n) == 0) {
            return image + n;
        }
    }
    return NULL;
}

/* Letters, digits and `signs`, which don't stand at its front. */
static int check_word(const char *field, const char *text, const char *signs, const char *example,
                      struct err *err) {
    size_t n = 0;
    while (text[n] && (isalnum((unsigned char)text[n]) || strchr(signs, text[n]))) {
        n++;
    }
    if (n > 0 && !text[n] && n <= WORD_MAX && isalnum((unsigned char)text[0])) {
        return 0;
    }
    return err_set(err, ERR_INPUT, "%s: '%.80s' is none (one is '%s')", field, text, example);
}

static int check_words(const struct sandbox_machine *m, struct err *err) {
    int r = m->image ? check_word("image", m->image, "._-/:@", HF_IMAGE_DEFAULT, err) : 0;
    if (r == 0 && m->flavor) {
        r = check_word("flavor", m->flavor, "-", HF_FLAVOR_DEFAULT, err);
    }
    if (r == 0 && m->namespace) {
        r = check_word("namespace", m->namespace, "._-", "my-org", err);
    }
    if (r == 0 && m->user && strcmp(m->user, "root") != 0 && strcmp(m->user, "agent") != 0) {
        return err_set(err, ERR_INPUT, "agent_user: '%.80s' is none (use root or agent)", m->user);
    }
    return r;
}

static bool is_name(const char *name) {
    size_t n = 0;
    while (isalnum((unsigned char)name[n]) || name[n] == '_') {
        n++;
    }
    return n > 0 && !name[n] && !isdigit((unsigned char)name[0]);
}

static int check_variables(const char *field, const json_t *variables, struct err *err) {
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)variables, name, value) {
        if (!is_name(name)) {
            return err_set(err, ERR_INPUT, "%s: '%.80s' is no name of a variable", field, name);
        }
        if (strncmp(name, RESERVED, strlen(RESERVED)) == 0) {
            return err_set(err, ERR_INPUT,
                           "%s: %s: names that begin with '" RESERVED
                           "' are the sandbox's server's",
                           field, name);
        }
        if (!json_is_string(value)) {
            return err_set(err, ERR_INPUT, "%s: %s: want a string", field, name);
        }
    }
    return 0;
}

/* The Hub shows a job's environment to all who see the account, and its secrets to nobody. */
static int check_secrecy(const struct sandbox_machine *m, struct err *err) {
    const char *name;
    json_t *value;
    if (json_object_get(m->env, "HF_TOKEN")) {
        return err_set(err, ERR_INPUT,
                       "env: HF_TOKEN would be shown by the Hub: give it among the secrets");
    }
    if (m->forward_token && json_object_get(m->secrets, "HF_TOKEN")) {
        return err_set(err, ERR_INPUT,
                       "secrets: HF_TOKEN and forward_hf_token are two tokens: give one");
    }
    json_object_foreach((json_t *)m->secrets, name, value) {
        if (json_object_get(m->env, name)) {
            return err_set(err, ERR_INPUT, "secrets: %s stands in env too: give it once", name);
        }
    }
    return 0;
}

int hf_machine_check(const struct sandbox_machine *m, struct err *err) {
    int r = check_words(m, err);
    r = r < 0 ? r : check_variables("env", m->env, err);
    r = r < 0 ? r : check_variables("secrets", m->secrets, err);
    r = r < 0 ? r : check_secrecy(m, err);
    if (r == 0 && !(m->start_s >= 0 && m->start_s <= START_MAX_S)) {
        r = err_set(err, ERR_INPUT, "start_timeout_s: want a number up to %d, got %g", START_MAX_S,
                    m->start_s);
    }
    AUTO_JSON json_t *volumes = json_array();
    return r < 0 ? r : hf_volumes_add(m->volumes, volumes, err);
}

bool hf_machine_is_root(const struct sandbox_machine *m) {
    return !m->user || strcmp(m->user, "agent") != 0;
}
