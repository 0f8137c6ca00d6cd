/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/mcp/result.h"

#include "base/json.h"
#include "base/mem.h"

/* One after the other. */
static int add_all(struct buf *out, const struct sv *parts, size_t n, struct err *err) {
    int r = 0;
    for (size_t i = 0; i < n && r == 0; i++) {
        r = buf_add_sv(out, parts[i]);
    }
    return r < 0 ? err_set(err, r, "out of memory") : 0;
}

int result_object(const struct tool_result *r, bool for_openenv, struct buf *out, struct err *err) {
    struct sv t = r->quoted;
    bool is_small = t.n <= RESULT_SMALL_MAX;
    const struct sv failed[] = {SV("{\"content\":[{\"type\":\"text\",\"text\":"), t,
                                SV("}],\"isError\":true,\"is_error\":true}")};
    const struct sv head[] = {SV("{\"content\":[{\"type\":\"text\",\"text\":"), t,
                              SV("}],\"isError\":false,\"is_error\":false,\"meta\":null")};
    const struct sv data[] = {SV(",\"data\":"), t};
    const struct sv structured[] = {SV(",\"structuredContent\":{\"result\":"), t,
                                    SV("},\"structured_content\":{\"result\":"), t, SV("}")};
    const struct sv end = SV("}");
    if (r->outcome != TOOL_DONE) {
        return add_all(out, failed, ARRAY_LEN(failed), err);
    }
    int code = add_all(out, head, ARRAY_LEN(head), err);
    if (code == 0 && (is_small || for_openenv)) {
        code = add_all(out, data, ARRAY_LEN(data), err);
    }
    if (code == 0 && is_small) {
        code = add_all(out, structured, ARRAY_LEN(structured), err);
    }
    return code < 0 ? code : add_all(out, &end, 1, err);
}

static const char *error_type(const struct tool_result *r, double timed_out_s) {
    return timed_out_s > 0              ? "timeout"
           : r->outcome == TOOL_INVALID ? "invalid_args"
                                        : "execution_error";
}

static int failed_observation(const struct tool_result *r, double timed_out_s, struct buf *out,
                              struct err *err) {
    int code = buf_addf(out,
                        "{\"tool_name\":\"" TOOL_NAME "\",\"result\":null,\"error\":"
                        "{\"error_type\":\"%s\",\"message\":",
                        error_type(r, timed_out_s));
    if (code == 0) {
        code = timed_out_s > 0
                   ? buf_addf(out, "\"Tool '" TOOL_NAME "' timed out after %.15g seconds\"",
                              timed_out_s)
                   : buf_add_sv(out, r->quoted);
    }
    code = code < 0 ? code : buf_adds(out, "}}");
    return code < 0 ? err_set(err, code, "out of memory") : 0;
}

int result_observation(const struct tool_result *r, double timed_out_s, struct buf *out,
                       struct err *err) {
    if (timed_out_s > 0 || r->outcome != TOOL_DONE) {
        return failed_observation(r, timed_out_s, out, err);
    }
    struct sv t = r->quoted;
    bool is_small = t.n <= RESULT_SMALL_MAX;
    const struct sv parts[] = {SV("{\"tool_name\":\"" TOOL_NAME
                                  "\",\"result\":{\"content\":[{\"type\":\"text\",\"text\":"),
                               t,
                               SV(",\"annotations\":null,\"meta\":null}],\"structured_content\":"),
                               is_small ? SV("{\"result\":") : SV("null"),
                               is_small ? t : SV(""),
                               is_small ? SV("}") : SV(""),
                               SV(",\"meta\":null,\"data\":"),
                               t,
                               SV(",\"is_error\":false},\"error\":null}")};
    return add_all(out, parts, ARRAY_LEN(parts), err);
}

int result_tools(const struct tool_box *b, struct buf *out, struct err *err) {
    AUTO_JSON json_t *description = tool_description(b);
    AUTO_BUF struct buf quoted = {0};
    struct sv schema = tool_schema_text(b);
    if (!description || json_compact(description, &quoted) < 0) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    const struct sv parts[] = {SV("{\"tools\":[{\"name\":\"" TOOL_NAME "\",\"description\":"),
                               buf_sv(&quoted),
                               SV(",\"inputSchema\":"),
                               schema,
                               SV(",\"input_schema\":"),
                               schema,
                               SV("}]}")};
    return add_all(out, parts, ARRAY_LEN(parts), err);
}
