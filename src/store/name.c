/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/rand.h"
#include "store/store_internal.h"

static bool is_letter_or_digit(char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

bool name_is_good(const char *name) {
    size_t n = strlen(name);
    if (n == 0 || n > STORE_NAME_MAX || !is_letter_or_digit(name[0])) {
        return false;
    }
    for (size_t i = 1; i < n; i++) {
        if (!is_letter_or_digit(name[i]) && name[i] != '-') {
            return false;
        }
    }
    return true;
}

int store_check_name(const char *what, const char *name, struct err *err) {
    if (strcmp(what, "rollout") == 0 && strcmp(name, STORE_RUN_JOURNAL) == 0) {
        return err_set(err, ERR_INPUT, "the rollout's name '%s' is taken (choose another)", name);
    }
    if (!name_is_good(name)) {
        return err_set(err, ERR_INPUT,
                       "the %s's name '%.100s' must be 1 to %d of a-z, 0-9 and '-', and not begin "
                       "with '-'",
                       what, name, STORE_NAME_MAX);
    }
    return 0;
}

void store_new_run_name(char out[STORE_NAME_MAX + 1]) {
    struct tm tm = {0};
    time_t now = time(NULL);
    char end[7];
    gmtime_r(&now, &tm);
    rand_hex(end, 3);
    size_t n = strftime(out, STORE_NAME_MAX + 1, "%Y%m%d-%H%M%S-", &tm);
    memcpy(out + n, end, sizeof end);
}

void store_name_from(const char *text, unsigned index, char out[STORE_NAME_MAX + 1]) {
    char end[16];
    int end_n = snprintf(end, sizeof end, "-%u", index);
    size_t most = STORE_NAME_MAX - (size_t)end_n;
    size_t n = 0;
    for (const char *p = text; *p && n < most; p++) {
        char c = *p >= 'A' && *p <= 'Z' ? (char)(*p - 'A' + 'a') : *p;
        if (is_letter_or_digit(c)) {
            out[n++] = c;
        } else if (n > 0 && out[n - 1] != '-') {
            out[n++] = '-';
        }
    }
    while (n > 0 && out[n - 1] == '-') {
        n--;
    }
    if (n == 0) {
        memcpy(out, "task", 4);
        n = 4;
    }
    memcpy(out + n, end, (size_t)end_n + 1);
}
