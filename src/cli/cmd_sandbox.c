/* SPDX-License-Identifier: BSD-3-Clause */
#include <time.h>

#include "base/json.h"
#include "base/mem.h"
#include "cli/backend_option.h"
#include "cli/commands.h"
#include "cli/kept.h"
#include "cli/out.h"
#include "cli/table.h"
#include "sandbox/sandbox.h"

#define IMAGE_UNUSED_S 86400.0 /* A day: to unpack one again costs seconds, up to minutes. */

#define RUN_OPTION                                                                                 \
    { "run", OPTION_TEXT, "NAME", "only of this run", NULL }

static struct sandbox_scope scope_of(const struct args *a) {
    return (struct sandbox_scope){.run = args_text(a, "run"),
                                  .namespace = args_text(a, "namespace")};
}

static const struct table_column columns[] = {{.title = "SANDBOX"},
                                              {.title = "OWNER", .may_cut = true},
                                              {.title = "RUN", .may_cut = true},
                                              {.title = "ROLLOUT", .may_cut = true},
                                              {.title = "CREATED"},
                                              {.title = "STATE"}};

static void add_field(struct table *t, const json_t *box, const char *field) {
    table_add(t, sv_from(json_string_value(json_object_get(box, field))));
}

static int print_boxes(const json_t *all, struct err *err) {
    struct table t;
    size_t i = 0;
    const json_t *box = NULL;
    table_init(&t, columns, ARRAY_LEN(columns));
    json_array_foreach(all, i, box) {
        char text[32] = "-";
        struct tm tm;
        time_t created = (time_t)json_number_value(json_object_get(box, "created"));
        if (created > 0 && localtime_r(&created, &tm)) {
            (void)strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &tm);
        }
        add_field(&t, box, "id");
        add_field(&t, box, "owner");
        add_field(&t, box, "run");
        add_field(&t, box, "rollout");
        table_add(&t, sv_from(text));
        table_add(&t, sv_from(json_is_true(json_object_get(box, "alive")) ? "alive" : "dead"));
    }
    int r = table_print(&t, stdout, 0, err);
    table_deinit(&t);
    return r;
}

static int list(const struct args *a, struct err *err) {
    AUTO_JSON json_t *all = NULL;
    struct sandbox_scope scope = scope_of(a);
    int r = backend_of(a)->list(&scope, &all, err);
    if (r < 0) {
        return r;
    }
    return args_has(a, "json") ? out_json(TAKE(all), err) : print_boxes(all, err);
}

struct removed {
    unsigned sandboxes;
    unsigned images;
    struct journal_swept journals;
};

static int sweep_images(const struct args *a, bool dry, unsigned *n, struct err *err) {
    const struct sandbox_backend *backend = backend_of(a);
    if (args_has(a, "run") || !backend->sweep_images) {
        return 0;
    }
    return backend->sweep_images(args_has(a, "all-images") ? 0 : IMAGE_UNUSED_S, dry, n, err);
}

/* All of it, whatever fails; the first failure is told. Sandboxes first: they hold images. */
static int sweep(const struct args *a, struct removed *out, struct err *err) {
    const char *run = args_text(a, "run");
    bool dry = args_has(a, "dry-run");
    const struct sandbox_scope scope = scope_of(a);
    int r = backend_of(a)->sweep(&scope, dry, &out->sandboxes, err);
    int q = sweep_images(a, dry, &out->images, r < 0 ? NULL : err);
    r = r < 0 ? r : q;
    q = store_sweep_journals(args_text(a, "runs"), run, dry, &out->journals, r < 0 ? NULL : err);
    return r < 0 ? r : q;
}

static int gc(const struct args *a, struct err *err) {
    struct removed n = {0};
    bool dry = args_has(a, "dry-run");
    int r = sweep(a, &n, err);
    if (r < 0) {
        return r;
    }
    if (args_has(a, "json")) {
        return out_json(json_pack("{s:i, s:i, s:i, s:I, s:i, s:b}", "sandboxes", (int)n.sandboxes,
                                  "images", (int)n.images, "journal_files",
                                  (int)n.journals.segments, "journal_bytes",
                                  (json_int_t)n.journals.bytes, "journal_files_kept",
                                  (int)n.journals.kept, "dry_run", dry),
                        err);
    }
    (void)printf("%s %u sandbox%s of dead runs", dry ? "would remove" : "removed", n.sandboxes,
                 n.sandboxes == 1 ? "" : "es");
    if (n.images > 0) {
        (void)printf(", %u unpacked image%s", n.images, n.images == 1 ? "" : "s");
    }
    if (n.journals.segments > 0) {
        (void)printf(", %u file%s of journals (%.1f MB)", n.journals.segments,
                     n.journals.segments == 1 ? "" : "s", (double)n.journals.bytes / 1e6);
    }
    (void)printf("\n");
    return 0;
}

const struct command cmd_sandbox_ls = {
    .name = "sandbox ls",
    .summary = "list sandboxes",
    .operands = "",
    .options =
        (const struct option[]){
            BACKEND_OPTION,
            NAMESPACE_OPTION,
            RUN_OPTION,
            {"json", OPTION_SWITCH, NULL, "print a JSON array", NULL},
            {0},
        },
    .run = list,
};

const struct command cmd_gc = {
    .name = "gc",
    .summary = "remove what dead runs left, and images that nobody uses",
    .operands = "",
    .options =
        (const struct option[]){
            {"dry-run", OPTION_SWITCH, NULL, "only tell what would be removed", NULL},
            {"all-images", OPTION_SWITCH, NULL,
             "of unpacked images, remove all that no sandbox has now, and not only those that none "
             "had for a day",
             NULL},
            BACKEND_OPTION,
            NAMESPACE_OPTION,
            {"run", OPTION_TEXT, "NAME", "only what is of this run, and no images", NULL},
            KEPT_RUNS_OPTION,
            {"json", OPTION_SWITCH, NULL, "print JSON", NULL},
            {0},
        },
    .run = gc,
};
