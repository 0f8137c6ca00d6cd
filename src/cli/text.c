/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/text.h"

#include <math.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

#include "base/env.h"
#include "base/utf8.h"

/* The code point of a valid sequence of `n` bytes. */
static wchar_t decode(struct sv v, size_t n) {
    static const unsigned char first_mask[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    unsigned c = (unsigned char)v.p[0] & first_mask[n];
    for (size_t i = 1; i < n; i++) {
        c = c << 6 | ((unsigned char)v.p[i] & 0x3f);
    }
    return (wchar_t)c;
}

/* Control characters, and those that turn the direction of a line or hide text. */
static bool is_harmful(wchar_t c) {
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || (c >= 0x200b && c <= 0x200f) ||
           (c >= 0x2028 && c <= 0x202e) || (c >= 0x2060 && c <= 0x206f) || c == 0xfeff;
}

static int add_harmless(wchar_t c, struct buf *out) {
    switch (c) {
    case '\n':
        return buf_adds(out, "\\n");
    case '\r':
        return buf_adds(out, "\\r");
    case '\t':
        return buf_adds(out, "\\t");
    default:
        return buf_addf(out, c < 0x100 ? "\\x%02x" : "\\u%04x", (unsigned)c);
    }
}

int text_printable(struct sv v, struct buf *out) {
    int r = 0;
    while (v.n > 0 && r == 0) {
        size_t n = utf8_sequence(v);
        if (n == 0) {
            r = buf_adds(out, "\xef\xbf\xbd");
            n = 1;
        } else if (is_harmful(decode(v, n))) {
            r = add_harmless(decode(v, n), out);
        } else {
            r = buf_add(out, v.p, n);
        }
        v = sv_cut(v, n);
    }
    return r;
}

/* Columns of the character at the front; *n gets its bytes. */
static size_t char_width(struct sv v, size_t *n) {
    *n = utf8_sequence(v);
    if (*n == 0) {
        *n = 1;
        return 1;
    }
    int width = wcwidth(decode(v, *n));
    return width < 0 ? 1 : (size_t)width;
}

size_t text_width(struct sv v) {
    size_t width = 0;
    size_t n = 0;
    for (; v.n > 0; v = sv_cut(v, n)) {
        width += char_width(v, &n);
    }
    return width;
}

struct sv text_front(struct sv v, size_t columns) {
    struct sv rest = v;
    size_t width = 0;
    size_t n = 0;
    for (; rest.n > 0; rest = sv_cut(rest, n)) {
        width += char_width(rest, &n);
        if (width > columns) {
            break;
        }
    }
    return (struct sv){v.p, v.n - rest.n};
}

size_t text_columns(FILE *stream) {
    struct winsize size = {0};
    int fd = fileno(stream);
    if (fd < 0 || !isatty(fd)) {
        return 0;
    }
    const char *told = env_get("COLUMNS");
    unsigned long long columns = 0;
    if (told && sv_parse_u64(sv_from(told), 10000, &columns) && columns > 0) {
        return (size_t)columns;
    }
    if (ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
        return size.ws_col;
    }
    return 80; /* A terminal that does not tell, as on a serial line. */
}

bool text_has_colour(FILE *stream) {
    const char *term = env_get("TERM");
    return text_columns(stream) > 0 && !env_get("NO_COLOR") && term && strcmp(term, "dumb") != 0;
}

void text_duration(double seconds, char out[32]) {
    if (!(seconds > 0)) {
        seconds = 0;
    }
    long whole = seconds < 1e9 ? lround(seconds) : 1000000000L;
    if (seconds < 10) {
        (void)snprintf(out, 32, "%.1f s", seconds);
    } else if (whole < 60) {
        (void)snprintf(out, 32, "%ld s", whole);
    } else if (whole < 3600) {
        (void)snprintf(out, 32, "%ld m %ld s", whole / 60, whole % 60);
    } else {
        (void)snprintf(out, 32, "%ld h %ld m", whole / 3600, whole % 3600 / 60);
    }
}

void text_amount(double n, char out[16]) {
    if (n < 10000) {
        (void)snprintf(out, 16, "%.0f", n);
    } else if (n < 999950) {
        (void)snprintf(out, 16, "%.1fk", n / 1e3);
    } else {
        (void)snprintf(out, 16, "%.1fM", n / 1e6);
    }
}
