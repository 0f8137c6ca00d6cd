/* SPDX-License-Identifier: BSD-3-Clause */
#include "sandbox/hf/rate.h"

#include <string.h>

/* Where a 429 names no time: the window is 300 s, and a tenth of it lets some others pass. */
#define BLIND_WAIT_S 30
#define WAIT_MAX_S 3600 /* A longer Retry-After is no answer worth obeying. */

struct sv hf_head_field(struct sv head, struct sv name) {
    while (head.n > 0) {
        size_t end = sv_find(head, SV("\n"));
        struct sv line = end == (size_t)-1 ? head : (struct sv){head.p, end};
        head = end == (size_t)-1 ? (struct sv){0} : sv_cut(head, end + 1);
        if (line.n > name.n && line.p[name.n] == ':' &&
            sv_eq_nocase((struct sv){line.p, name.n}, name)) {
            struct sv value = sv_cut(line, name.n + 1);
            value.n -= value.n > 0 && value.p[value.n - 1] == '\r';
            return sv_trim(value);
        }
    }
    return (struct sv){0};
}

/* The number behind `key` in `"api";r=0;t=55`. */
static bool parameter(struct sv value, struct sv key, unsigned long long *out) {
    size_t at = sv_find(value, key);
    if (at == (size_t)-1) {
        return false;
    }
    struct sv rest = sv_cut(value, at + key.n);
    size_t n = 0;
    while (n < rest.n && rest.p[n] >= '0' && rest.p[n] <= '9') {
        n++;
    }
    return sv_parse_u64((struct sv){rest.p, n}, 1u << 30, out);
}

void hf_rate_learn(struct hf_rate *r, int status, struct sv head) {
    struct sv limit = hf_head_field(head, SV("RateLimit"));
    unsigned long long left;
    unsigned long long seconds;
    pthread_mutex_lock(&r->lock);
    if (parameter(limit, SV(";r="), &left) && parameter(limit, SV(";t="), &seconds)) {
        r->known = true;
        r->left = (long)left;
        r->renewed = deadline_in_s((double)seconds + 1);
    } else if (status == 429) {
        struct sv after = hf_head_field(head, SV("Retry-After"));
        seconds = BLIND_WAIT_S;
        (void)sv_parse_u64(after, WAIT_MAX_S, &seconds);
        r->not_before = deadline_in_s((double)seconds);
    }
    pthread_mutex_unlock(&r->lock);
}

/* Takes a call, or gives the time to wait for one. */
static deadline_ms try_take(struct hf_rate *r) {
    deadline_ms wait = 0;
    pthread_mutex_lock(&r->lock);
    if (r->known && deadline_passed(r->renewed)) {
        r->known = false; /* The next answer tells anew. */
    }
    if (!deadline_passed(r->not_before)) {
        wait = r->not_before;
    } else if (r->known && r->left <= 0) {
        wait = r->renewed;
    } else {
        r->left--;
    }
    pthread_mutex_unlock(&r->lock);
    return wait;
}

int hf_rate_take(struct hf_rate *r, deadline_ms until, const struct cancel *cancel,
                 struct err *err) {
    for (;;) {
        deadline_ms wait = try_take(r);
        if (wait == 0) {
            return 0;
        }
        if (wait > until) {
            return err_set(err, ERR_QUOTA,
                           "the Hub's rate limit is used up for another %lld s: run fewer at once, "
                           "or wait",
                           (long long)(deadline_left_ms(wait) / 1000 + 1));
        }
        int rc = cancel_sleep(cancel, wait, err);
        if (rc < 0) {
            return rc;
        }
    }
}
