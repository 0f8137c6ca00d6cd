/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/doubles/scripted_script.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "tests/doubles/scripted_scene.h"
#include "tests/doubles/scripted_voice.h"

#define SCRIPT_MAX (16u * 1024 * 1024) /* Bulk scenes hold whole files as text. */

static const char *const script_fields[] = {
    "model",       "any_model",     "api_key",       "max_model_len",
    "unasked",     "reasoning_key", "refuse_fields", "ignore_fields",
    "personality", "logprobs_mode", "scenes",        "otherwise",
    NULL};

static int set_unasked(struct json_at at, struct script *s, struct err *err) {
    const char *word = "null";
    int r = json_get_string(at, "unasked", &word, err);
    if (r < 0) {
        return r;
    }
    s->unasked_is_null = strcmp(word, "null") == 0;
    if (!s->unasked_is_null && strcmp(word, "absent") != 0) {
        return err_set(err, ERR_INPUT, "%s: unasked: want 'null' or 'absent', got '%s'", at.where,
                       word);
    }
    return 0;
}

static int set_mode(struct json_at at, struct script *s, struct err *err) {
    const char *word = "raw";
    int r = json_get_string(at, "logprobs_mode", &word, err);
    s->processed = strcmp(word, "processed") == 0;
    return r;
}

static int set_voice(struct json_at at, struct script *s, struct err *err) {
    const char *word = voice_names[VOICE_VLLM];
    int r = json_get_string(at, "personality", &word, err);
    return r < 0 ? r : script_set_voice(s, word, err);
}

int script_set_voice(struct script *s, const char *name, struct err *err) {
    for (size_t i = 0; voice_names[i]; i++) {
        if (strcmp(voice_names[i], name) == 0) {
            s->voice = (enum voice)i;
            return 0;
        }
    }
    return err_set(err, ERR_INPUT, "personality: '%s' is none that is known", name);
}

static int set_settings(struct json_at at, struct script *s, struct err *err) {
    s->model = "scripted";
    s->max_model_len = 131072;
    s->reasoning_key = "reasoning";
    if (!json_is_object(at.object)) {
        return err_set(err, ERR_INPUT, "%s: want an object, got %s", at.where,
                       json_kind(at.object));
    }
    int r = json_check_fields(at, script_fields, err);
    r = r < 0 ? r : json_get_string(at, "model", &s->model, err);
    r = r < 0 ? r : json_get_bool(at, "any_model", &s->any_model, err);
    r = r < 0 ? r : json_get_string(at, "api_key", &s->api_key, err);
    r = r < 0 ? r : json_get_int(at, "max_model_len", &s->max_model_len, err);
    r = r < 0 ? r : json_get_string(at, "reasoning_key", &s->reasoning_key, err);
    r = r < 0 ? r : json_get_array(at, "refuse_fields", &s->refuse_fields, err);
    r = r < 0 ? r : json_get_array(at, "ignore_fields", &s->ignore_fields, err);
    r = r < 0 ? r : set_voice(at, s, err);
    r = r < 0 ? r : set_mode(at, s, err);
    return r < 0 ? r : set_unasked(at, s, err);
}

static int set_scenes(struct json_at at, const char *folder, struct script *s, struct err *err) {
    const json_t *scenes = NULL;
    int r = json_get_array(at, "scenes", &scenes, err);
    if (r < 0) {
        return r;
    }
    size_t n = json_array_size(scenes);
    s->scenes = calloc(n ? n : 1, sizeof *s->scenes);
    if (!s->scenes) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    for (size_t i = 0; i < n; i++) {
        AUTO_FREE char *where = mem_printf("%s: scene %zu", at.where, i + 1);
        s->n_scenes = i + 1;
        r = scene_parse((struct json_at){json_array_get(scenes, i), where}, folder, &s->scenes[i],
                        err);
        if (r < 0) {
            return r;
        }
    }
    AUTO_FREE char *where = mem_printf("%s: otherwise", at.where);
    return scene_parse((struct json_at){json_object_get(at.object, "otherwise"), where}, folder,
                       &s->otherwise, err);
}

int script_load(const char *path, struct script *out, struct err *err) {
    struct script s = {0};
    int r = 0;
    if (path) {
        r = json_load(path, SCRIPT_MAX, &s.root, err);
    } else {
        s.root = json_object();
    }
    if (r < 0) {
        return r;
    }
    AUTO_FREE char *folder = mem_strdup(path ? path : ".");
    char *slash = folder ? strrchr(folder, '/') : NULL;
    if (slash) {
        *slash = '\0';
    }
    struct json_at at = {s.root, path ? path : "script"};
    r = set_settings(at, &s, err);
    r = r < 0 ? r : set_scenes(at, slash ? folder : ".", &s, err);
    if (r < 0) {
        script_deinit(&s);
        return r;
    }
    *out = s;
    return 0;
}

void script_deinit(struct script *s) {
    for (size_t i = 0; i < s->n_scenes; i++) {
        scene_deinit(&s->scenes[i]);
    }
    scene_deinit(&s->otherwise);
    free(s->scenes);
    json_decref(s->root);
    *s = (struct script){0};
}

static long long call_number(const json_t *messages) {
    long long n = 1;
    size_t i;
    json_t *m;
    json_array_foreach(messages, i, m) {
        const char *role = json_string_value(json_object_get(m, "role"));
        n += role && strcmp(role, "assistant") == 0;
    }
    return n;
}

static bool last_user_has(const json_t *messages, const char *text) {
    for (size_t i = json_array_size(messages); i-- > 0;) {
        const json_t *m = json_array_get(messages, i);
        const char *role = json_string_value(json_object_get(m, "role"));
        if (!role || strcmp(role, "user") != 0) {
            continue;
        }
        const json_t *content = json_object_get(m, "content");
        AUTO_FREE char *parts = json_is_string(content) ? NULL : json_dumps(content, 0);
        const char *have = parts ? parts : json_string_value(content);
        return have && strstr(have, text);
    }
    return false;
}

static bool offers(const json_t *tools, const char *name) {
    size_t i;
    json_t *tool;
    json_array_foreach(tools, i, tool) {
        const char *have =
            json_string_value(json_object_get(json_object_get(tool, "function"), "name"));
        if (have && strcmp(have, name) == 0) {
            return true;
        }
    }
    return false;
}

static bool fits(const struct scene *c, const json_t *request, const char *body, size_t body_n) {
    const json_t *messages = json_object_get(request, "messages");
    const json_t *tools = json_object_get(request, "tools");
    if (c->times > 0 && c->used >= c->times) {
        return false;
    }
    return (c->call == 0 || c->call == call_number(messages)) &&
           (c->tools < 0 || c->tools == (json_array_size(tools) > 0)) &&
           (!c->tool || offers(tools, c->tool)) &&
           (!c->user_has || last_user_has(messages, c->user_has)) &&
           (!c->body_has || memmem(body, body_n, c->body_has, strlen(c->body_has)));
}

const struct scene *script_scene(struct script *s, const json_t *request, const char *body,
                                 size_t body_n) {
    struct scene *found = &s->otherwise;
    for (size_t i = 0; i < s->n_scenes; i++) {
        if (fits(&s->scenes[i], request, body, body_n)) {
            found = &s->scenes[i];
            break;
        }
    }
    found->used++;
    return found;
}
