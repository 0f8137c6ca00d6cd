/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/sandbox/contract.h"

#include "base/mem.h"

const struct sandbox_backend *contract_backend;
struct sandbox_machine contract_machine;

static struct sandbox *shared;
static struct sandbox_output said; /* What contract_says gave last. */
static struct err unfit;           /* Why the backend can't work here; code 0: it does. */

struct sandbox *contract_make(const struct sandbox_spec *spec) {
    struct sandbox_spec standard = spec ? *spec : (struct sandbox_spec){0};
    struct sandbox *s = NULL;
    struct err err = {0};
    if (unfit.code < 0) {
        skip_because("%s", unfit.msg);
    }
    standard.owner = "test";
    standard.run = standard.run ? standard.run : CONTRACT_RUN;
    standard.rollout = standard.rollout ? standard.rollout : "case";
    standard.lifetime_s = 600;
    standard.machine = contract_machine;
    assert_ok(
        sandbox_create(contract_backend, &standard, deadline_in_s(PATIENCE_S), NULL, &s, &err),
        &err);
    return s;
}

void contract_end(struct sandbox *s) {
    struct err err = {0};
    assert_ok(sandbox_kill(s, &err), &err);
    sandbox_free(s);
}

struct sandbox *contract_shared(void) {
    if (!shared) {
        shared = contract_make(NULL);
    }
    return shared;
}

const char *contract_says(struct sandbox *s, const char *shell) {
    struct err err = {0};
    struct sandbox_exec what = {.shell = shell, .timeout_s = PATIENCE_S};
    sandbox_output_deinit(&said);
    assert_ok(sandbox_exec(s, &what, &said, &err), &err);
    if (said.timed_out) {
        fail_msg("'%s' did not end", shell);
    }
    return buf_cstr(&said.out);
}

int contract_count(struct sandbox *s, const char *word) {
    /* Its own command line must not count: the word is put together inside. */
    AUTO_FREE char *shell =
        mem_printf("w='%c''%s'; n=0; for f in /proc/[0-9]*/cmdline; do "
                   "c=$(tr '\\0' ' ' <$f) 2>/dev/null; case \"$c\" in *\"$w\"*) n=$((n+1));; esac; "
                   "done 2>/dev/null; echo $n",
                   word[0], word + 1);
    return (int)strtol(contract_says(s, shell), NULL, 10);
}

void contract_await_file(struct sandbox *s, const char *path) {
    struct err err = {0};
    deadline_ms until = deadline_in_s(PATIENCE_S);
    int there = 0;
    while (there == 0) {
        assert_false(deadline_passed(until));
        there = sandbox_exists(s, path, &err);
        assert_ok(there, &err);
        clock_sleep_ms(there ? 0 : 10);
    }
}

static int begin(void **state) {
    (void)state;
    if (contract_backend->check(&unfit) < 0 && unfit.code != ERR_ENVIRONMENT) {
        print_message("# the backend's check failed: %s\n", unfit.msg);
        return -1;
    }
    return 0;
}

static int end(void **state) {
    (void)state;
    struct err err = {0};
    sandbox_output_deinit(&said);
    int r = shared ? sandbox_kill(shared, &err) : 0;
    sandbox_free(shared);
    shared = NULL;
    return r;
}

int contract_run_cases(const struct sandbox_backend *backend, const struct CMUnitTest *cases,
                       size_t n) {
    contract_backend = backend;
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return _cmocka_run_group_tests(backend->name, cases, n, begin, end);
}

int contract_run(const struct sandbox_backend *backend) {
    static const struct contract_cases *const parts[] = {&contract_commands, &contract_files,
                                                         &contract_jobs, &contract_life};
    struct CMUnitTest all[128];
    size_t n = 0;
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        BUG_IF(n + parts[i]->n > ARRAY_LEN(all));
        memcpy(all + n, parts[i]->cases, parts[i]->n * sizeof all[0]);
        n += parts[i]->n;
    }
    return contract_run_cases(backend, all, n);
}
