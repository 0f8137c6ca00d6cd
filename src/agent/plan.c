/* SPDX-License-Identifier: BSD-3-Clause */
#include "agent/plan.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

static int no_memory(struct err *err) {
    return err_set(err, ERR_NOMEM, "out of memory");
}

static void free_list(char **list) {
    for (size_t i = 0; list && list[i]; i++) {
        free(list[i]);
    }
    free(list);
}

void agent_plan_deinit(struct agent_plan *p) {
    for (size_t i = 0; i < p->n_files; i++) {
        free(p->files[i].path);
        free(p->files[i].content);
    }
    free(p->files);
    free_list(p->argv);
    free_list(p->env);
    free(p->input);
    free(p->cwd);
    free(p->log_path);
    *p = (struct agent_plan){0};
}

int plan_make(const struct plan_maker *maker, const struct agent_config *config,
              const struct agent_job *job, struct agent_plan *out, struct err *err) {
    struct agent_plan p = {0};
    int r = maker->check(config, job, err);
    r = r < 0 ? r : maker->build(config, job, &p, err);
    if (r < 0) {
        agent_plan_deinit(&p);
        return r;
    }
    *out = p;
    return 0;
}

int plan_add_file(struct agent_plan *p, const char *home, const char *rest, struct sv content,
                  struct err *err) {
    struct agent_file *files = realloc(p->files, (p->n_files + 1) * sizeof *files);
    if (!files) {
        return no_memory(err);
    }
    p->files = files;
    struct agent_file *f = &files[p->n_files++];
    *f = (struct agent_file){.path = mem_printf("%s%s", home, rest),
                             .content = mem_strndup(content.p ? content.p : "", content.n),
                             .mode = 0644};
    return f->path && f->content ? 0 : no_memory(err);
}

static size_t count(char *const *list) {
    size_t n = 0;
    while (list && list[n]) {
        n++;
    }
    return n;
}

/* Takes `text`. */
static int append(char ***list, char *text, struct err *err) {
    size_t n = count(*list);
    char **longer = text ? realloc(*list, (n + 2) * sizeof *longer) : NULL;
    if (!longer) {
        free(text);
        return no_memory(err);
    }
    longer[n] = text;
    longer[n + 1] = NULL;
    *list = longer;
    return 0;
}

int plan_add_arg(struct agent_plan *p, const char *arg, struct err *err) {
    return append(&p->argv, mem_strdup(arg), err);
}

int plan_set_env(struct agent_plan *p, const char *name, const char *value, struct err *err) {
    char *line = mem_printf("%s=%s", name, value);
    size_t n = strlen(name);
    for (size_t i = 0; line && i < count(p->env); i++) {
        if (strncmp(p->env[i], line, n + 1) == 0) {
            free(p->env[i]);
            p->env[i] = line;
            return 0;
        }
    }
    return append(&p->env, line, err);
}

int plan_set_deadline(struct agent_plan *p, double unix_s, struct err *err) {
    if (unix_s <= 0) {
        return 0;
    }
    AUTO_FREE char *text = mem_printf("%.0f", unix_s);
    return text ? plan_set_env(p, "SNAFFLE_DEADLINE", text, err) : no_memory(err);
}

static const char *env_of(const struct agent_plan *p, const char *name) {
    size_t n = strlen(name);
    for (size_t i = 0; i < count(p->env); i++) {
        if (strncmp(p->env[i], name, n) == 0 && p->env[i][n] == '=') {
            return p->env[i] + n + 1;
        }
    }
    return NULL;
}

static bool leads_elsewhere(const char *name) {
    size_t n = strlen(name);
    return strncmp(name, "OPENAI_", strlen("OPENAI_")) == 0 ||
           (n >= strlen("_PROXY") && strcasecmp(name + n - strlen("_PROXY"), "_PROXY") == 0);
}

static int add_image_line(struct agent_plan *p, const char *name, const char *value,
                          const struct agent_config *config, struct err *err) {
    const char *have = env_of(p, name);
    if (leads_elsewhere(name)) {
        return 0;
    }
    if (!have) {
        return plan_set_env(p, name, value, err);
    }
    if (strcmp(name, "PATH") != 0 || json_object_get(config->extra_env, "PATH")) {
        return 0;
    }
    AUTO_FREE char *both = mem_printf("%s:%s", value, have);
    return both ? plan_set_env(p, name, both, err) : no_memory(err);
}

int plan_add_image_env(struct agent_plan *p, const json_t *image_env,
                       const struct agent_config *config, struct err *err) {
    size_t i;
    json_t *line;
    json_array_foreach(image_env, i, line) {
        const char *text = json_string_value(line);
        const char *equals = strchr(text, '=');
        AUTO_FREE char *name = mem_strndup(text, (size_t)(equals - text));
        int r = name ? add_image_line(p, name, equals + 1, config, err) : no_memory(err);
        if (r < 0) {
            return r;
        }
    }
    return 0;
}

int plan_set_path(char **out, const char *home, const char *rest, struct err *err) {
    *out = mem_printf("%s%s", home, rest);
    return *out ? 0 : no_memory(err);
}

int plan_check_home(const char *home, struct err *err) {
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                  "0123456789._-/";
    if (!home || home[0] != '/' || home[strspn(home, allowed)] != '\0' || strstr(home, "/..")) {
        return err_set(err, ERR_INPUT,
                       "sandbox_home: '%s' is no plain absolute path (use letters, digits, '.', "
                       "'_', '-' and '/', as in '/home/user')",
                       home ? home : "");
    }
    return 0;
}
