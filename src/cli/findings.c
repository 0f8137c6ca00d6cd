/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/findings.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/sv.h"
#include "cli/out.h"
#include "cli/text.h"

static const char *const state_words[] = {"ok", "note", "lacks"};
static const char *const state_colours[] = {"\x1b[32m", "\x1b[33m", "\x1b[31m"};

int findings_init(struct findings *f, struct err *err) {
    *f = (struct findings){.list = json_array()};
    return f->list ? 0 : err_set(err, ERR_NOMEM, "out of memory");
}

void findings_deinit(struct findings *f) {
    json_decref(f->list);
    *f = (struct findings){0};
}

/* An error's words end in their remedy: "no such thing (do this)". */
static void split_remedy(struct sv *text, struct sv *remedy) {
    size_t open = sv_find(*text, SV(" ("));
    if (open != (size_t)-1 && sv_ends_with(*text, SV(")"))) {
        *remedy = (struct sv){text->p + open + 2, text->n - open - 3};
        text->n = open;
    }
}

void findings_add(struct findings *f, enum finding_state state, const char *name, const char *text,
                  const char *remedy) {
    struct sv words = sv_from(text);
    struct sv todo = sv_from(remedy);
    if (!remedy && state == FINDING_LACKS) {
        split_remedy(&words, &todo);
    }
    json_t *entry =
        json_pack("{s:s, s:s, s:o, s:o}", "name", name, "state", state_words[state], "text",
                  json_text(words), "remedy", todo.n > 0 ? json_text(todo) : json_null());
    f->failed |= json_array_append_new(f->list, entry) < 0;
    f->lacks |= state == FINDING_LACKS;
}

void findings_addf(struct findings *f, enum finding_state state, const char *name,
                   const char *remedy, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    AUTO_FREE char *text = mem_vprintf(fmt, args);
    va_end(args);
    if (text) {
        findings_add(f, state, name, text, remedy);
    }
    f->failed |= !text;
}

static int print_line(const json_t *entry, bool colour, struct err *err) {
    AUTO_BUF struct buf line = {0};
    const char *word = json_string_value(json_object_get(entry, "state"));
    const char *name = json_string_value(json_object_get(entry, "name"));
    const char *remedy = json_string_value(json_object_get(entry, "remedy"));
    size_t state = 0;
    while (state < 2 && word != NULL && state_words[state][0] != word[0]) {
        state++;
    }
    int r = text_printable(sv_from(json_string_value(json_object_get(entry, "text"))), &line);
    if (r == 0 && remedy) {
        r = buf_adds(&line, " -> ");
        r = r < 0 ? r : text_printable(sv_from(remedy), &line);
    }
    if (r < 0) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    (void)printf("%s%-6s%s %-14s %s\n", colour ? state_colours[state] : "", state_words[state],
                 colour ? "\x1b[0m" : "", name, buf_cstr(&line));
    return 0;
}

int findings_print(const struct findings *f, bool as_json, struct err *err) {
    size_t i = 0;
    const json_t *entry = NULL;
    int r = 0;
    if (f->failed) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    if (as_json) {
        return out_json(json_pack("{s:b, s:O}", "ok", !f->lacks, "findings", f->list), err);
    }
    json_array_foreach(f->list, i, entry) {
        r = r < 0 ? r : print_line(entry, text_has_colour(stdout), err);
    }
    return r;
}
