/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <stdlib.h>

#include "sandbox/sandbox.h"

/* Times what a rollout waits for before its first command: a local sandbox from nothing, and `true`
 * in it, without and with a disk image. Prints one JSON object; times are milliseconds. */

#define RUNS_DEFAULT 200
#define RUNS_MAX 100000

struct times {
    double create_exec;
    double create;
    double kill;
};

static int measure(struct times *t, struct err *err) {
    struct sandbox_spec spec = {.owner = "bench", .run = "bench", .rollout = "bench"};
    const char *const argv[] = {"/bin/true", NULL};
    struct sandbox_exec what = {.argv = argv};
    struct sandbox_output out = {0};
    struct sandbox *s = NULL;
    int64_t begin = clock_us();
    int r = sandbox_create(&sandbox_local, &spec, deadline_in_s(60), NULL, &s, err);
    int64_t created = clock_us();
    if (r == 0) {
        r = sandbox_exec(s, &what, &out, err);
    }
    int64_t done = clock_us();
    if (s) {
        int killed = sandbox_kill(s, r < 0 ? NULL : err);
        r = r < 0 ? r : killed;
    }
    int64_t end = clock_us();
    sandbox_free(s);
    sandbox_output_deinit(&out);
    *t = (struct times){(double)(done - begin) / 1e3, (double)(created - begin) / 1e3,
                        (double)(end - done) / 1e3};
    return r;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts the values, and gives the one below which the share of them lies. */
static double percentile(double *values, size_t n, double share) {
    qsort(values, n, sizeof *values, compare);
    size_t i = (size_t)((double)n * share);
    return values[i < n ? i : n - 1];
}

/* Columns of `n` values each. */
struct columns {
    double *create_exec;
    double *create;
    double *kill;
};

static int measure_all(size_t n, const struct columns *to) {
    struct err err = {0};
    for (size_t i = 0; i < n; i++) {
        struct times t;
        if (measure(&t, &err) < 0) {
            fprintf(stderr, "sandbox_bench: %s\n", err.msg);
            return err_exit_status(err.code);
        }
        to->create_exec[i] = t.create_exec;
        to->create[i] = t.create;
        to->kill[i] = t.kill;
    }
    return 0;
}

/* With the home's disk image, where this machine can have one; the first makes the template. */
static int run_with_disk(size_t n, const struct columns *c) {
    struct err err = {0};
    struct times first;
    unsetenv("SNAFFLE_LOCAL_WITHOUT");
    if (measure(&first, &err) < 0) {
        fprintf(stderr, "sandbox_bench: %s\n", err.msg);
        return err_exit_status(err.code);
    }
    int status = measure_all(n, c);
    if (status == 0) {
        printf(", \"create_exec_disk_p50_ms\": %.2f, \"create_exec_disk_p99_ms\": %.2f, "
               "\"kill_disk_p50_ms\": %.2f}\n",
               percentile(c->create_exec, n, 0.5), percentile(c->create_exec, n, 0.99),
               percentile(c->kill, n, 0.5));
    }
    return status;
}

static int run(size_t n, const struct columns *c) {
    setenv("SNAFFLE_LOCAL_WITHOUT", "loop", 1);
    int status = measure_all(n, c);
    if (status != 0) {
        return status;
    }
    printf("{\"runs\": %zu, \"create_exec_p50_ms\": %.2f, \"create_exec_p99_ms\": %.2f, "
           "\"create_p50_ms\": %.2f, \"kill_p50_ms\": %.2f, \"kill_p99_ms\": %.2f",
           n, percentile(c->create_exec, n, 0.5), percentile(c->create_exec, n, 0.99),
           percentile(c->create, n, 0.5), percentile(c->kill, n, 0.5),
           percentile(c->kill, n, 0.99));
    return run_with_disk(n, c);
}

int main(int argc, char **argv) {
    unsigned long long n = RUNS_DEFAULT;
    if (argc > 2 || (argc == 2 && (!sv_parse_u64(sv_from(argv[1]), RUNS_MAX, &n) || n == 0))) {
        fprintf(stderr, "usage: sandbox_bench [RUNS]\n");
        return 2;
    }
    double *values = calloc((size_t)n * 3, sizeof *values);
    if (!values) {
        fprintf(stderr, "sandbox_bench: out of memory\n");
        return 1;
    }
    struct columns columns = {values, values + n, values + 2 * n};
    int status = run((size_t)n, &columns);
    free(values);
    return status;
}
