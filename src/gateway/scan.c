/* SPDX-License-Identifier: BSD-3-Clause */
#include "gateway/scan.h"

#include <stdint.h>
#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#define LIKELY(c) __builtin_expect(!!(c), 1)
#define UNLIKELY(c) __builtin_expect(!!(c), 0)

static const char *fail(struct scan *s, const char *fault) {
    if (!s->fault) {
        s->fault = fault;
    }
    s->p = s->end;
    return NULL;
}

static int fail_code(const struct scan *s) {
    return s->depth > SCAN_DEPTH_MAX ? ERR_LIMIT : ERR_INPUT;
}

static inline bool is_blank(char c) {
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static inline bool is_digit(char c) {
    return (unsigned char)(c - '0') < 10;
}

/* Engines write compact JSON: mostly there is nothing to pass. */
static inline const char *pass_blanks(const char *p, const char *end) {
    while (p < end && UNLIKELY(is_blank(*p))) {
        p++;
    }
    return p;
}

/* The first byte in [p, end) that ends a run of plain string bytes: quote, backslash, control. */
static inline const char *plain_run(const char *p, const char *end) {
#ifdef __SSE2__
    const __m128i quote = _mm_set1_epi8('"');
    const __m128i backslash = _mm_set1_epi8('\\');
    const __m128i below_blank = _mm_set1_epi8(0x1f);
    while (end - p >= 16) {
        __m128i v = _mm_loadu_si128((const __m128i *)(const void *)p);
        __m128i hit = _mm_or_si128(_mm_cmpeq_epi8(v, quote), _mm_cmpeq_epi8(v, backslash));
        hit = _mm_or_si128(hit, _mm_cmpeq_epi8(_mm_min_epu8(v, below_blank), v));
        unsigned mask = (unsigned)_mm_movemask_epi8(hit);
        if (mask) {
            return p + __builtin_ctz(mask);
        }
        p += 16;
    }
#else
    const uint64_t ones = 0x0101010101010101u;
    const uint64_t highs = 0x8080808080808080u;
    while (end - p >= 8) {
        uint64_t v;
        memcpy(&v, p, 8);
        uint64_t q = v ^ (ones * '"');
        uint64_t b = v ^ (ones * '\\');
        uint64_t hit = ((q - ones) & ~q) | ((b - ones) & ~b) | ((v - ones * 0x20) & ~v);
        if (hit & highs) {
            break;
        }
        p += 8;
    }
#endif
    while (p < end && *p != '"' && *p != '\\' && (unsigned char)*p >= 0x20) {
        p++;
    }
    return p;
}

#ifdef __SSE2__
/* Of 32 bytes: a bit for each that is a digit, or that is `c`. Such a window holds most numbers and
 * lists whole, so that no branch hangs on how long they are. */
#define WINDOW 32

static inline unsigned digits_in(const char *p) {
    const __m128i nine = _mm_set1_epi8(9);
    const __m128i zero = _mm_set1_epi8('0');
    __m128i a = _mm_sub_epi8(_mm_loadu_si128((const __m128i *)(const void *)p), zero);
    __m128i b = _mm_sub_epi8(_mm_loadu_si128((const __m128i *)(const void *)(p + 16)), zero);
    a = _mm_cmpeq_epi8(_mm_min_epu8(a, nine), a);
    b = _mm_cmpeq_epi8(_mm_min_epu8(b, nine), b);
    return (unsigned)_mm_movemask_epi8(a) | (unsigned)_mm_movemask_epi8(b) << 16;
}

static inline unsigned places_of(char c, const char *p) {
    const __m128i want = _mm_set1_epi8(c);
    __m128i a = _mm_cmpeq_epi8(_mm_loadu_si128((const __m128i *)(const void *)p), want);
    __m128i b = _mm_cmpeq_epi8(_mm_loadu_si128((const __m128i *)(const void *)(p + 16)), want);
    return (unsigned)_mm_movemask_epi8(a) | (unsigned)_mm_movemask_epi8(b) << 16;
}
#endif

static bool is_hex4(const char *p, const char *end) {
    if (end - p < 4) {
        return false;
    }
    for (int i = 0; i < 4; i++) {
        char c = (char)(p[i] | 0x20);
        if (!is_digit(p[i]) && !(c >= 'a' && c <= 'f')) {
            return false;
        }
    }
    return true;
}

static inline bool is_escape(char c) {
    return c == 'n' || c == '"' || c == '\\' || c == 't' || c == '/' || c == 'b' || c == 'f' ||
           c == 'r';
}

/* `p` stands behind the opening quote; returns behind the closing one. */
static inline const char *pass_string(struct scan *s, const char *p) {
    for (;;) {
        p = plain_run(p, s->end);
        if (UNLIKELY(p == s->end)) {
            return fail(s, "a string has no end");
        }
        if (LIKELY(*p == '"')) {
            return p + 1;
        }
        if (*p != '\\') {
            return fail(s, "a control byte in a string");
        }
        p++;
        if (p == s->end) {
            return fail(s, "a string has no end");
        }
        if (*p == 'u') {
            if (!is_hex4(p + 1, s->end)) {
                return fail(s, "a \\u escape without four hex digits");
            }
            p += 5;
        } else if (is_escape(*p)) {
            p++;
        } else {
            return fail(s, "an unknown escape in a string");
        }
    }
}

/* Log-probabilities have up to 17 digits. */
static inline const char *pass_digits(const char *p, const char *end) {
#ifdef __SSE2__
    while (LIKELY(end - p >= 16)) {
        __m128i v =
            _mm_sub_epi8(_mm_loadu_si128((const __m128i *)(const void *)p), _mm_set1_epi8('0'));
        __m128i digits = _mm_cmpeq_epi8(_mm_min_epu8(v, _mm_set1_epi8(9)), v);
        unsigned others = (unsigned)_mm_movemask_epi8(digits) ^ 0xffffu;
        if (others) {
            return p + __builtin_ctz(others);
        }
        p += 16;
    }
#endif
    while (p < end && is_digit(*p)) {
        p++;
    }
    return p;
}

static const char *pass_word(struct scan *s, const char *p, const char *word, size_t n) {
    if ((size_t)(s->end - p) < n || memcmp(p, word, n) != 0) {
        return fail(s, "not a JSON value");
    }
    return p + n;
}

static const char *pass_nonfinite(struct scan *s, const char *p) {
    s->nonfinite = true;
    return *p == 'N' ? pass_word(s, p, "NaN", 3) : pass_word(s, p, "Infinity", 8);
}

static inline const char *pass_number(struct scan *s, const char *p) {
    const char *end = s->end;
    if (*p == '-') {
        p++;
        if (p < end && UNLIKELY(*p == 'I')) {
            return pass_nonfinite(s, p);
        }
    }
    const char *digits = p;
    p = pass_digits(p, end);
    if (UNLIKELY(p == digits || (*digits == '0' && p - digits > 1))) {
        return fail(s, "not a number");
    }
    if (p < end && *p == '.') {
        digits = p + 1;
        p = pass_digits(digits, end);
        if (UNLIKELY(p == digits)) {
            return fail(s, "not a number");
        }
    }
    if (p < end && (*p | 0x20) == 'e') {
        digits = p + 1;
        if (digits < end && (*digits == '+' || *digits == '-')) {
            digits++;
        }
        p = pass_digits(digits, end);
        if (UNLIKELY(p == digits)) {
            return fail(s, "not a number");
        }
    }
    return p;
}

static const char *pass_value(struct scan *s, const char *p);

/* The text has these very bytes at `p`. */
#define HAS(s, p, literal)                                                                         \
    ((size_t)((s)->end - (p)) >= sizeof(literal) - 1 &&                                            \
     memcmp((p), (literal), sizeof(literal) - 1) == 0)

/* Digits, with a fraction if there is one, without a sign or an exponent: behind them, or NULL when
 * it is spelled in another way. What stands behind is for the caller to check. */
static inline const char *pass_decimal(struct scan *s, const char *p) {
#ifdef __SSE2__
    if (LIKELY(s->end - p >= WINDOW)) {
        unsigned others = ~digits_in(p);
        unsigned point = others ? (unsigned)__builtin_ctz(others) : 0;
        unsigned behind = others & (others - 1);
        unsigned end = behind ? (unsigned)__builtin_ctz(behind) : 0;
        bool is_good = point > 0 && end > point + 1 && p[point] == '.' && (*p != '0' || point == 1);
        if (LIKELY(is_good)) {
            return p + end;
        }
    }
#endif
    if (p == s->end || !is_digit(*p)) {
        return NULL;
    }
    const char *from = p;
    p = pass_digits(p, s->end);
    if (*from == '0' && p - from > 1) {
        return NULL;
    }
    if (p < s->end && *p == '.') {
        from = p + 1;
        p = pass_digits(from, s->end);
        return p > from ? p : NULL;
    }
    return p;
}

/*
 * A list of whole numbers without blanks, a window at a time: a prompt's ids are tens of thousands
 * of bytes. `p` stands behind the bracket. NULL without a fault: it is something else, or spelled
 * in another way.
 */
static inline const char *pass_int_list(const char *p, const char *end) {
    unsigned after_comma = 1; /* A number begins at the next byte. */
    unsigned after_zero = 0;  /* It must have no more digits. */
#ifdef __SSE2__
    while (end - p >= WINDOW) {
        unsigned digits = digits_in(p);
        unsigned commas = places_of(',', p);
        unsigned others = ~(digits | commas);
        unsigned within = (others & (0u - others)) - 1; /* All of them when there is no other. */
        unsigned starts = commas << 1 | after_comma;
        unsigned leading = places_of('0', p) & starts;
        unsigned lone = leading << 1 | after_zero;
        if (UNLIKELY(((starts & commas) | (lone & digits)) & within)) {
            return NULL;
        }
        if (LIKELY(others)) {
            unsigned at = (unsigned)__builtin_ctz(others);
            return p[at] == ']' && !(starts >> at & 1) ? p + at + 1 : NULL;
        }
        after_comma = commas >> (WINDOW - 1);
        after_zero = leading >> (WINDOW - 1);
        p += WINDOW;
    }
#endif
    for (; p < end && *p != ']'; p++) {
        if (*p == ',' ? after_comma : !is_digit(*p) || after_zero) {
            return NULL;
        }
        after_zero = *p == '0' && after_comma;
        after_comma = *p == ',';
    }
    return p < end && !after_comma ? p + 1 : NULL;
}

/*
 * {"token":"...","logprob":-1.5,"bytes":[...]: rows and their alternatives are most of an answer
 * with log-probabilities, and engines spell them all alike, without blanks or line ends. `p` stands
 * behind the brace. NULL without a fault: it is spelled in some other way.
 */
static inline const char *pass_row_front(struct scan *s, const char *p, struct sv *token,
                                         struct sv *logprob) {
    const char *from = p + sizeof "\"token\":" - 1;
    if (!HAS(s, p, "\"token\":\"")) {
        return NULL;
    }
    p = pass_string(s, from + 1);
    if (UNLIKELY(!p) || !HAS(s, p, ",\"logprob\":-")) {
        return NULL;
    }
    *token = (struct sv){from, (size_t)(p - from)};
    from = p + sizeof ",\"logprob\":" - 1;
    p = pass_decimal(s, from + 1);
    if (UNLIKELY(!p) || !HAS(s, p, ",\"bytes\":[")) {
        return NULL;
    }
    *logprob = (struct sv){from, (size_t)(p - from)};
    p += sizeof ",\"bytes\":[" - 1;
    return LIKELY(p < s->end && *p != ']') ? pass_int_list(p, s->end) : p < s->end ? p + 1 : NULL;
}

static inline const char *pass_alternative(struct scan *s, const char *p) {
    struct sv token;
    struct sv logprob;
    p = pass_row_front(s, p, &token, &logprob);
    return p && p < s->end && *p == '}' ? p + 1 : NULL;
}

/* Behind '['. Lists of ids and of bytes are most of what there is: they get a short way. */
static const char *pass_array(struct scan *s, const char *p) {
    const char *end = s->end;
    const char *behind = pass_int_list(p, end);
    if (behind) {
        return behind;
    }
    p = pass_blanks(p, end);
    if (p < end && *p == ']') {
        return p + 1;
    }
    for (;;) {
        if (p < end && *p >= '1' && *p <= '9') {
            p = pass_digits(p + 1, end);
            if (UNLIKELY(p < end && (*p == '.' || (*p | 0x20) == 'e'))) {
                while (is_digit(p[-1])) {
                    p--;
                }
                p = pass_number(s, p);
            }
        } else {
            p = pass_value(s, p);
        }
        if (UNLIKELY(!p)) {
            return NULL;
        }
        p = pass_blanks(p, end);
        if (UNLIKELY(p == end)) {
            return fail(s, "a list has no end");
        }
        if (*p == ']') {
            return p + 1;
        }
        if (UNLIKELY(*p != ',')) {
            return fail(s, "no comma between two elements");
        }
        p = pass_blanks(p + 1, end);
    }
}

/* A quoted key and its colon; returns at the value. */
static inline const char *pass_key(struct scan *s, const char *p, struct sv *out_key,
                                   bool *out_plain) {
    if (UNLIKELY(p == s->end || *p != '"')) {
        return fail(s, "no key where one is due");
    }
    const char *key = p + 1;
    p = plain_run(key, s->end);
    *out_plain = p < s->end && *p == '"';
    p = LIKELY(*out_plain) ? p + 1 : pass_string(s, key);
    if (UNLIKELY(!p)) {
        return NULL;
    }
    *out_key = (struct sv){key, (size_t)(p - 1 - key)};
    p = pass_blanks(p, s->end);
    if (UNLIKELY(p == s->end || *p != ':')) {
        return fail(s, "no colon behind a key");
    }
    return pass_blanks(p + 1, s->end);
}

/* Behind '{'. */
static const char *pass_object(struct scan *s, const char *p) {
    const char *end = s->end;
    struct sv key;
    bool is_plain;
    const char *alternative = pass_alternative(s, p);
    if (alternative || UNLIKELY(s->fault)) {
        return alternative;
    }
    p = pass_blanks(p, end);
    if (p < end && *p == '}') {
        return p + 1;
    }
    for (;;) {
        p = pass_key(s, p, &key, &is_plain);
        p = p ? pass_value(s, p) : NULL;
        if (UNLIKELY(!p)) {
            return NULL;
        }
        p = pass_blanks(p, end);
        if (UNLIKELY(p == end)) {
            return fail(s, "an object has no end");
        }
        if (*p == '}') {
            return p + 1;
        }
        if (UNLIKELY(*p != ',')) {
            return fail(s, "no comma between two members");
        }
        p = pass_blanks(p + 1, end);
    }
}

static const char *pass_value(struct scan *s, const char *p) {
    if (UNLIKELY(p == s->end)) {
        return fail(s, "no value where one is due");
    }
    switch (*p) {
    case '"':
        return pass_string(s, p + 1);
    case '{':
    case '[':
        if (UNLIKELY(++s->depth > SCAN_DEPTH_MAX)) {
            return fail(s, "nested too deep");
        }
        p = *p == '{' ? pass_object(s, p + 1) : pass_array(s, p + 1);
        if (LIKELY(p != NULL)) {
            s->depth--;
        }
        return p;
    case 't':
        return pass_word(s, p, "true", 4);
    case 'f':
        return pass_word(s, p, "false", 5);
    case 'n':
        return pass_word(s, p, "null", 4);
    case 'N':
    case 'I':
        return pass_nonfinite(s, p);
    default:
        return pass_number(s, p);
    }
}

void scan_init(struct scan *s, struct sv text) {
    const char *p = text.p ? text.p : "";
    *s = (struct scan){.p = p, .end = p + text.n};
}

static int kind_at(const char *p, const char *end) {
    if (p == end) {
        return 0;
    }
    switch (*p) {
    case '{':
        return SCAN_OBJECT;
    case '[':
        return SCAN_ARRAY;
    case '"':
        return SCAN_STRING;
    case 't':
        return SCAN_TRUE;
    case 'f':
        return SCAN_FALSE;
    case 'n':
        return SCAN_NULL;
    case 'N':
    case 'I':
        return SCAN_NONFINITE;
    case '-':
        return p + 1 < end && p[1] == 'I' ? SCAN_NONFINITE : SCAN_NUMBER;
    default:
        return is_digit(*p) ? SCAN_NUMBER : 0;
    }
}

int scan_peek(struct scan *s) {
    s->p = pass_blanks(s->p, s->end);
    return kind_at(s->p, s->end);
}

int scan_skip(struct scan *s, struct sv *out) {
    const char *start = pass_blanks(s->p, s->end);
    const char *p = s->fault ? NULL : pass_value(s, start);
    if (UNLIKELY(!p)) {
        return fail_code(s);
    }
    s->p = p;
    *out = (struct sv){start, (size_t)(p - start)};
    return kind_at(start, p);
}

static int enter(struct scan *s, char bracket) {
    const char *p = pass_blanks(s->p, s->end);
    if (s->fault || p == s->end || *p != bracket) {
        (void)fail(s, bracket == '{' ? "not an object" : "not a list");
        return fail_code(s);
    }
    if (++s->depth > SCAN_DEPTH_MAX) {
        (void)fail(s, "nested too deep");
        return fail_code(s);
    }
    s->p = p + 1;
    s->first = true;
    return 0;
}

int scan_enter_object(struct scan *s) {
    return enter(s, '{');
}

int scan_enter_array(struct scan *s) {
    return enter(s, '[');
}

/* 1: at the next element; 0: the bracket was taken. */
static inline int next(struct scan *s, char bracket) {
    const char *p = pass_blanks(s->p, s->end);
    bool first = s->first;
    s->first = false;
    if (UNLIKELY(s->fault || p == s->end || s->depth == 0)) {
        (void)fail(s, "no end of a list or object");
        return fail_code(s);
    }
    if (*p == bracket) {
        s->p = p + 1;
        s->depth--;
        return 0;
    }
    if (!first) {
        if (UNLIKELY(*p != ',')) {
            (void)fail(s, "no comma between two elements");
            return fail_code(s);
        }
        p = pass_blanks(p + 1, s->end);
    }
    s->p = p;
    return 1;
}

int scan_next_key(struct scan *s, struct sv *out_key) {
    int more = next(s, '}');
    if (more != 1) {
        return more;
    }
    const char *p = pass_key(s, s->p, out_key, &s->key_is_plain);
    if (UNLIKELY(!p)) {
        return fail_code(s);
    }
    s->p = p;
    return 1;
}

int scan_next_item(struct scan *s) {
    return next(s, ']');
}

bool scan_string(struct scan *s, struct sv *out) {
    struct scan at = *s;
    const char *p = s->p < s->end && *s->p == '"' ? pass_string(&at, s->p + 1) : NULL;
    if (UNLIKELY(!p)) {
        return false;
    }
    *out = (struct sv){s->p, (size_t)(p - s->p)};
    s->p = p;
    return true;
}

bool scan_int_list(struct scan *s, struct sv *out) {
    const char *p = s->p < s->end && *s->p == '[' ? pass_int_list(s->p + 1, s->end) : NULL;
    if (UNLIKELY(!p)) {
        return false;
    }
    *out = (struct sv){s->p, (size_t)(p - s->p)};
    s->p = p;
    return true;
}

bool scan_row(struct scan *s, struct scan_row *out) {
    const char *start = s->p;
    if (s->fault || !HAS(s, start, "{\"token\":")) {
        return false;
    }
    struct scan at = *s;
    const char *p = pass_row_front(&at, start + 1, &out->token, &out->logprob);
    if (UNLIKELY(!p) || at.nonfinite || !HAS(&at, p, ",\"top_logprobs\":[{")) {
        return false;
    }
    const char *top = p + sizeof ",\"top_logprobs\":" - 1;
    for (p = top; p && p < at.end && (*p == ',' || p == top);) {
        p = HAS(&at, p + 1, "{") ? pass_alternative(&at, p + 2) : NULL;
    }
    if (UNLIKELY(!p) || at.nonfinite || !HAS(&at, p, "]}")) {
        return false;
    }
    out->top_logprobs = (struct sv){top, (size_t)(p + 1 - top)};
    out->text = (struct sv){start, (size_t)(p + 2 - start)};
    s->p = p + 2;
    return true;
}

int scan_end(struct scan *s) {
    s->p = pass_blanks(s->p, s->end);
    if (s->fault || s->p != s->end || s->depth > 0) {
        (void)fail(s, "something follows the value");
        return fail_code(s);
    }
    return 0;
}

int scan_whole(struct sv text, struct sv *out) {
    struct scan s;
    scan_init(&s, text);
    int kind = scan_skip(&s, out);
    if (kind < 0) {
        return kind;
    }
    int rc = scan_end(&s);
    return rc < 0 ? rc : kind;
}
