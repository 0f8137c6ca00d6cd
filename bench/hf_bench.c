/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Drives the Hub that HF_ENDPOINT names (tools/bench_hf.py starts a fake one) and prints one JSON
 * object; times are milliseconds.
 *
 *     hf_bench trips RUNS          a sandbox from nothing and its first command; a command more
 *     hf_bench upload RUNS FILE    a file as the agent's program is sent
 *     hf_bench many COUNT SECONDS  so many sandboxes, each with a command of that length, at once
 */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/file.h"
#include "base/mem.h"

#include "base/thread.h"
#include "sandbox/sandbox.h"

#define RUNS_MAX 10000
#define CREATE_S 500.0
#define LIFETIME_S 1200.0
#define TRIPS 20            /* Commands in each sandbox of `trips`. */
#define STACK (256u * 1024) /* As the rollouts' threads have. */

static int fail(const struct err *err) {
    fprintf(stderr, "hf_bench: %s\n", err->msg);
    return err_exit_status(err->code);
}

static int create(struct sandbox **out, struct err *err) {
    struct sandbox_spec spec = {
        .owner = "bench", .run = "bench", .rollout = "bench", .lifetime_s = LIFETIME_S};
    return sandbox_create(&sandbox_hf, &spec, deadline_in_s(CREATE_S), NULL, out, err);
}

static int run_true(struct sandbox *s, struct err *err) {
    const char *const argv[] = {"/bin/true", NULL};
    struct sandbox_exec what = {.argv = argv};
    struct sandbox_output out = {0};
    int r = sandbox_exec(s, &what, &out, err);
    sandbox_output_deinit(&out);
    return r;
}

/* Ends it, and keeps the first error. */
static int end(struct sandbox *s, int r, struct err *err) {
    if (s) {
        int killed = sandbox_kill(s, r < 0 ? NULL : err);
        r = r < 0 ? r : killed;
    }
    sandbox_free(s);
    return r;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static double percentile(double *values, size_t n, double share) {
    qsort(values, n, sizeof *values, compare);
    size_t i = (size_t)((double)n * share);
    return values[i < n ? i : n - 1];
}

static double since_ms(int64_t begin_us) {
    return (double)(clock_us() - begin_us) / 1e3;
}

/* --- trips --- */

static int one_sandbox(double *first, double *more, struct err *err) {
    struct sandbox *s = NULL;
    int64_t begin = clock_us();
    int r = create(&s, err);
    r = r < 0 ? r : run_true(s, err);
    *first = since_ms(begin);
    for (size_t i = 0; r >= 0 && i < TRIPS; i++) {
        begin = clock_us();
        r = run_true(s, err);
        more[i] = since_ms(begin);
    }
    return end(s, r, err);
}

static int trips(size_t n) {
    struct err err = {0};
    AUTO_FREE double *first = calloc(n, sizeof *first);
    AUTO_FREE double *more = calloc(n * TRIPS, sizeof *more);
    for (size_t i = 0; first && more && i < n; i++) {
        if (one_sandbox(&first[i], more + i * TRIPS, &err) < 0) {
            return fail(&err);
        }
    }
    if (!first || !more) {
        return 1;
    }
    printf("{\"create_exec_p50_ms\": %.1f, \"create_exec_p99_ms\": %.1f, \"exec_p50_ms\": %.2f, "
           "\"exec_p99_ms\": %.2f}\n",
           percentile(first, n, 0.5), percentile(first, n, 0.99), percentile(more, n * TRIPS, 0.5),
           percentile(more, n * TRIPS, 0.99));
    return 0;
}

/* --- upload --- */

static int upload_all(struct sandbox *s, struct sv content, double *times, size_t n,
                      struct err *err) {
    int r = 0;
    for (size_t i = 0; r >= 0 && i < n; i++) {
        int64_t begin = clock_us();
        r = sandbox_write_file(s, "sent", content, 0755, err);
        times[i] = since_ms(begin);
    }
    return r;
}

#define UPLOADS_MAX 64u /* More tell nothing more. */

static int upload_content(size_t n, struct sv content) {
    struct err err = {0};
    struct sandbox *s = NULL;
    double times[UPLOADS_MAX];
    n = n < UPLOADS_MAX ? n : UPLOADS_MAX;
    int r = create(&s, &err);
    r = end(s, r < 0 ? r : upload_all(s, content, times, n, &err), &err);
    if (r < 0) {
        return fail(&err);
    }
    printf("{\"upload_ms\": %.1f}\n", percentile(times, n, 0.5));
    return 0;
}

static int upload(size_t n, const char *path) {
    struct stat st;
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    void *bytes = fd >= 0 && fstat(fd, &st) == 0
                      ? mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0)
                      : MAP_FAILED;
    if (bytes == MAP_FAILED) {
        fprintf(stderr, "hf_bench: cannot read '%s'\n", path);
        return 1;
    }
    int r = upload_content(n, (struct sv){bytes, (size_t)st.st_size});
    munmap(bytes, (size_t)st.st_size);
    return r;
}

/* --- many --- */

struct many {
    size_t count;
    double hold_s;
    atomic_size_t started;
    atomic_size_t ready;  /* Have a sandbox, or will never have one. */
    atomic_size_t failed; /* Their words went to stderr. */
    atomic_bool go;
};

static int drive(struct many *m, struct sandbox *s, struct err *err) {
    char seconds[32];
    (void)snprintf(seconds, sizeof seconds, "%.0f", m->hold_s);
    const char *const argv[] = {"/bin/sleep", seconds, NULL};
    struct sandbox_job *job = NULL;
    int code = -1;
    int r = sandbox_start(s, &(struct sandbox_exec){.argv = argv}, &job, err);
    r = r < 0 ? r : sandbox_job_wait(job, deadline_in_s(m->hold_s + CREATE_S), NULL, &code, err);
    sandbox_job_free(job);
    return r == 0 && code != 0 ? err_set(err, ERR_INTERNAL, "sleep ended with %d", code) : r;
}

static void *one_of_many(void *arg) {
    struct many *m = arg;
    struct err err = {0};
    struct sandbox *s = NULL;
    int r = create(&s, &err);
    atomic_fetch_add(&m->ready, 1);
    while (!atomic_load(&m->go)) {
        clock_sleep_ms(20);
    }
    r = r < 0 ? r : drive(m, s, &err);
    r = end(s, r, &err);
    if (r < 0) {
        fprintf(stderr, "hf_bench: %s\n", err.msg);
        atomic_fetch_add(&m->failed, 1);
    }
    return NULL;
}

/* A number of this process's status: kB of "VmHWM", or "Threads". */
static unsigned long long status_of(const char *field) {
    struct err err = {0};
    AUTO_BUF struct buf text = {0};
    if (file_read("/proc/self/status", 1 << 16, &text, &err) < 0) {
        return 0;
    }
    const char *at = strstr(buf_cstr(&text), field);
    return at ? strtoull(at + strlen(field) + 1, NULL, 10) : 0;
}

static int many(size_t count, double hold_s) {
    struct many m = {.count = count, .hold_s = hold_s};
    AUTO_FREE pthread_t *threads = calloc(count, sizeof *threads);
    int64_t begin = clock_us();
    for (size_t i = 0; i < count; i++) {
        if (!threads || thread_start(&threads[i], STACK, one_of_many, &m) != 0) {
            fprintf(stderr, "hf_bench: cannot start thread %zu\n", i);
            return 1;
        }
    }
    while (atomic_load(&m.ready) < count) {
        clock_sleep_ms(20);
    }
    double created_s = since_ms(begin) / 1e3;
    double from = clock_unix();
    atomic_store(&m.go, true);
    clock_sleep_ms((int64_t)(hold_s * 500)); /* In the middle all of them wait. */
    unsigned long long at_work = status_of("Threads:");
    for (size_t i = 0; i < count; i++) {
        pthread_join(threads[i], NULL);
    }
    printf(
        "{\"at_once\": %zu, \"failed\": %zu, \"mb\": %.1f, \"threads\": %llu, \"create_s\": %.1f, "
        "\"from\": %.3f, \"hold_s\": %.0f}\n",
        count, atomic_load(&m.failed), (double)status_of("VmHWM:") / 1024, at_work, created_s, from,
        hold_s);
    return atomic_load(&m.failed) > 0;
}

int main(int argc, char **argv) {
    unsigned long long n = 0;
    unsigned long long seconds = 0;
    bool good = argc > 2 && sv_parse_u64(sv_from(argv[2]), RUNS_MAX, &n) && n > 0;
    if (good && argc == 3 && strcmp(argv[1], "trips") == 0) {
        return trips((size_t)n);
    }
    if (good && argc == 4 && strcmp(argv[1], "upload") == 0) {
        return upload((size_t)n, argv[3]);
    }
    if (good && argc == 4 && strcmp(argv[1], "many") == 0 &&
        sv_parse_u64(sv_from(argv[3]), 600, &seconds)) {
        return many((size_t)n, (double)seconds);
    }
    fprintf(stderr, "usage: hf_bench trips RUNS | upload RUNS FILE | many COUNT SECONDS\n");
    return 2;
}
