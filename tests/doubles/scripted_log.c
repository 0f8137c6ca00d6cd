/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/doubles/scripted_log.h"

#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/log.h"
#include "base/utf8.h"

static bool is_utf8(struct sv v) {
    while (v.n > 0) {
        size_t n = utf8_sequence(v);
        if (n == 0) {
            return false;
        }
        v = sv_cut(v, n);
    }
    return true;
}

/* As text where it is text, else as hex digits under another name. */
static int put_body(struct sv body, struct buf *out) {
    if (is_utf8(body)) {
        TRY(buf_adds(out, ",\"body\":"));
        return json_quote(body, out);
    }
    TRY(buf_adds(out, ",\"body_hex\":\""));
    for (size_t i = 0; i < body.n; i++) {
        TRY(buf_addf(out, "%02x", (unsigned char)body.p[i]));
    }
    return buf_addc(out, '"');
}

static int put_headers(const struct http1_head *head, struct buf *out) {
    TRY(buf_adds(out, ",\"headers\":["));
    for (size_t i = 0; i < head->n_fields; i++) {
        TRY(buf_adds(out, i ? ",[" : "["));
        TRY(json_quote(http1_name(head, i), out));
        TRY(buf_addc(out, ','));
        TRY(json_quote(http1_value(head, i), out));
        TRY(buf_addc(out, ']'));
    }
    return buf_addc(out, ']');
}

static int put_request(unsigned long long number, const struct exchange *x, struct buf *out) {
    TRY(buf_addf(out, "{\"event\":\"request\",\"number\":%llu,\"time\":%.6f,\"method\":", number,
                 clock_unix()));
    TRY(json_quote(exchange_head(x)->method, out));
    TRY(buf_adds(out, ",\"path\":"));
    TRY(json_quote(exchange_path(x), out));
    TRY(buf_adds(out, ",\"query\":"));
    TRY(json_quote(exchange_query(x), out));
    TRY(put_headers(exchange_head(x), out));
    TRY(put_body(exchange_body(x), out));
    return buf_adds(out, "}\n");
}

/* A test that misses a line must not pass: better no server than one with a log of holes. */
static void write_line(int fd, int built, const struct buf *line) {
    struct err err = {0};
    if (built < 0 || fd_write_all(fd, line->data, line->len, DEADLINE_NEVER, NULL, &err) < 0) {
        log_error("scripted model: cannot write the log: %s", built < 0 ? "no memory" : err.msg);
        _exit(1);
    }
}

void scripted_log_request(int fd, unsigned long long number, const struct exchange *x) {
    if (fd < 0) {
        return;
    }
    AUTO_BUF struct buf line = {0};
    int r = put_request(number, x, &line);
    write_line(fd, r, &line);
}

void scripted_log_end(int fd, unsigned long long number, const char *how, size_t events) {
    if (fd < 0) {
        return;
    }
    AUTO_BUF struct buf line = {0};
    int r = buf_addf(&line,
                     "{\"event\":\"end\",\"number\":%llu,\"time\":%.6f,\"how\":\"%s\","
                     "\"events\":%zu}\n",
                     number, clock_unix(), how, events);
    write_line(fd, r, &line);
}
