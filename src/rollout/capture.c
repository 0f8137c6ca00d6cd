/* SPDX-License-Identifier: BSD-3-Clause */
#include "rollout/capture.h"

#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/rand.h"
#include "net/url.h"
#include "rollout/inside.h"

#define MODEL_URL "http://127.0.0.1:7000/v1" /* SANDBOX_MODEL_PORT, as the agent is told. */
#define GATEWAY_CLOSE_S 5 /* For answers that were on their way when the agent ended. */
#define TOKEN_BYTES 16

static const char *const words[] = {
    [CAPTURE_TUNNEL] = "tunnel", [CAPTURE_PUBLIC] = "public", [CAPTURE_SANDBOX] = "sandbox"};

/* --- which way --- */

static enum capture_way way_of(const struct rollout_factory *f) {
    const char *word = f->o.config->capture;
    for (size_t i = 0; word && i < ARRAY_LEN(words); i++) {
        if (strcmp(word, words[i]) == 0) {
            return (enum capture_way)i;
        }
    }
    return f->backend->has_model_socket ? CAPTURE_TUNNEL : CAPTURE_SANDBOX;
}

/* The sandbox asks the endpoint itself, and this machine's loopback is not its own. */
static void warn_of_loopback(const struct rollout_factory *f) {
    struct url url = {0};
    struct err ignored = {0};
    const char *base = f->o.config->base_url;
    if (url_parse(sv_from(base), &url, &ignored) == 0 &&
        (strcmp(url.host, "localhost") == 0 || strcmp(url.host, "::1") == 0 ||
         strncmp(url.host, "127.", 4) == 0)) {
        log_warning(
            "base_url: '%s' is an address of this machine alone, and capture 'sandbox' asks "
            "it from inside the sandbox",
            base);
    }
    url_deinit(&url);
}

static int check_sandbox_way(const struct rollout_factory *f, struct err *err) {
    if (f->backend->has_model_socket) {
        return err_set(err, ERR_UNSUPPORTED,
                       "capture: in a sandbox of '%s' the model's port is taken (leave 'sandbox' "
                       "out: the key stays outside then)",
                       f->backend->name);
    }
    if (f->o.strict) {
        return err_set(err, ERR_UNSUPPORTED,
                       "capture: 'sandbox' puts the endpoint's key where an agent that is root may "
                       "read it (use 'public', or run without --strict)");
    }
    warn_of_loopback(f);
    return 0;
}

/* Of records that factories share, the address is theirs. */
static int check_public_way(const struct rollout_factory *f, struct err *err) {
    const struct rollout_records *shared = f->o.records;
    bool there = shared ? shared->public_url : f->o.config->public_url;
    return there ? 0
                 : err_set(err, ERR_INPUT,
                           "capture: 'public' needs the address at which sandboxes reach this "
                           "machine's gateway (--public-url, or public_url in the configuration)");
}

int factory_find_capture(struct rollout_factory *f, struct err *err) {
    const struct agent_config *c = f->o.config;
    f->capture = way_of(f);
    if (f->capture != CAPTURE_PUBLIC && (c->public_url || c->listen)) {
        return err_set(err, ERR_INPUT, "%s: only capture 'public' has a use for it",
                       c->public_url ? "public_url" : "listen");
    }
    switch (f->capture) {
    case CAPTURE_TUNNEL:
        return f->backend->has_model_socket
                   ? 0
                   : err_set(err, ERR_UNSUPPORTED,
                             "capture: there is no tunnel into sandboxes of '%s' yet (use "
                             "'sandbox' or 'public')",
                             f->backend->name);
    case CAPTURE_PUBLIC:
        return check_public_way(f, err);
    case CAPTURE_SANDBOX:
        break;
    }
    return check_sandbox_way(f, err);
}

/* --- a session's way --- */

static int open_gateway_session(struct rollout_session *s, struct err *err) {
    const struct rollout_options *o = &s->factory->o;
    const struct agent_config *c = o->config;
    bool captures = factory_captures(s->factory);
    unsigned serial;
    AUTO_FREE char *policy = factory_policy(s->factory, &serial);
    int r = gateway_session_open(s->factory->gateway,
                                 &(struct gateway_session_options){
                                     .name = s->name,
                                     .upstream_url = c->base_url,
                                     .api_key = c->api_key,
                                     .key_name = o->key_name,
                                     .model_override = c->model,
                                     .engine = c->engine,
                                     .edits = captures,
                                     .record = captures,
                                     .top_logprobs = c->proxy_top_logprobs,
                                     .max_tokens_cap = c->proxy_max_tokens_cap,
                                     .disable_thinking = c->proxy_disable_thinking,
                                     .neutral_sampling = o->neutral_sampling || c->neutral_sampling,
                                     .policy_version = policy,
                                     .loop_break_calls = (unsigned)c->loop_break_calls,
                                     .loop_break_s = c->loop_break_s,
                                     .header_timeout_s = (double)c->request_timeout_ms / 1000,
                                     .is_strangers = o->is_strangers,
                                 },
                                 &s->gateway, err);
    return r < 0 ? r : factory_enter(s, serial, err);
}

static char *public_address(const char *base, const char *token) {
    size_t n = strlen(base);
    while (n > 0 && base[n - 1] == '/') {
        n--;
    }
    return mem_printf("%.*s/s/%s/v1", (int)n, base, token);
}

int session_check_capture(const struct rollout_session *s, struct err *err) {
    const struct rollout_factory *f = s->factory;
    bool needed = f->capture == CAPTURE_PUBLIC && f->backend->has_model_socket;
    return !needed || session_network(s, TASK_AGENT) == SANDBOX_NETWORK_FULL
               ? 0
               : err_set(err, ERR_INPUT,
                         "capture: 'public' needs the agent's network to be 'full' (--network, or "
                         "the task's)");
}

/* A gateway that can't be had inside is no fault of the agent's installation. */
static int note_fault(struct rollout_session *s, int code, const struct err *why) {
    enum rollout_cause same = rollout_cause_of(ROLLOUT_PHASE_INSTALL, code);
    if (code < 0) {
        session_note(s, same == ROLLOUT_CAUSE_AGENT_INSTALL ? ROLLOUT_CAUSE_CAPTURE_FAULT : same,
                     why);
    }
    return code;
}

int session_open_model(struct rollout_session *s, struct err *err) {
    const struct rollout_factory *f = s->factory;
    int r = f->capture == CAPTURE_SANDBOX ? note_fault(s, inside_place(s, &s->inside, err), err)
                                          : open_gateway_session(s, err);
    if (r < 0) {
        return r;
    }
    if (f->capture == CAPTURE_SANDBOX) {
        char token[2 * TOKEN_BYTES + 1];
        rand_hex(token, TOKEN_BYTES);
        s->token = mem_strdup(token);
    } else {
        s->token = mem_strdup(gateway_session_token(s->gateway));
    }
    s->model_url = f->capture == CAPTURE_PUBLIC && s->token
                       ? public_address(f->records->public_url, s->token)
                       : mem_strdup(MODEL_URL);
    return s->token && s->model_url ? 0 : err_set(err, ERR_NOMEM, "out of memory");
}

int session_start_model(struct rollout_session *s, struct err *err) {
    bool wanted = s->inside && s->network != SANDBOX_NETWORK_NONE;
    int r = wanted ? inside_start(s, s->inside, err) : 0;
    return r < 0 ? note_fault(s, r, err) : 0;
}

int session_bind_model(struct rollout_session *s, struct err *err) {
    if (s->factory->capture != CAPTURE_TUNNEL || s->network == SANDBOX_NETWORK_NONE) {
        return 0;
    }
    const char *path = sandbox_model_socket(s->sandbox);
    if (!path) {
        return err_set(err, ERR_UNSUPPORTED, "backend '%s' has no way to the model",
                       s->factory->backend->name);
    }
    return gateway_session_listen_unix(s->gateway, path, err);
}

void session_look_at_calls(struct rollout_session *s) {
    if (s->gateway) {
        gateway_session_stats(s->gateway, &s->stats);
    } else if (s->inside) {
        inside_look(s, s->inside);
    }
}

/* --- its end --- */

void session_end_model(struct rollout_session *s) {
    if (s->inside && !cancel_thrown(s->control.hard)) {
        inside_stop(s, s->inside);
    }
}

static int close_own(struct rollout_session *s, struct err *err) {
    session_look_at_calls(s);
    struct gateway_session *gateway = TAKE(s->gateway);
    deadline_ms until = cancel_thrown(s->control.hard) ? 0 : deadline_in_s(GATEWAY_CLOSE_S);
    return gateway_session_close(gateway, until, err);
}

static int close_inside(struct rollout_session *s, struct err *err) {
    int r = cancel_thrown(s->control.hard) ? 0 : inside_collect(s, s->inside, err);
    inside_free(TAKE(s->inside));
    return r;
}

void session_close_model(struct rollout_session *s) {
    struct err e = {0};
    if (!s->gateway && !s->inside) {
        return;
    }
    factory_leave(s);
    int r = s->gateway ? close_own(s, &e) : close_inside(s, &e);
    if (r < 0) {
        log_warning("%s: calls may be missing: %s", s->name, e.msg);
    }
    if (r < 0 && factory_captures(s->factory)) {
        session_note(s, r == ERR_LOST ? ROLLOUT_CAUSE_SANDBOX_LOST : ROLLOUT_CAUSE_CAPTURE_FAULT,
                     &e);
    }
}

/* Of a gateway inside; `is_root`: so is the agent. */
static const char *key_inside(bool is_root) {
    return is_root ? "key_exposed: the gateway runs inside, and an agent that is root may read its "
                     "memory (take a key that is short-lived)"
                   : "enforced: only root could read the memory of the gateway inside";
}

void session_note_isolation(struct rollout_session *s) {
    const struct rollout_factory *f = s->factory;
    struct sandbox_machine machine = factory_machine(f);
    bool inside = f->capture == CAPTURE_SANDBOX;
    bool is_root = !machine.user || strcmp(machine.user, "root") == 0;
    if (!s->isolation) {
        return;
    }
    int r = json_object_set_new(
        s->isolation, "model_key",
        json_string(inside ? key_inside(is_root) : "enforced: it stays outside"));
    if (r == 0 && inside) {
        r = json_object_set_new(s->isolation, "records",
                                json_string("not_enforced: the gateway inside writes them where "
                                            "the agent may come, until they are taken over"));
    }
    if (r < 0) {
        log_warning("%s: no memory to say what holds", s->name);
    }
}
