/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/explain.h"

#include "base/buf.h"
#include "cli/text.h"
#include "train/finding.h"

#define SEVERITY_WIDTH 8

static const char *const colours[] = {
    [FINDING_FATAL] = "\x1b[31m", [FINDING_WARNING] = "\x1b[33m", [FINDING_INFO] = "\x1b[36m"};

static const char *code_of(const json_t *finding) {
    const char *code =
        json_string_value(json_is_object(finding) ? json_object_get(finding, "code") : finding);
    return code ? code : "?";
}

static const struct finding_kind *kind_of(const json_t *finding) {
    const struct finding_kind *kind = finding_of_rollout(code_of(finding));
    return kind ? kind : finding_of_call(code_of(finding));
}

/* "fatal    code: detail" without a line feed. */
static int put_head(const json_t *finding, FILE *stream, struct err *err) {
    const struct finding_kind *kind = kind_of(finding);
    const char *detail = json_string_value(json_object_get(finding, "detail"));
    bool colour = text_has_colour(stream);
    AUTO_BUF struct buf text = {0};
    int r = text_printable(sv_from(code_of(finding)), &text);
    r = r < 0 || !detail ? r : buf_adds(&text, ": ");
    r = r < 0 || !detail ? r : text_printable(sv_from(detail), &text);
    if (r < 0) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    (void)fprintf(stream, "%s%-*s%s %s", colour && kind ? colours[kind->severity] : "",
                  SEVERITY_WIDTH, kind ? finding_severity_name(kind->severity) : "unknown",
                  colour && kind ? "\x1b[0m" : "", buf_cstr(&text));
    return 0;
}

/* Words behind an indent, broken where the terminal ends. */
static void put_wrapped(const char *text, const char *before, FILE *stream) {
    size_t columns = text_columns(stream);
    size_t indent = 2 + SEVERITY_WIDTH + 1;
    size_t room = columns > indent + 20 ? columns - indent : (size_t)-1;
    struct sv rest = sv_from(text);
    while (rest.n > 0) {
        size_t n = rest.n;
        while (n > room) { /* The last blank that fits; a word too long stands alone. */
            size_t cut = n - 1;
            while (cut > 0 && rest.p[cut] != ' ') {
                cut--;
            }
            if (cut == 0) {
                break;
            }
            n = cut;
        }
        (void)fprintf(stream, "%*s%s%.*s\n", (int)indent, "", before, (int)n, rest.p);
        before = before[0] ? "   " : "";
        rest = sv_cut(rest, n < rest.n ? n + 1 : n);
    }
}

int explain_findings(const json_t *findings, const char *heading, FILE *stream, struct err *err) {
    size_t i;
    const json_t *finding;
    json_array_foreach(findings, i, finding) {
        const struct finding_kind *kind = kind_of(finding);
        (void)fputs(i == 0 ? heading : "", stream);
        (void)fputs("  ", stream);
        int r = put_head(finding, stream, err);
        if (r < 0) {
            return r;
        }
        (void)fputc('\n', stream);
        if (kind) {
            put_wrapped(kind->meaning, "", stream);
        }
        if (kind && kind->advice) {
            put_wrapped(kind->advice, "-> ", stream);
        }
    }
    return 0;
}

int explain_briefly(const json_t *findings, int width, FILE *stream, struct err *err) {
    size_t i;
    const json_t *finding;
    json_array_foreach(findings, i, finding) {
        (void)fprintf(stream, "%-*s", width, i == 0 ? "findings" : "");
        int r = put_head(finding, stream, err);
        if (r < 0) {
            return r;
        }
        (void)fputc('\n', stream);
    }
    return 0;
}
