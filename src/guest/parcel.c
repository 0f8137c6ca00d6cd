/* SPDX-License-Identifier: BSD-3-Clause */
#include "guest/parcel.h"

#include <stdbool.h>
#include <stdint.h>

#define MARK "snaffle "
#define SUM_DIGITS 16
#define PARCEL_MAX (1ull << 40) /* Of its length: any that memory may hold. */

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static uint64_t sum_of(struct sv bytes) {
    uint64_t sum = 0xcbf29ce484222325;
    for (size_t i = 0; i < bytes.n; i++) {
        sum = (sum ^ (unsigned char)bytes.p[i]) * 0x100000001b3;
    }
    return sum;
}

static void put_group(char *out, const unsigned char *in, size_t n) {
    unsigned bits =
        (unsigned)in[0] << 16 | (n > 1 ? (unsigned)in[1] << 8 : 0) | (n > 2 ? in[2] : 0);
    out[0] = digits[bits >> 18];
    out[1] = digits[bits >> 12 & 63];
    out[2] = n > 1 ? digits[bits >> 6 & 63] : '=';
    out[3] = n > 2 ? digits[bits & 63] : '=';
}

int parcel_put(struct sv bytes, struct buf *out) {
    size_t n = (bytes.n + 2) / 3 * 4;
    int r = buf_addf(out, MARK "%zu %016llx ", bytes.n, (unsigned long long)sum_of(bytes));
    r = r < 0 ? r : buf_reserve(out, n + 1);
    if (r < 0) {
        return r;
    }
    for (size_t i = 0; i < bytes.n; i += 3, out->len += 4) {
        size_t left = bytes.n - i;
        put_group(out->data + out->len, (const unsigned char *)bytes.p + i, left < 3 ? left : 3);
    }
    return buf_addc(out, '\n');
}

/* Takes the word before the next space off the front. */
static struct sv take_word(struct sv *rest) {
    size_t n = sv_find(*rest, SV(" "));
    struct sv word = {rest->p, n == (size_t)-1 ? rest->n : n};
    *rest = sv_cut(*rest, word.n + 1);
    return word;
}

static int value_of(char c) {
    if (c >= 'A' && c <= 'Z') {
        return c - 'A';
    }
    if (c >= 'a' && c <= 'z') {
        return c - 'a' + 26;
    }
    if (c >= '0' && c <= '9') {
        return c - '0' + 52;
    }
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* `length` bytes, of as many digits and fillings as they take. */
static bool decode(struct sv text, size_t length, char *out) {
    size_t at = 0;
    size_t filled = text.n - (3 - length % 3) % 3;
    unsigned bits = 0;
    for (size_t i = 0; i < text.n; i++) {
        int value = i < filled ? value_of(text.p[i]) : 0;
        if (value < 0 || (i >= filled && text.p[i] != '=')) {
            return false;
        }
        bits = bits << 6 | (unsigned)value;
        for (int shift = 16; i % 4 == 3 && shift >= 0 && at < length; shift -= 8) {
            out[at++] = (char)(bits >> shift & 0xff);
        }
    }
    return at == length;
}

static bool sum_is(struct sv word, uint64_t sum) {
    uint64_t value = 0;
    for (size_t i = 0; i < word.n; i++) {
        char c = word.p[i];
        int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
        if (digit < 0) {
            return false;
        }
        value = value << 4 | (unsigned)digit;
    }
    return word.n == SUM_DIGITS && value == sum;
}

int parcel_read(struct sv text, struct buf *out, struct err *err) {
    unsigned long long length = 0;
    bool good = sv_starts_with(text, SV(MARK)) && sv_ends_with(text, SV("\n"));
    struct sv rest = good ? (struct sv){text.p, text.n - 1} : (struct sv){0};
    (void)take_word(&rest);
    struct sv count = take_word(&rest);
    struct sv sum = take_word(&rest);
    good = good && sv_parse_u64(count, PARCEL_MAX, &length) && rest.n == (length + 2) / 3 * 4;
    if (good && buf_reserve(out, (size_t)length + 1) < 0) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    char *to = good ? out->data + out->len : NULL;
    if (!good || !decode(rest, (size_t)length, to) ||
        !sum_is(sum, sum_of((struct sv){to, (size_t)length}))) {
        return err_set(err, ERR_PROTOCOL, "what was told did not come whole");
    }
    out->len += (size_t)length;
    out->data[out->len] = '\0';
    return 0;
}
