/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/json.h"
#include "base/mem.h"
#include "sandbox/hf/hf.h"
#include "tests/testing.h"

static json_t *json(const char *text) {
    struct err err = {0};
    json_t *value = NULL;
    assert_ok(json_parse(sv_from(text), "test", &value, &err), &err);
    return value;
}

static void without_wishes_everything_is_right_and_root(void **state) {
    (void)state;
    struct err err = {0};
    struct sandbox_machine m = {0};
    assert_ok(hf_machine_check(&m, &err), &err);
    assert_true(hf_machine_is_root(&m));
    m.user = "root";
    assert_true(hf_machine_is_root(&m));
    m.user = "agent";
    assert_ok(hf_machine_check(&m, &err), &err);
    assert_false(hf_machine_is_root(&m));
}

static void right_words_pass(void **state) {
    (void)state;
    static const char *const images[] = {
        "python:3.12", "ghcr.io/huggingface/openenv-opencode-sandbox", "registry:5000/a/b:c",
        "https://huggingface.co/spaces/acme/box",
        "debian@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"};
    for (size_t i = 0; i < ARRAY_LEN(images); i++) {
        struct err err = {0};
        struct sandbox_machine m = {
            .image = images[i], .flavor = "t4-small", .namespace = "my-org", .start_s = 300};
        assert_ok(hf_machine_check(&m, &err), &err);
    }
}

static void wrong_words_are_named(void **state) {
    (void)state;
    static const struct {
        struct sandbox_machine m;
        const char *words;
    } rows[] = {
        {{.image = ""}, "image: '' is none (one is 'python:3.12')"},
        {{.image = "python 3"}, "image: 'python 3'"},
        {{.image = "-v"}, "image: '-v'"},
        {{.flavor = "cpu basic"}, "flavor: 'cpu basic' is none (one is 'cpu-basic')"},
        {{.namespace = "a/b"}, "namespace: 'a/b'"},
        {{.namespace = "../x"}, "namespace"},
        {{.user = "nobody"}, "agent_user: 'nobody' is none (use root or agent)"},
        {{.start_s = -1}, "start_timeout_s: want a number up to 3600"},
        {{.start_s = 1e9}, "start_timeout_s"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct err err = {0};
        assert_err(hf_machine_check(&rows[i].m, &err), ERR_INPUT, &err, rows[i].words);
    }
}

static void variables_are_names_with_strings_and_not_the_servers(void **state) {
    (void)state;
    static const struct {
        const char *env;
        const char *secrets;
        bool forward;
        const char *words;
    } rows[] = {
        {"{\"A B\":\"1\"}", NULL, false, "env: 'A B' is no name of a variable"},
        {"{\"1A\":\"1\"}", NULL, false, "env: '1A'"},
        {"{\"A\":1}", NULL, false, "env: A: want a string"},
        {NULL, "{\"SBX_TOKEN\":\"x\"}", false, "secrets: SBX_TOKEN"},
        {"{\"HF_TOKEN\":\"x\"}", NULL, false, "env: HF_TOKEN would be shown"},
        {NULL, "{\"HF_TOKEN\":\"x\"}", true, "two tokens"},
        {"{\"A\":\"1\"}", "{\"A\":\"2\"}", false, "secrets: A stands in env too"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct err err = {0};
        AUTO_JSON json_t *env = rows[i].env ? json(rows[i].env) : NULL;
        AUTO_JSON json_t *secrets = rows[i].secrets ? json(rows[i].secrets) : NULL;
        struct sandbox_machine m = {
            .env = env, .secrets = secrets, .forward_token = rows[i].forward};
        assert_err(hf_machine_check(&m, &err), ERR_INPUT, &err, rows[i].words);
    }
    struct err err = {0};
    AUTO_JSON json_t *scoped = json("{\"HF_TOKEN\":\"hf_scoped\",\"OTHER\":\"\"}");
    struct sandbox_machine m = {.secrets = scoped};
    assert_ok(hf_machine_check(&m, &err), &err);
}

static void what_is_a_spaces_address_is_seen(void **state) {
    (void)state;
    assert_string_equal(hf_space_of("https://huggingface.co/spaces/a/b"), "a/b");
    assert_string_equal(hf_space_of("https://hf.co/spaces/a/b"), "a/b");
    assert_string_equal(hf_space_of("huggingface.co/spaces/a/b"), "a/b");
    assert_string_equal(hf_space_of("hf.co/spaces/a/b"), "a/b");
    assert_null(hf_space_of("python:3.12"));
    assert_null(hf_space_of("https://example.org/spaces/a/b"));
}

static void volumes_come_as_texts_or_objects_and_go_in_the_hubs_spelling(void **state) {
    (void)state;
    struct err err = {0};
    AUTO_JSON json_t *given =
        json("[\"hf://datasets/a/b@main:/data\", \"buckets/a/c:/out:ro\","
             "{\"type\":\"model\",\"source\":\"a/d\",\"mount_path\":\"/m\",\"path\":\"sub\"}]");
    AUTO_JSON json_t *want =
        json("[{\"type\":\"dataset\",\"source\":\"a/b\",\"mountPath\":\"/data\","
             "\"revision\":\"main\",\"readOnly\":false},"
             "{\"type\":\"bucket\",\"source\":\"a/c\",\"mountPath\":\"/out\",\"readOnly\":true},"
             "{\"type\":\"model\",\"source\":\"a/d\",\"mountPath\":\"/m\",\"path\":\"sub\","
             "\"readOnly\":false}]");
    AUTO_JSON json_t *got = json_array();
    assert_ok(hf_volumes_add(given, got, &err), &err);
    AUTO_FREE char *text = json_dumps(got, JSON_SORT_KEYS);
    if (!json_equal(got, want)) {
        fail_msg("%s", text);
    }
}

static void a_volume_that_is_none_is_named(void **state) {
    (void)state;
    static const struct {
        const char *volumes;
        const char *words;
    } rows[] = {
        {"[\"\"]", "volumes: '' is none"},
        {"[\"/data:/data\"]", "volumes: '/data:/data' is none"},
        {"[\"gists/a/b:/data\"]", "'gists/a/b:/data'"},
        {"[\"datasets/a:/data\"]", "source: want OWNER/NAME, got 'a'"},
        {"[\"datasets/a/b/c:/data\"]", "source: want OWNER/NAME, got 'a/b/c'"},
        {"[\"datasets/a/b\"]", "is none"},
        {"[\"datasets/a/b:data\"]", "mount_path 'data' must be an absolute path"},
        {"[\"datasets/a/b:/etc\"]", "'/etc' is the system's"},
        {"[1]", "want texts or objects, got a number"},
        {"[{\"type\":\"nfs\",\"source\":\"a/b\",\"mount_path\":\"/x\"}]", "type: 'nfs'"},
        {"[{\"source\":\"a/b\",\"mount_path\":\"/x\"}]", "type: ''"},
        {"[{\"type\":\"model\",\"source\":\"a/b\",\"mountPath\":\"/x\"}]", "mount_path"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct err err = {0};
        AUTO_JSON json_t *volumes = json(rows[i].volumes);
        struct sandbox_machine m = {.volumes = volumes};
        assert_err(hf_machine_check(&m, &err), ERR_INPUT, &err, rows[i].words);
    }
}

static void the_local_backend_takes_none_of_it(void **state) {
    (void)state;
    struct err err = {0};
    struct sandbox_spec spec = {.machine = {.flavor = "cpu-basic"}};
    assert_err(sandbox_local.check_create(&spec, &err), ERR_INPUT, &err,
               "flavor: the backend 'local' takes none (--backend hf does)");
    spec.machine = (struct sandbox_machine){.user = "root"};
    assert_err(sandbox_local.check_create(&spec, &err), ERR_INPUT, &err, "nothing is root");
    spec.machine = (struct sandbox_machine){.user = "agent"};
    assert_ok(sandbox_local.check_create(&spec, &err), &err);
}

static void strict_refuses_what_the_hub_does_not_hold(void **state) {
    (void)state;
    struct err err = {0};
    struct sandbox_spec spec = {.strict = true, .network = SANDBOX_NETWORK_MODEL};
    assert_err(sandbox_hf.check_create(&spec, &err), ERR_UNSUPPORTED, &err, "the whole network");
    spec.network = SANDBOX_NETWORK_FULL;
    assert_ok(sandbox_hf.check_create(&spec, &err), &err);
    spec.limits.memory_mb = 512;
    assert_err(sandbox_hf.check_create(&spec, &err), ERR_UNSUPPORTED, &err, "choose a flavor");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(without_wishes_everything_is_right_and_root),
    cmocka_unit_test(right_words_pass),
    cmocka_unit_test(wrong_words_are_named),
    cmocka_unit_test(variables_are_names_with_strings_and_not_the_servers),
    cmocka_unit_test(what_is_a_spaces_address_is_seen),
    cmocka_unit_test(volumes_come_as_texts_or_objects_and_go_in_the_hubs_spelling),
    cmocka_unit_test(a_volume_that_is_none_is_named),
    cmocka_unit_test(the_local_backend_takes_none_of_it),
    cmocka_unit_test(strict_refuses_what_the_hub_does_not_hold),
};

RUN_TESTS(tests)
