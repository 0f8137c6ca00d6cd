/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/machine.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>

#include "agent/agent.h"
#include "agent/install.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/proc.h"
#include "rollout/agents.h"
#include "rollout/catalog.h"
#include "sandbox/sandbox.h"
#include "sandbox/state.h"

#define DISK_MB_WANTED 4096.0 /* Two sandboxes of the default size. */
#define TRIAL_S 30        /* A sandbox starts in milliseconds; a loaded machine gets its time. */
#define FILES_WANTED 4096 /* A hundred rollouts: each has some twenty descriptors open. */

void machine_check_system(struct findings *f) {
    struct utsname u;
    if (uname(&u) == 0) {
        findings_addf(f, FINDING_OK, "system", NULL, "%s %s on %s", u.sysname, u.release,
                      u.machine);
    }
}

/* What a sandbox of this machine really enforces, by its own word. */
static void check_isolation(struct findings *f) {
    struct err err = {0};
    struct sandbox *s = NULL;
    struct sandbox_spec spec = {.owner = "doctor", .run = "doctor", .rollout = "doctor"};
    if (sandbox_create(&sandbox_local, &spec, deadline_in_s(TRIAL_S), NULL, &s, &err) < 0) {
        findings_add(f, FINDING_LACKS, "sandbox", err.msg, NULL);
        return;
    }
    AUTO_JSON json_t *isolation = sandbox_isolation(s);
    const char *name = NULL;
    json_t *value = NULL;
    json_object_foreach(isolation, name, value) {
        const char *text = json_string_value(value);
        bool holds = text && strncmp(text, "enforced", strlen("enforced")) == 0;
        findings_addf(f, holds ? FINDING_OK : FINDING_NOTE, "isolation", NULL, "%s: %s", name,
                      text ? text : "");
    }
    if (sandbox_kill(s, &err) < 0) {
        findings_add(f, FINDING_LACKS, "sandbox", err.msg, "snaffle gc");
    }
    sandbox_free(s);
}

void machine_check_sandbox(struct findings *f) {
    struct err err = {0};
    AUTO_FREE char *bwrap = proc_find("bwrap");
    if (!bwrap) {
        findings_add(f, FINDING_LACKS, "bubblewrap", "bwrap is not in PATH",
                     "apt-get install bubblewrap");
        return;
    }
    findings_add(f, FINDING_OK, "bubblewrap", bwrap, NULL);
    if (sandbox_local.check(&err) < 0) {
        findings_add(f, FINDING_LACKS, "sandbox", err.msg, NULL);
    } else {
        findings_add(f, FINDING_OK, "sandbox", "a trial sandbox started and held", NULL);
        check_isolation(f);
    }
}

void machine_check_network(struct findings *f) {
    static const char *const programs[] = {"pasta", "slirp4netns"};
    for (size_t i = 0; i < ARRAY_LEN(programs); i++) {
        AUTO_FREE char *path = proc_find(programs[i]);
        if (path) {
            findings_addf(f, FINDING_OK, "network full", NULL, "through %s", path);
            return;
        }
    }
    findings_add(f, FINDING_NOTE, "network full",
                 "neither pasta nor slirp4netns is there: setup has no outside network",
                 "apt-get install passt");
}

static void check_disk(struct findings *f, const char *dir) {
    struct statvfs fs;
    if (statvfs(dir, &fs) < 0) {
        return; /* The folder itself was told of before. */
    }
    double free_mb = (double)fs.f_bavail * (double)fs.f_frsize / (1024 * 1024);
    findings_addf(f, free_mb < DISK_MB_WANTED ? FINDING_NOTE : FINDING_OK, "disk",
                  free_mb < DISK_MB_WANTED ? "free some, or set SNAFFLE_STATE to a larger disk"
                                           : NULL,
                  "%.1f GB free at '%s'", free_mb / 1024, dir);
}

void machine_check_state(struct findings *f) {
    struct err err = {0};
    AUTO_FREE char *dir = NULL;
    AUTO_FREE char *guest = NULL;
    if (state_dir(&dir, &err) < 0) {
        findings_add(f, FINDING_LACKS, "state", err.msg, "set SNAFFLE_STATE to a folder of yours");
        return;
    }
    findings_add(f, FINDING_OK, "state", dir, NULL);
    check_disk(f, dir);
    if (state_guest(dir, &guest, &err) < 0) {
        findings_add(f, FINDING_LACKS, "guest", err.msg, "build or install snaffle anew");
    } else {
        findings_add(f, FINDING_OK, "guest", guest, NULL);
    }
}

void machine_check_agents(struct findings *f) {
    AUTO_FREE char *npm = proc_find("npm");
    AUTO_FREE char *cache = NULL;
    struct err err = {0};
    bool missing = false;
    if (rollout_agents_dir(&cache, &err) < 0) {
        return; /* The state directory was told of before. */
    }
    for (const char *const *name = agent_names; *name; name++) {
        struct agent_installed i = {0};
        if (!agent_find(*name)->mount_path) {
            continue;
        }
        if (agent_find_installed(cache, agent_find(*name), NULL, &i, &err) < 0) {
            findings_add(f, FINDING_LACKS, *name, err.msg, NULL);
            missing = true;
        } else {
            findings_addf(f, FINDING_OK, *name, NULL, "%s at %s", i.version, i.program);
        }
        agent_installed_deinit(&i);
    }
    if (npm) {
        findings_add(f, FINDING_OK, "npm", npm, NULL);
    } else {
        findings_add(f, missing ? FINDING_LACKS : FINDING_NOTE, "npm",
                     "npm is not in PATH: agents can't be installed", "apt-get install npm");
    }
}

void machine_check_endpoints(struct findings *f) {
    AUTO_JSON json_t *all = catalog_summary();
    size_t i = 0;
    const json_t *entry = NULL;
    size_t configured = 0;
    json_array_foreach(all, i, entry) {
        if (json_is_true(json_object_get(entry, "configured"))) {
            const char *kind = json_string_value(json_object_get(entry, "kind"));
            findings_addf(f, FINDING_OK, "endpoint", NULL, "%s is configured", kind);
            configured++;
        }
    }
    if (configured == 0) {
        findings_add(f, FINDING_NOTE, "endpoint", "the environment and .env configure none",
                     "set VLLM_URL or OPENAI_API_KEY or HF_ROUTER_API_KEY, or use --base-url");
    }
}

void machine_check_limits(struct findings *f) {
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) < 0) {
        return;
    }
    bool few = files.rlim_max != RLIM_INFINITY && files.rlim_max < FILES_WANTED;
    findings_addf(f, few ? FINDING_NOTE : FINDING_OK, "open files",
                  few ? "raise it with 'ulimit -Hn' for many rollouts at once" : NULL,
                  "%llu now, up to %llu", (unsigned long long)files.rlim_cur,
                  (unsigned long long)files.rlim_max);
}
