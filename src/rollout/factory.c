/* SPDX-License-Identifier: BSD-3-Clause */
#include "rollout/factory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "base/mem.h"
#include "rollout/agents.h"
#include "rollout/capture.h"
#include "rollout/factory_impl.h"
#include "rollout/probe.h"

static int find_backend(struct rollout_factory *f, struct err *err) {
    const char *name = f->o.backend ? f->o.backend : "local";
    f->backend = f->o.using ? f->o.using : sandbox_backend_find(name);
    if (!f->backend) {
        const char *near = json_nearest(name, sandbox_backend_names);
        return err_set(err, ERR_INPUT, "backend: '%s' is not known (did you mean '%s'?)", name,
                       near ? near : sandbox_backend_names[0]);
    }
    return 0;
}

/* What only one agent takes is not passed over in silence by the others. */
static int check_command(const struct agent *agent, const struct agent_config *c, struct err *err) {
    if (agent == &agent_command && !c->agent_cmd) {
        return err_set(err, ERR_INPUT,
                       "agent: 'command' needs the command that it is (--agent-cmd 'TEXT', or "
                       "agent_cmd in the configuration)");
    }
    if (agent != &agent_command && c->agent_cmd) {
        return err_set(err, ERR_INPUT,
                       "agent_cmd: the agent '%s' takes none (--agent command does)", agent->name);
    }
    return 0;
}

static int find_agent(struct rollout_factory *f, struct err *err) {
    const char *name = f->o.agent ? f->o.agent : "opencode";
    f->agent = f->o.running ? f->o.running : agent_find(name);
    if (!f->agent) {
        const char *near = json_nearest(name, agent_names);
        return err_set(err, ERR_INPUT, "agent: '%s' is not known (did you mean '%s'?)", name,
                       near ? near : agent_names[0]);
    }
    return check_command(f->agent, f->o.config, err);
}

/* What the machine may lack: told after what was asked for wrongly. */
static int check_machine(struct rollout_factory *f, struct err *err) {
    int r = f->backend->check ? f->backend->check(err) : 0;
    if (r < 0 || !f->agent->mount_path) {
        return r;
    }
    AUTO_FREE char *dir = NULL;
    r = rollout_agents_dir(&dir, err);
    r = r < 0 ? r
              : agent_find_installed(dir, f->agent, f->o.config->opencode_version, &f->installed,
                                     err);
    if (r == ERR_ENVIRONMENT && !factory_mounts_agent(f)) {
        *err = (struct err){0}; /* It may be in the image, and can be installed there. */
        return 0;
    }
    if (r == 0) {
        f->mounts[0] =
            (struct sandbox_mount){.host_path = f->installed.folder, .path = f->agent->mount_path};
    }
    return r;
}

/* What the configuration asks of a sandbox, looked at before one is made. */
static int check_sandbox(struct rollout_factory *f, struct err *err) {
    struct sandbox_spec spec = {.home = f->o.config->sandbox_home,
                                .rootfs = f->o.config->rootfs,
                                .mounts = f->mounts + 1,
                                .n_mounts = f->n_mounts,
                                .machine = factory_machine(f)};
    int r = f->backend->check_create ? f->backend->check_create(&spec, err) : 0;
    bool is_clean = !f->backend->restart_is_clean || f->backend->restart_is_clean(&spec.machine);
    if (r == 0 && f->o.strict && f->o.verify_in == ROLLOUT_VERIFY_SAME && !is_clean) {
        return err_set(err, ERR_UNSUPPORTED,
                       "a root agent may replace what grades it in its own sandbox (use "
                       "--verify-in fresh, or --agent-user agent, or run without --strict)");
    }
    return r;
}

static int check_config(const struct agent_config *c, struct err *err) {
    if (!c || !c->base_url || !*c->base_url) {
        return err_set(err, ERR_INPUT, "no base_url: give a model endpoint");
    }
    if (!c->model || !*c->model) {
        return err_set(err, ERR_INPUT, "no model: name the model to ask for");
    }
    return 0;
}

static int take_names(struct rollout_factory *f, struct err *err) {
    char host[128] = "";
    (void)gethostname(host, sizeof host - 1); /* Only part of a label. */
    AUTO_FREE char *owner = mem_printf("%s-%ld", host[0] ? host : "host", (long)getpid());
    if (!owner) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    snprintf(f->owner, sizeof f->owner, "%s", owner);
    store_name_from(owner, 0, f->owner);
    const struct rollout_records_options own = {
        .runs_dir = f->o.runs_dir,
        .run = f->o.run,
        .keep_raw = f->o.keep_raw,
        .durable = f->o.durable,
        .public_url = f->o.config->public_url,
        .listen = f->o.config->listen,
    };
    int r = f->o.records ? 0 : rollout_records_new(&own, &f->own_records, err);
    if (r == 0) {
        f->records = f->o.records ? f->o.records : f->own_records;
        memcpy(f->run, f->records->run, sizeof f->run);
    }
    return r;
}

static int factory_begin(struct rollout_factory *f, struct err *err) {
    int r = check_config(f->o.config, err);
    if (r < 0) {
        return r;
    }
    r = find_backend(f, err);
    r = r < 0 ? r : factory_find_capture(f, err);
    r = r < 0 ? r : take_names(f, err);
    r = r < 0 ? r : find_agent(f, err);
    r = r < 0 ? r : factory_read_mounts(f, err);
    r = r < 0 ? r : check_sandbox(f, err);
    return r < 0 ? r : check_machine(f, err);
}

int rollout_factory_new(const struct rollout_options *o, struct rollout_factory **out,
                        struct err *err) {
    struct rollout_factory *f = calloc(1, sizeof *f);
    if (!f) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    f->o = *o;
    pthread_mutex_init(&f->lock, NULL);
    int r = factory_begin(f, err);
    if (r < 0) {
        rollout_factory_free(f);
        return r;
    }
    *out = f;
    return 0;
}

void rollout_factory_free(struct rollout_factory *f) {
    if (!f) {
        return;
    }
    rollout_records_free(f->own_records);
    free(f->policy_version);
    buf_deinit(&f->gateway_gz);
    factory_free_mounts(f);
    agent_installed_deinit(&f->installed);
    pthread_mutex_destroy(&f->lock);
    free(f);
}

const char *rollout_factory_run(const struct rollout_factory *f) {
    return f->run;
}

int factory_open(struct rollout_factory *f, struct err *err) {
    struct rollout_records *records = f->records;
    int r = rollout_records_open(records, err);
    if (r < 0) {
        return r;
    }
    pthread_mutex_lock(&f->lock);
    if (!f->gateway) { /* Else other threads read them. */
        f->store = records->store;
        f->journal_dir = records->journal_dir;
        f->journal = records->journal;
        f->gateway = records->gateway;
    }
    pthread_mutex_unlock(&f->lock);
    return 0;
}

int rollout_factory_check_endpoint(const struct rollout_factory *f, const struct cancel *cancel,
                                   struct err *err) {
    return endpoint_probe(&(struct endpoint_probe){.base_url = f->o.config->base_url,
                                                   .api_key = f->o.config->api_key,
                                                   .key_name = f->o.key_name},
                          cancel, err);
}

int rollout_factory_create(struct rollout_factory *f, const struct task *task,
                           const struct rollout_names *names, const struct rollout_control *control,
                           struct rollout_session **out, struct err *err) {
    struct rollout_session *s = NULL;
    int r = session_new(f, task, names, control, &s, err);
    if (r < 0) {
        return r;
    }
    r = session_prepare(s, err);
    if (r < 0) {
        rollout_session_free(s);
        return r;
    }
    *out = s;
    return 0;
}
