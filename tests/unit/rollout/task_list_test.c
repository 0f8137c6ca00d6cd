/* SPDX-License-Identifier: BSD-3-Clause */
#include "rollout/task_list.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "rollout/task_where.h"
#include "tests/testing.h"

static char root[] = "/tmp/snaffle-tasks-test.XXXXXX";

static int make_root(void **state) {
    (void)state;
    memcpy(root + sizeof root - 7, "XXXXXX", 6);
    return mkdtemp(root) ? 0 : -1;
}

static int remove_root(void **state) {
    (void)state;
    return file_remove_tree(root, NULL);
}

/* Writes a file under the root, with ' for "; its path, to be freed. */
static char *put(const char *name, const char *text) {
    struct err err = {0};
    char *path = mem_printf("%s/%s", root, name);
    AUTO_FREE char *dir = mem_strndup(path, (size_t)(strrchr(path, '/') - path));
    AUTO_FREE char *json = mem_strdup(text);
    for (char *c = json; *c; c++) {
        *c = *c == '\'' ? '"' : *c;
    }
    assert_ok(file_mkdirs(dir, 0777, &err), &err);
    assert_ok(file_write(path, sv_from(json), 0644, &err), &err);
    return path;
}

static void assert_refused(const char *path, const char *part) {
    struct err err = {0};
    struct task_list l = {0};
    assert_int_equal(task_list_load(path, &l, &err), ERR_INPUT);
    if (!strstr(err.msg, part)) {
        fail_msg("want '%s' in '%s'", part, err.msg);
    }
}

static void a_file_has_a_task_a_line_and_blank_lines_are_none(void **state) {
    (void)state;
    struct err err = {0};
    struct task_list l = {0};
    AUTO_FREE char *path =
        put("some.jsonl", "{'task_id':'a','instruction':'x'}\r\n\n  \n\r\n'just words'\n"
                          "{'instruction':'y'}");
    assert_ok(task_list_load(path, &l, &err), &err);
    assert_int_equal(l.n, 3);
    assert_string_equal(l.tasks[0].id, "a");
    assert_string_equal(l.tasks[1].id, "some-5");
    assert_string_equal(l.tasks[1].instruction, "just words");
    assert_string_equal(l.tasks[2].id, "some-6");
    task_list_deinit(&l);
}

static void errors_name_file_and_line(void **state) {
    (void)state;
    AUTO_FREE char *broken = put("broken.jsonl", "'fine'\n{'instruction':\n");
    AUTO_FREE char *field = put("field.jsonl", "'fine'\n\n{'instrution':'x'}\n");
    AUTO_FREE char *twice = put("twice.jsonl", "{'task_id':'a','instruction':'x'}\n'b'\n"
                                               "{'task_id':'a','instruction':'y'}\n");
    AUTO_FREE char *empty = put("empty.jsonl", "\n\n");
    AUTO_FREE char *none = mem_printf("%s/none.jsonl", root);
    assert_refused(broken, "broken.jsonl:2");
    assert_refused(field, "field.jsonl:3");
    assert_refused(twice, "twice.jsonl:3: task_id 'a' is that of");
    assert_refused(twice, "twice.jsonl:1 too");
    assert_refused(empty, "holds no task");
    assert_refused(none, "none.jsonl");
}

static void a_folder_holds_tasks_by_name(void **state) {
    (void)state;
    struct err err = {0};
    struct task_list l = {0};
    free(put("dir/sort/task.json", "{'instruction':'sort'}"));
    free(put("dir/count.json", "{'instruction':'count'}"));
    free(put("dir/README.md", "no task"));
    free(put("dir/other/notes.json", "[]"));
    free(put("dir/.hidden.json", "[]"));
    AUTO_FREE char *dir = mem_printf("%s/dir", root);
    assert_ok(task_list_load(dir, &l, &err), &err);
    assert_int_equal(l.n, 2);
    assert_string_equal(l.tasks[0].id, "count");
    assert_string_equal(l.tasks[1].id, "sort");
    task_list_deinit(&l);
}

static void a_single_task_is_a_list_of_one(void **state) {
    (void)state;
    struct err err = {0};
    struct task_list l = {0};
    free(put("one/task.json", "{'instruction':'sort'}"));
    AUTO_FREE char *dir = mem_printf("%s/one", root);
    assert_ok(task_list_load(dir, &l, &err), &err);
    assert_int_equal(l.n, 1);
    assert_string_equal(l.tasks[0].id, "one");
    task_list_deinit(&l);
}

static bool matches(const char *json, const char *where) {
    struct err err = {0};
    struct task t = {0};
    AUTO_FREE char *text = mem_strdup(json);
    for (char *c = text; *c; c++) {
        *c = *c == '\'' ? '"' : *c;
    }
    assert_ok(task_parse(sv_from(text), "test", NULL, &t, &err), &err);
    assert_ok(task_where_check(where, &err), &err);
    bool r = task_where_matches(&t, where);
    task_deinit(&t);
    return r;
}

static void a_condition_matches_whole_values_by_pattern(void **state) {
    (void)state;
    const char *t = "{'task_id':'sort-12','instruction':'do it','metadata':{'level':'easy','n':3,"
                    "'tags':['a','slow'],'in':{'deep':true},'dot.ted':'x','eq':'a=b'}}";
    assert_true(matches(t, "task_id=sort-*"));
    assert_false(matches(t, "task_id=sort"));
    assert_true(matches(t, "task_id=sort-1[0-9]"));
    assert_true(matches(t, "instruction=do *"));
    assert_true(matches(t, "metadata.level=easy"));
    assert_false(matches(t, "metadata.level=eas"));
    assert_true(matches(t, "metadata.n=3"));
    assert_true(matches(t, "metadata.tags=slow"));
    assert_false(matches(t, "metadata.tags=fast"));
    assert_true(matches(t, "metadata.in.deep=true"));
    assert_true(matches(t, "metadata.dot.ted=x"));
    assert_true(matches(t, "metadata.eq=a=b"));
    assert_false(matches(t, "metadata.none=*"));
    assert_false(matches(t, "metadata.level.deeper=*"));
    assert_false(matches(t, "metadata.in=*"));
}

static void what_is_no_condition_is_refused(void **state) {
    (void)state;
    static const char *const wrong[] = {"", "task_id", "=x", "level=easy", "metadata.=x"};
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        struct err err = {0};
        assert_int_equal(task_where_check(wrong[i], &err), ERR_USAGE);
    }
}

static void all_conditions_must_hold_and_order_stays(void **state) {
    (void)state;
    struct err err = {0};
    struct task_list l = {0};
    AUTO_FREE char *path = put("w.jsonl", "{'task_id':'a1','instruction':'x'}\n"
                                          "{'task_id':'b1','instruction':'x'}\n"
                                          "{'task_id':'a2','instruction':'y'}\n"
                                          "{'task_id':'a3','instruction':'x'}\n");
    const char *where[] = {"task_id=a*", "instruction=x"};
    const char *never[] = {"task_id=zzz"};
    assert_ok(task_list_load(path, &l, &err), &err);
    assert_ok(task_list_filter(&l, where, 2, &err), &err);
    assert_int_equal(l.n, 2);
    assert_string_equal(l.tasks[0].id, "a1");
    assert_string_equal(l.tasks[1].id, "a3");
    assert_int_equal(task_list_filter(&l, never, 1, &err), ERR_INPUT);
    task_list_deinit(&l);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, make_root, remove_root)

static const struct CMUnitTest tests[] = {
    CASE(a_file_has_a_task_a_line_and_blank_lines_are_none),
    CASE(errors_name_file_and_line),
    CASE(a_folder_holds_tasks_by_name),
    CASE(a_single_task_is_a_list_of_one),
    CASE(a_condition_matches_whole_values_by_pattern),
    CASE(what_is_no_condition_is_refused),
    CASE(all_conditions_must_hold_and_order_stays),
};

int main(void) {
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
