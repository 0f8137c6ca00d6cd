/* SPDX-License-Identifier: BSD-3-Clause */
#include "rollout/task.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "tests/testing.h"

static char root[] = "/tmp/snaffle-task-test.XXXXXX";

static int make_root(void **state) {
    (void)state;
    memcpy(root + sizeof root - 7, "XXXXXX", 6);
    return mkdtemp(root) ? 0 : -1;
}

static int remove_root(void **state) {
    (void)state;
    return file_remove_tree(root, NULL);
}

static struct task parsed(const char *text) {
    struct err err = {0};
    struct task t = {0};
    assert_ok(task_parse(sv_from(text), "task.json", "base", &t, &err), &err);
    return t;
}

static void refused(const char *text, const char *words) {
    struct err err = {0};
    struct task t = {0};
    assert_err(task_parse(sv_from(text), "task.json", "base", &t, &err), ERR_INPUT, &err, words);
    assert_null(strchr(err.msg, '\n'));
    assert_null(t.instruction);
}

static void an_instruction_is_enough(void **state) {
    (void)state;
    static const char *const texts[] = {"{\"instruction\":\"do it\"}", " \"do it\" "};
    for (size_t i = 0; i < 2; i++) {
        struct task t = parsed(texts[i]);
        assert_string_equal(t.instruction, "do it");
        assert_string_equal(t.id, "base");
        assert_int_equal(t.n_setup + t.n_verify + t.n_files + t.n_verify_files, 0);
        assert_int_equal(t.network[TASK_SETUP].word, SANDBOX_NETWORK_FULL);
        assert_int_equal(t.network[TASK_AGENT].word, SANDBOX_NETWORK_MODEL);
        assert_int_equal(t.network[TASK_VERIFY].word, SANDBOX_NETWORK_NONE);
        assert_false(t.network[TASK_SETUP].given);
        assert_true(t.limits.agent_s == 0);
        assert_int_equal(json_object_size(t.metadata), 0);
        task_deinit(&t);
        assert_null(t.instruction);
    }
}

static void every_field_is_read(void **state) {
    (void)state;
    struct task t = parsed(
        "{\"instruction\":\"i\",\"task_id\":\"t\",\"setup\":[\"b\",\"c\"],\"setup_shell\":\"a\","
        "\"verify\":[\"d\"],\"files\":{\"./x//y.py\":\"1\\u0000\"},\"upload_files\":{\"/etc/z\":"
        "\"2\"},\"verify_files\":{\"x/"
        "y.py\":\"3\"},\"network\":{\"setup\":\"none\",\"agent\":null},"
        "\"limits\":{\"setup_s\":1,\"agent_s\":2.5,\"verify_s\":3,\"memory_mb\":64,\"processes\":5,"
        "\"disk_mb\":6},\"metadata\":{\"k\":[1]}}");
    assert_string_equal(t.id, "t");
    assert_int_equal(t.n_setup, 3);
    assert_string_equal(t.setup[0], "a");
    assert_string_equal(t.setup[2], "c");
    assert_null(t.setup[3]);
    assert_string_equal(t.verify[0], "d");
    assert_null(t.verify[1]);
    assert_int_equal(t.n_files, 2);
    assert_string_equal(t.files[0].path, "x/y.py");
    assert_int_equal(t.files[0].n, 2);
    assert_memory_equal(t.files[0].bytes, "1\0", 3);
    assert_string_equal(t.files[1].path, "/etc/z");
    assert_int_equal(t.n_verify_files, 1);
    assert_true(t.network[TASK_SETUP].given);
    assert_int_equal(t.network[TASK_SETUP].word, SANDBOX_NETWORK_NONE);
    assert_false(t.network[TASK_AGENT].given);
    assert_true(t.limits.agent_s == 2.5);
    assert_int_equal(t.limits.memory_mb, 64);
    assert_int_equal(t.limits.disk_mb, 6);
    AUTO_FREE char *inside = task_file_path(&t.files[0], "/home/user");
    AUTO_FREE char *absolute = task_file_path(&t.files[1], "/home/user");
    assert_string_equal(inside, "/home/user/workdir/x/y.py");
    assert_string_equal(absolute, "/etc/z");
    task_deinit(&t);
}

static void one_network_word_holds_for_all_phases(void **state) {
    (void)state;
    struct task t = parsed("{\"instruction\":\"i\",\"network\":\"full\"}");
    for (int i = 0; i < TASK_PHASES; i++) {
        assert_true(t.network[i].given);
        assert_int_equal(t.network[i].word, SANDBOX_NETWORK_FULL);
    }
    task_deinit(&t);
}

static void what_is_written_reads_back_the_same(void **state) {
    (void)state;
    struct task t = parsed(
        "{\"instruction\":\"i\\n\\u20ac\",\"setup_shell\":\"a\",\"verify\":[\"d\"],\"files\":"
        "{\"x\":\"\\u0000\"},\"network\":{\"agent\":\"none\"},\"limits\":{\"agent_s\":2.5,"
        "\"processes\":5},\"metadata\":{\"k\":1.0}}");
    AUTO_JSON json_t *once = task_to_json(&t);
    assert_non_null(once);
    AUTO_BUF struct buf text = {0};
    assert_int_equal(json_compact(once, &text), 0);
    struct task again = parsed(buf_cstr(&text));
    AUTO_JSON json_t *twice = task_to_json(&again);
    assert_true(json_equal(once, twice));
    assert_null(json_object_get(once, "verify_files"));
    assert_null(json_object_get(json_object_get(once, "limits"), "setup_s"));
    assert_string_equal(json_string_value(json_array_get(json_object_get(once, "setup"), 0)), "a");
    task_deinit(&t);
    task_deinit(&again);
}

static void mistakes_name_the_source_the_field_and_the_remedy(void **state) {
    (void)state;
    static const struct {
        const char *text;
        const char *words;
    } bad[] = {
        {"", "task.json line 1"},
        {"{\"instruction\":\"i\"", "task.json line 1"},
        {"{\"instruction\":\"i\",\"instruction\":\"j\"}", "duplicate"},
        {"7", "task.json: want a task (an object) or its instruction (a string), got a number"},
        {"[]", "got an array"},
        {"null", "got null"},
        {"{}", "task.json: instruction: is missing"},
        {"{\"instruction\":\" \\n\"}", "task.json: instruction: is empty (say what"},
        {"\"\"", "instruction: is empty"},
        {"{\"instruction\":7}", "instruction: want a string, got a number"},
        {"{\"instruction\":\"a\\u0000\"}", "instruction: a NUL is not allowed"},
        {"{\"instructions\":\"i\"}", "unknown field 'instructions' (did you mean 'instruction'?)"},
        {"{\"instruction\":\"i\",\"setup\":\"a\"}", "setup: want an array, got a string"},
        {"{\"instruction\":\"i\",\"setup\":[1]}", "setup[0]: want a command, got a number"},
        {"{\"instruction\":\"i\",\"verify\":[\"a\",\" \"]}", "verify[1]: is empty (remove it)"},
        {"{\"instruction\":\"i\",\"verify\":[\"a\\u0000\"]}", "verify[0]: a NUL"},
        {"{\"instruction\":\"i\",\"setup_shell\":[]}", "setup_shell: want a string"},
        {"{\"instruction\":\"i\",\"task_id\":\"\"}", "task_id: want 1 to 255 bytes"},
        {"{\"instruction\":\"i\",\"task_id\":\"a\\n\"}", "task_id: holds a control character"},
        {"{\"instruction\":\"i\",\"files\":[]}", "files: want an object, got an array"},
        {"{\"instruction\":\"i\",\"files\":{\"a\":1}}", "files: 'a': want the file's text, got a"},
        {"{\"instruction\":\"i\",\"files\":{\"\":\"\"}}", "files: '': want the path of a file"},
        {"{\"instruction\":\"i\",\"files\":{\"a/\":\"\"}}", "files: 'a/': want the path of a file"},
        {"{\"instruction\":\"i\",\"files\":{\".\":\"\"}}", "files: '.': want the path of a file"},
        {"{\"instruction\":\"i\",\"files\":{\"/\":\"\"}}", "files: '/': want the path of a file"},
        {"{\"instruction\":\"i\",\"files\":{\"a/../b\":\"\"}}", "files: 'a/../b': '..' is not"},
        {"{\"instruction\":\"i\",\"files\":{\"..\":\"\"}}", "'..' is not allowed"},
        {"{\"instruction\":\"i\",\"files\":{\"/a//b\":\"\"}}",
         "write an absolute path plainly: '/a/b'"},
        {"{\"instruction\":\"i\",\"files\":{\"/a/./b\":\"\"}}", "write an absolute path plainly"},
        {"{\"instruction\":\"i\",\"files\":{\"a\\nb\":\"\"}}", "files: a path holds a control"},
        {"{\"instruction\":\"i\",\"files\":{\"a\":\"\",\"./a\":\"\"}}",
         "files: 'a' is there twice"},
        {"{\"instruction\":\"i\",\"files\":{\"a\":\"\"},\"upload_files\":{\"a\":\"\"}}",
         "upload_files: 'a' is there twice"},
        {"{\"instruction\":\"i\",\"files\":{\"a/b\":\"\",\"a\":\"\",\"a-c\":\"\"}}",
         "files: 'a' is a file, and a folder in 'a/b'"},
        {"{\"instruction\":\"i\",\"verify_files\":{\"a\":null}}", "verify_files: 'a'"},
        {"{\"instruction\":\"i\",\"network\":\"internet\"}",
         "task.json: network: unknown word 'internet' (use none, model or full)"},
        {"{\"instruction\":\"i\",\"network\":{\"agnet\":\"full\"}}", "did you mean 'agent'?"},
        {"{\"instruction\":\"i\",\"network\":{\"agent\":\"all\"}}",
         "task.json: network: agent: unknown word 'all'"},
        {"{\"instruction\":\"i\",\"network\":{\"agent\":1}}", "network: agent: want a string"},
        {"{\"instruction\":\"i\",\"network\":[]}", "network: want none, model or full"},
        {"{\"instruction\":\"i\",\"limits\":{\"agent\":1}}", "limits: unknown field 'agent'"},
        {"{\"instruction\":\"i\",\"limits\":{\"agent_s\":0}}",
         "limits: agent_s: want seconds above"},
        {"{\"instruction\":\"i\",\"limits\":{\"agent_s\":-1}}", "agent_s: want seconds above 0"},
        {"{\"instruction\":\"i\",\"limits\":{\"agent_s\":1e300}}", "agent_s: want seconds above 0"},
        {"{\"instruction\":\"i\",\"limits\":{\"agent_s\":1e999}}", "no valid JSON"},
        {"{\"instruction\":\"i\",\"limits\":{\"agent_s\":\"5\"}}", "agent_s: want a number"},
        {"{\"instruction\":\"i\",\"limits\":{\"memory_mb\":1}}", "memory_mb: want a whole number"},
        {"{\"instruction\":\"i\",\"limits\":{\"memory_mb\":99.5}}",
         "memory_mb: want a whole number"},
        {"{\"instruction\":\"i\",\"limits\":{\"processes\":-5}}", "processes: want a whole number"},
        {"{\"instruction\":\"i\",\"limits\":7}", "limits: want an object, got a number"},
        {"{\"instruction\":\"i\",\"metadata\":\"x\"}", "metadata: want an object, got a string"},
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        refused(bad[i].text, bad[i].words);
    }
}

/* {"instruction": "i", "FIELD": [ITEM, ITEM ...]} with n items; %zu in `item` is its number. */
static void many(struct buf *b, const char *field, const char *open, const char *before,
                 const char *after, size_t n, const char *close) {
    assert_int_equal(buf_addf(b, "{\"instruction\":\"i\",\"%s\":%s", field, open), 0);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(buf_addf(b, "%s%s%zu%s", i ? "," : "", before, i, after), 0);
    }
    assert_int_equal(buf_addf(b, "%s}", close), 0);
}

static char *repeat(const char *before, size_t n, const char *after) {
    AUTO_BUF struct buf b = {0};
    assert_int_equal(buf_adds(&b, before), 0);
    assert_int_equal(buf_reserve(&b, n), 0);
    memset(b.data + b.len, 'x', n);
    b.len += n;
    assert_int_equal(buf_adds(&b, after), 0);
    return buf_take(&b);
}

static void limits_hold_to_the_byte(void **state) {
    (void)state;
    struct task t;
    static const struct {
        const char *before;
        size_t most;
        const char *after;
        const char *words;
    } sizes[] = {
        {"\"", TASK_INSTRUCTION_MAX, "\"", "instruction: is longer than"},
        {"{\"instruction\":\"i\",\"setup\":[\"", TASK_COMMAND_BYTES_MAX - 1, "\"]}",
         "setup[0]: is"},
        {"{\"instruction\":\"i\",\"files\":{\"f\":\"", TASK_FILE_BYTES_MAX, "\"}}",
         "larger than 16"},
        {"{\"instruction\":\"i\",\"task_id\":\"", TASK_ID_MAX, "\"}", "task_id"},
        {"{\"instruction\":\"i\",\"files\":{\"", 255, "\":\"\"}}", "longer than 255 bytes"},
    };
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        AUTO_FREE char *fits = repeat(sizes[i].before, sizes[i].most, sizes[i].after);
        AUTO_FREE char *over = repeat(sizes[i].before, sizes[i].most + 1, sizes[i].after);
        t = parsed(fits);
        task_deinit(&t);
        refused(over, sizes[i].words);
    }
    AUTO_BUF struct buf fits = {0};
    AUTO_BUF struct buf over = {0};
    many(&fits, "verify", "[", "\"", "\"", TASK_COMMANDS_MAX, "]");
    many(&over, "verify", "[", "\"", "\"", TASK_COMMANDS_MAX + 1, "]");
    t = parsed(buf_cstr(&fits));
    assert_int_equal(t.n_verify, TASK_COMMANDS_MAX);
    task_deinit(&t);
    refused(buf_cstr(&over), "more than 1000 commands");
    buf_reset(&fits);
    buf_reset(&over);
    many(&fits, "files", "{", "\"", "\":\"\"", TASK_FILES_MAX, "}");
    many(&over, "files", "{", "\"", "\":\"\"", TASK_FILES_MAX + 1, "}");
    t = parsed(buf_cstr(&fits));
    task_deinit(&t);
    refused(buf_cstr(&over), "more than 1000 files");
}

static void a_task_cut_anywhere_is_refused(void **state) {
    (void)state;
    struct sv whole =
        SV("{\"instruction\":\"i\",\"files\":{\"a\":\"\\u20ac\"},\"limits\":{\"agent_s\":5}}");
    for (size_t n = 0; n < whole.n; n++) {
        struct err err = {0};
        struct task t = {0};
        assert_int_equal(task_parse((struct sv){whole.p, n}, "task.json", NULL, &t, &err),
                         ERR_INPUT);
    }
}

static void a_task_comes_from_a_file_a_folder_or_stdin(void **state) {
    (void)state;
    struct err err = {0};
    struct task t = {0};
    AUTO_FREE char *folder = file_join(root, "sum");
    AUTO_FREE char *in_folder = file_join(folder, "task.json");
    AUTO_FREE char *file = file_join(root, "add.json");
    assert_ok(file_mkdirs(folder, 0700, &err), &err);
    assert_ok(file_write(in_folder, SV("\"one\""), 0600, &err), &err);
    assert_ok(file_write(file, SV("\"two\""), 0600, &err), &err);
    const char *const folder_ways[] = {folder, in_folder};
    for (size_t i = 0; i < 2; i++) {
        assert_ok(task_load(folder_ways[i], &t, &err), &err);
        assert_string_equal(t.instruction, "one");
        assert_string_equal(t.id, "sum");
        task_deinit(&t);
    }
    assert_ok(task_load(file, &t, &err), &err);
    assert_string_equal(t.id, "add");
    task_deinit(&t);
    int kept = dup(0);
    int fd = open(file, O_RDONLY);
    assert_int_equal(dup2(fd, 0), 0);
    assert_ok(task_load("-", &t, &err), &err);
    dup2(kept, 0);
    close(kept);
    close(fd);
    assert_string_equal(t.instruction, "two");
    assert_string_equal(t.id, "stdin");
    task_deinit(&t);
}

static void what_cannot_be_read_is_bad_input_with_a_remedy(void **state) {
    (void)state;
    struct err err = {0};
    struct task t = {0};
    AUTO_FREE char *missing = file_join(root, "no.json");
    assert_err(task_load(missing, &t, &err), ERR_INPUT, &err, "(give a task file, a folder");
    assert_non_null(strstr(err.msg, missing));
    assert_err(task_load(root, &t, &err), ERR_INPUT, &err, "task.json': No such file");
    AUTO_FREE char *fifo = file_join(root, "fifo");
    assert_int_equal(mkfifo(fifo, 0600), 0);
    assert_err(task_load(fifo, &t, &err), ERR_INPUT, &err, "not a regular file");
    assert_err(task_load("", &t, &err), ERR_INPUT, &err, "cannot open ''");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_root, remove_root)

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(an_instruction_is_enough),
    cmocka_unit_test(every_field_is_read),
    cmocka_unit_test(one_network_word_holds_for_all_phases),
    cmocka_unit_test(what_is_written_reads_back_the_same),
    cmocka_unit_test(mistakes_name_the_source_the_field_and_the_remedy),
    cmocka_unit_test(limits_hold_to_the_byte),
    cmocka_unit_test(a_task_cut_anywhere_is_refused),
    TEST(a_task_comes_from_a_file_a_folder_or_stdin),
    TEST(what_cannot_be_read_is_bad_input_with_a_remedy),
};

RUN_TESTS(tests)
