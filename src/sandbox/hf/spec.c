/* SPDX-License-Identifier: BSD-3-Clause */
/* The job that a sandbox is: its bootstrap, its labels, its time. */
#include <string.h>

#include "base/env.h"
#include "base/host.h"
#include "base/json.h"
#include "base/mem.h"
#include "sandbox/hf/hf.h"

/* Of sbx-server's third protocol, as the official client of version 2 pins it. */
#define SERVER_SHA256 "eb2b04f79fbe765195300aaf1582be2a2a9ea698ff067d0cab428171d5584932"
#define BUCKET "huggingface/sbx-server"
#define MOUNT "/.hf-sbx-server"
#define LIFETIME_MARGIN_S 120 /* To read the journal back and tear down. */
#define LIFETIME_MAX_S 86400  /* What the Hub gives at most. */
#define IDLE_S "600"          /* The server's own watch, beside the job's time. */

/* The job's first process: brings the server, checks what came, and becomes it. */
static const char bootstrap[] =
    "set -eu; at=/tmp/.sbx-server\n"
    "if command -v wget >/dev/null 2>&1; then wget -q -O $at \"$SBX_SERVER_URL\"\n"
    "elif command -v curl >/dev/null 2>&1; then curl -sSfL -o $at \"$SBX_SERVER_URL\"\n"
    "else cp \"$SBX_SERVER_MOUNT/${SBX_SERVER_URL##*/}\" $at; fi\n"
    "if command -v sha256sum >/dev/null 2>&1; then sum=$(sha256sum <$at)\n"
    "else sum=$(openssl dgst -sha256 -r <$at); fi\n"
    "[ \"${sum%% *}\" = \"$SBX_SERVER_SHA256\" ] || { echo \"the sandbox's server is not the one "
    "that is pinned: ${sum%% *}\"; exit 1; }\n"
    "chmod 755 $at; unset SBX_SERVER_URL SBX_SERVER_MOUNT SBX_SERVER_SHA256; exec $at\n";

/* What the user gives first: the server's own weigh more. */
static json_t *environment(const struct hf_hub *h, const struct sandbox_spec *spec,
                           const char *home) {
    const char *pinned = env_get("HF_SANDBOX_SERVER_SHA256");
    const char *sha256 = pinned ? pinned : SERVER_SHA256;
    json_t *o = spec->machine.env ? json_copy((json_t *)spec->machine.env) : json_object();
    AUTO_JSON json_t *own = json_pack(
        "{s:s, s:s, s:o, s:s, s:s, s:s}", "SBX_PORT", "49983", "SBX_IDLE_TIMEOUT", IDLE_S,
        "SBX_SERVER_URL",
        json_sprintf("%s/buckets/" BUCKET "/resolve/sbx-server-%s", hf_hub_endpoint(h), sha256),
        "SBX_SERVER_MOUNT", MOUNT, "SBX_SERVER_SHA256", sha256, HF_HOME_VARIABLE, home);
    if (!own || json_object_update(o, own) < 0) {
        json_decref(o);
        return NULL;
    }
    return o;
}

static json_t *secrets(const struct hf_hub *h, const struct sandbox_spec *spec, const char *nonce) {
    AUTO_FREE char *token = hf_server_token(hf_hub_token(h), nonce);
    json_t *o = spec->machine.secrets ? json_copy((json_t *)spec->machine.secrets) : json_object();
    int r = token ? json_object_set_new(o, "SBX_TOKEN", json_string(token)) : -1;
    if (r == 0 && spec->machine.forward_token) {
        r = json_object_set_new(o, "HF_TOKEN", json_string(hf_hub_token(h)));
    }
    if (token) {
        explicit_bzero(token, strlen(token));
    }
    if (r < 0) {
        json_decref(o);
        return NULL;
    }
    return o;
}

static json_t *volumes(const struct sandbox_spec *spec) {
    struct err checked = {0}; /* hf_machine_check has. */
    json_t *list = json_pack("[{s:s, s:s, s:s, s:b}]", "type", "bucket", "source", BUCKET,
                             "mountPath", MOUNT, "readOnly", 1);
    if (list && hf_volumes_add(spec->machine.volumes, list, &checked) < 0) {
        json_decref(list);
        return NULL;
    }
    return list;
}

/* Letters, digits, '.', '-', '_', at most 100: what ours are. */
static json_t *labels(const struct sandbox_spec *spec, const char *nonce) {
    char host[HOST_LABEL_MAX + 1];
    char process[HOST_PROCESS_MAX + 1];
    host_label(host);
    host_process(process);
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s}", HF_LABEL, "1",
                     "hf-sandbox", "1", "hf-sandbox-mode", "dedicated", HF_LABEL_NONCE, nonce,
                     "snaffle-owner", spec->owner, "snaffle-run", spec->run, "snaffle-rollout",
                     spec->rollout, "snaffle-host", host, "snaffle-process", process, HF_LABEL_USER,
                     hf_machine_is_root(&spec->machine) ? "root" : "agent");
}

static json_int_t lifetime(const struct sandbox_spec *spec) {
    double s = spec->lifetime_s + LIFETIME_MARGIN_S;
    return (json_int_t)(s < LIFETIME_MAX_S ? s : LIFETIME_MAX_S);
}

json_t *hf_spec(const struct hf_hub *h, const struct sandbox_spec *spec, const char *home,
                const char *nonce) {
    const struct sandbox_machine *m = &spec->machine;
    const char *image = m->image ? m->image : HF_IMAGE_DEFAULT;
    const char *space = hf_space_of(image);
    return json_pack("{s:[sss], s:[], s:o, s:s, s:o, s:I, s:o, s:o, s:{s:[i]}, s:s}", "command",
                     "/bin/sh", "-c", bootstrap, "arguments", "environment",
                     environment(h, spec, home), "flavor",
                     m->flavor ? m->flavor : HF_FLAVOR_DEFAULT, "secrets", secrets(h, spec, nonce),
                     "timeoutSeconds", lifetime(spec), "labels", labels(spec, nonce), "volumes",
                     volumes(spec), "expose", "ports", HF_SERVER_PORT,
                     space ? "spaceId" : "dockerImage", space ? space : image);
}
