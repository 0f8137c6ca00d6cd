/* SPDX-License-Identifier: BSD-3-Clause */
#include "sandbox/hf/account.h"

#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "tests/testing.h"

static char folder[] = "/tmp/snaffle-account-XXXXXX";

static void put(const char *name, const char *text) {
    struct err err = {0};
    AUTO_FREE char *path = file_join(folder, name);
    AUTO_FREE char *dir = mem_strdup(path);
    *strrchr(dir, '/') = '\0';
    assert_ok(file_mkdirs(dir, 0700, &err), &err);
    assert_ok(file_write(path, sv_from(text), 0600, &err), &err);
}

/* An environment without an account. */
static int bare(void **state) {
    static const char *const names[] = {"HF_TOKEN",    "HUGGING_FACE_HUB_TOKEN", "HF_TOKEN_PATH",
                                        "HF_HOME",     "XDG_CACHE_HOME",         "HF_OIDC_RESOURCE",
                                        "HF_ENDPOINT", "HUGGINGFACE_CO_STAGING"};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        (void)unsetenv(names[i]);
    }
    (void)setenv("HOME", folder, 1);
    return 0;
}

static void assert_token(const char *given, const char *want) {
    struct hf_account a = {0};
    struct err err = {0};
    assert_ok(hf_account_open(given, &a, &err), &err);
    assert_string_equal(a.token, want);
    hf_account_deinit(&a);
}

/* From the last that is looked at to the first. */
static void the_token_is_looked_up_in_the_official_clients_order(void **state) {
    (void)state;
    AUTO_FREE char *cache = file_join(folder, "cache");
    AUTO_FREE char *own = file_join(folder, "own/token");
    struct hf_account a = {0};
    struct err err = {0};
    assert_err(hf_account_open(NULL, &a, &err), ERR_ENVIRONMENT, &err, "set HF_TOKEN");
    put(".cache/huggingface/token", "hf_of_home\n");
    assert_token(NULL, "hf_of_home");
    put("cache/huggingface/token", " hf_of_cache \r\n");
    (void)setenv("XDG_CACHE_HOME", cache, 1);
    assert_token(NULL, "hf_of_cache");
    put("hub/token", "hf_of_hf_home");
    (void)setenv("HF_HOME", "~/hub", 1);
    assert_token(NULL, "hf_of_hf_home");
    (void)setenv("HF_HOME", "$HOME/hub", 1);
    assert_token(NULL, "hf_of_hf_home");
    put("own/token", "hf_of_\nfile");
    (void)setenv("HF_TOKEN_PATH", own, 1);
    assert_token(NULL, "hf_of_file");
    (void)setenv("HUGGING_FACE_HUB_TOKEN", "hf_old", 1);
    assert_token(NULL, "hf_old");
    (void)setenv("HF_TOKEN", " hf_new\n", 1);
    assert_token(NULL, "hf_new");
    assert_token("hf_given", "hf_given");
}

static void an_empty_word_is_none(void **state) {
    (void)state;
    (void)setenv("HF_TOKEN", " \n", 1);
    (void)setenv("HUGGING_FACE_HUB_TOKEN", "hf_old", 1);
    assert_token(NULL, "hf_old");
}

static void a_token_exchange_is_refused_in_clear_words(void **state) {
    (void)state;
    struct hf_account a = {0};
    struct err err = {0};
    (void)setenv("HF_OIDC_RESOURCE", "x", 1);
    (void)setenv("HF_TOKEN", "hf_secret", 1);
    assert_err(hf_account_open(NULL, &a, &err), ERR_UNSUPPORTED, &err, "HF_OIDC_RESOURCE");
    assert_null(strstr(err.msg, "hf_secret"));
}

static void assert_endpoint(const char *want) {
    struct hf_account a = {0};
    struct err err = {0};
    assert_ok(hf_account_open("hf_x", &a, &err), &err);
    assert_string_equal(a.endpoint, want);
    hf_account_deinit(&a);
}

static void the_endpoint_loses_its_slashes_and_staging_wins(void **state) {
    (void)state;
    assert_endpoint("https://huggingface.co");
    (void)setenv("HF_ENDPOINT", "http://127.0.0.1:7//", 1);
    assert_endpoint("http://127.0.0.1:7");
    (void)setenv("HUGGINGFACE_CO_STAGING", "no", 1);
    assert_endpoint("http://127.0.0.1:7");
    (void)setenv("HUGGINGFACE_CO_STAGING", "Yes", 1);
    assert_endpoint("https://hub-ci.huggingface.co");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup(the_token_is_looked_up_in_the_official_clients_order, bare),
    cmocka_unit_test_setup(an_empty_word_is_none, bare),
    cmocka_unit_test_setup(a_token_exchange_is_refused_in_clear_words, bare),
    cmocka_unit_test_setup(the_endpoint_loses_its_slashes_and_staging_wins, bare),
};

int main(void) {
    struct err err = {0};
    cmocka_set_message_output(CM_OUTPUT_TAP);
    if (!mkdtemp(folder)) {
        return 1;
    }
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return file_remove_tree(folder, &err) < 0 ? 1 : failed;
}
