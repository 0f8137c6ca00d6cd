/* SPDX-License-Identifier: BSD-3-Clause */
#include "rollout/reward.h"

#include <ctype.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static locale_t c_locale;

static void make_c_locale(void) {
    c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

/* Signs, digits, points and exponents only: what strtod would take besides is no reward. */
static bool looks_decimal(const char *s) {
    return *s && strspn(s, "+-.0123456789eE") == strlen(s);
}

static struct sv trim(struct sv v) {
    while (v.n > 0 && isspace((unsigned char)v.p[0])) {
        v = sv_cut(v, 1);
    }
    while (v.n > 0 && isspace((unsigned char)v.p[v.n - 1])) {
        v.n--;
    }
    return v;
}

int reward_parse(struct sv text, double *out, struct err *err) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_c_locale);
    if (text.n > REWARD_BYTES_MAX) {
        return err_set(err, ERR_INPUT, "reward.txt is longer than %d bytes", REWARD_BYTES_MAX);
    }
    struct sv number = trim(text);
    if (number.n == 0) {
        return err_set(err, ERR_INPUT, "reward.txt is empty: want one number");
    }
    char s[REWARD_BYTES_MAX + 1] = {0};
    memcpy(s, number.p, number.n);
    char *end = NULL;
    double value = 0;
    if (strlen(s) == number.n && looks_decimal(s)) {
        value = c_locale ? strtod_l(s, &end, c_locale) : strtod(s, &end);
    }
    if (!end || *end || !isfinite(value)) {
        return err_set(err, ERR_INPUT, "reward.txt does not hold one finite number");
    }
    *out = value;
    return 0;
}
