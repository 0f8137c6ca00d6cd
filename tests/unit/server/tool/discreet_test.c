/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/tool/discreet.h"

#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "base/mem.h"
#include "tests/testing.h"

static char runs[] = "/data/my runs", state_folder[] = "/var/lib/snaffle";
static char *two[] = {runs, state_folder};
static const struct host_places places = {two, ARRAY_LEN(two), true};

static void of_a_fault_every_absolute_path_goes(void **state) {
    (void)state;
    static const struct {
        const char *text, *known, *told;
    } rows[] = {
        {"cannot write '/data/x y/f': No space left on device", NULL,
         "cannot write '[path]': No space left on device"},
        {"/a/b", NULL, "[path]"},
        {"run `chmod o+x /home/o`, or set /x: it", NULL,
         "run `chmod o+x [path]`, or set [path]: it"},
        {"cannot move '/a/b' to '/c'", NULL, "cannot move '[path]' to '[path]'"},
        {"(see /a/b) /c, /d; e=/f:/g", NULL, "(see [path]) [path], [path]; e=[path]"},
        {"'http://host/v1' and https://h:1/x?y=/z", NULL,
         "'http://host/v1' and https://h:1/x?y=[path]"},
        {"application/json, a/b, 1/2, '/' or / alone", NULL,
         "application/json, a/b, 1/2, '/' or / alone"},
        {"sandbox_home '/home/c' and '/etc/x'", "{\"sandbox_home\":\"/home/c\"}",
         "sandbox_home '/home/c' and '[path]'"},
        {"an open 'quote /a/b", NULL, "an open 'quote [path]"},
        {"'/a/b", NULL, "'[path]"},
        {"", NULL, ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        AUTO_BUF struct buf told = {0};
        int r = discreet_fault(&places, rows[i].known, sv_from(rows[i].text), &told);
        assert_string_equal(buf_cstr(&told), rows[i].told);
        assert_int_equal(r, strcmp(rows[i].text, rows[i].told) != 0);
    }
}

static void of_a_rollout_what_lies_in_the_machine_s_places_goes(void **state) {
    (void)state;
    static const struct {
        const char *text, *told;
    } rows[] = {
        {"cannot write '/data/my runs/r/x/result.json': it", "cannot write '[path]': it"},
        {"/var/lib/snaffle/uids/7: /home/user/x", "[path]: /home/user/x"},
        {"a /var/lib/snaffle:x /var/lib/snaffles", "a [path] /var/lib/snaffles"},
        {"bash: /usr/bin/make: No such file", "bash: /usr/bin/make: No such file"},
        {"in /var/lib/snaffle", "in [path]"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        AUTO_BUF struct buf told = {0};
        assert_true(discreet_text(&places, sv_from(rows[i].text), &told) >= 0);
        assert_string_equal(buf_cstr(&told), rows[i].told);
    }
}

static void who_hides_nothing_tells_all(void **state) {
    (void)state;
    AUTO_BUF struct buf told = {0};
    const struct host_places none = {0};
    assert_int_equal(discreet_fault(&none, NULL, SV("cannot read '/a/b'"), &told), 0);
    assert_string_equal(buf_cstr(&told), "cannot read '/a/b'");
}

static void a_result_s_error_and_findings_are_looked_through(void **state) {
    (void)state;
    AUTO_BUF struct buf whole = {0};
    struct err err = {0};
    AUTO_JSON json_t *r = NULL;
    assert_ok(json_parse(SV("{\"error\":\"no '/var/lib/snaffle/a'\",\"agent_log_tail\":"
                            "\"/var/lib/snaffle/b\",\"findings\":[{\"code\":\"x\",\"detail\":"
                            "\"'/var/lib/snaffle/c'\"},{\"code\":\"y\",\"detail\":\"/d\"}]}"),
                         "result", &r, &err),
              &err);
    assert_int_equal(discreet_result(&places, r, &whole), 0);
    AUTO_BUF struct buf text = {0};
    assert_int_equal(json_compact(r, &text), 0);
    assert_string_equal(
        buf_cstr(&text),
        "{\"error\":\"no '[path]'\",\"agent_log_tail\":\"/var/lib/snaffle/b\",\"findings\":[{"
        "\"code\":\"x\",\"detail\":\"'[path]'\"},{\"code\":\"y\",\"detail\":\"/d\"}]}");
    assert_string_equal(buf_cstr(&whole), "no '/var/lib/snaffle/a'\n'/var/lib/snaffle/c'");
    json_object_set_new(r, "error", json_null());
    assert_int_equal(discreet_result(&places, r, &whole), 0);
}

static bool has(const struct host_places *p, const char *path) {
    for (size_t i = 0; i < p->n; i++) {
        if (strcmp(p->at[i], path) == 0) {
            return true;
        }
    }
    return false;
}

static void the_places_are_those_that_are_named(void **state) {
    (void)state;
    struct err err = {0};
    struct host_places p = {0};
    char dir[] = "/tmp/snaffle-discreet-XXXXXX";
    assert_non_null(mkdtemp(dir));
    AUTO_FREE char *link = mem_printf("%s/link", dir);
    assert_int_equal(symlink(dir, link), 0);
    AUTO_JSON json_t *config =
        json_pack("{s:s, s:[s, s]}", "rootfs", link, "mounts", "/srv/a:/x", "b:/y");
    setenv("SNAFFLE_STATE", "/st/ate/", 1);
    const struct rollout_options ro = {.runs_dir = "../out"};
    assert_ok(host_places_find(&(struct tool_options){.rollout = &ro, .config = config}, &p, &err),
              &err);
    static const char *const wanted[] = {"/st/ate", "../out", "/srv/a"};
    for (size_t i = 0; i < ARRAY_LEN(wanted); i++) {
        assert_true(has(&p, wanted[i]));
    }
    assert_true(p.hides && has(&p, dir) && has(&p, link));
    assert_false(has(&p, "b")); /* Below the folder that it was started in. */
    host_places_deinit(&p);
    assert_int_equal(unlink(link), 0);
    assert_int_equal(rmdir(dir), 0);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(of_a_fault_every_absolute_path_goes),
    cmocka_unit_test(of_a_rollout_what_lies_in_the_machine_s_places_goes),
    cmocka_unit_test(who_hides_nothing_tells_all),
    cmocka_unit_test(a_result_s_error_and_findings_are_looked_through),
    cmocka_unit_test(the_places_are_those_that_are_named),
};

RUN_TESTS(tests)
