/* SPDX-License-Identifier: BSD-3-Clause */
#include "journal/sessions.h"

#include <signal.h>
#include <sys/wait.h>

#include "journal/reader.h"
#include "tests/unit/journal/fixture.h"

static void add(struct journal *j, enum journal_type type, const char *session, uint64_t call,
                double time, const char *head) {
    append(j, (struct journal_record){
                  .type = type,
                  .session = sv_from(session),
                  .call = call,
                  .time = time,
                  .head = sv_from(head),
              });
}

static struct journal *fresh(void) {
    return open_journal(&(struct journal_options){.dir = root});
}

static struct journal_sessions read_all(void) {
    struct journal_sessions all = {0};
    struct err err = {0};
    assert_ok(journal_sessions_read(root, &all, &err), &err);
    return all;
}

static const char *field(const struct journal_session *s, const char *name) {
    return json_string_value(json_object_get(s->head, name));
}

static void a_session_is_what_its_opening_and_changes_say(void **state) {
    (void)state;
    struct journal *j = fresh();
    add(j, JOURNAL_SESSION_OPEN, "b", 0, 10, "{\"model\":\"m1\",\"level\":\"tokens\"}");
    add(j, JOURNAL_SESSION_OPEN, "a", 0, 11, "{\"calls_before\":7}");
    for (uint64_t call = 1; call <= 3; call++) {
        add(j, JOURNAL_INTENT, "b", call, 12, "{}");
    }
    add(j, JOURNAL_RESULT, "b", 1, 13, "{}");
    add(j, JOURNAL_SESSION_CHANGE, "b", 0, 14, "{\"model\":\"m2\"}");
    struct journal_sessions all = read_all();
    assert_int_equal(all.n, 2);
    assert_string_equal(all.list[0].name, "a");
    assert_int_equal(all.list[0].calls, 7);
    const struct journal_session *b = &all.list[1];
    assert_string_equal(b->name, "b");
    assert_string_equal(field(b, "model"), "m2");
    assert_string_equal(field(b, "level"), "tokens");
    assert_int_equal(b->calls, 3);
    assert_true(b->opened == 10);
    assert_false(b->is_closed);
    assert_true(b->is_alive);
    journal_sessions_deinit(&all);
    add(j, JOURNAL_SESSION_CLOSE, "b", 0, 15, "{}");
    journal_close(j);
    all = read_all();
    assert_true(all.list[1].is_closed);
    assert_false(all.list[1].is_alive);
    assert_false(all.list[0].is_closed);
    journal_sessions_deinit(&all);
}

/* Boots are read in the order of their names, which says nothing. */
static void the_latest_opening_tells_whatever_order_the_boots_are_read_in(void **state) {
    (void)state;
    for (int later = 0; later < 2; later++) {
        struct journal *js[] = {fresh(), fresh()};
        struct journal *old = js[!later];
        struct journal *new = js[later];
        const char *name = later ? "x" : "y";
        add(old, JOURNAL_SESSION_OPEN, name, 0, 10, "{\"model\":\"m1\"}");
        add(old, JOURNAL_INTENT, name, 40, 11, "{}");
        add(old, JOURNAL_SESSION_CLOSE, name, 0, 12, "{}");
        add(new, JOURNAL_SESSION_OPEN, name, 0, 20, "{\"model\":\"m2\"}");
        add(new, JOURNAL_INTENT, name, 2, 21, "{}");
        journal_close(old);
        struct journal_sessions all = read_all();
        const struct journal_session *s = &all.list[all.n - 1];
        s = strcmp(s->name, name) == 0 ? s : &all.list[0];
        assert_string_equal(s->name, name);
        assert_string_equal(field(s, "model"), "m2");
        assert_int_equal(s->calls, 2);
        assert_false(s->is_closed);
        assert_true(s->is_alive);
        journal_sessions_deinit(&all);
        journal_close(new);
    }
}

static void a_head_that_is_none_leaves_a_session_without_fields(void **state) {
    (void)state;
    struct journal *j = fresh();
    add(j, JOURNAL_SESSION_OPEN, "a", 0, 10, "[1]");
    add(j, JOURNAL_SESSION_CHANGE, "a", 0, 11, "{");
    add(j, JOURNAL_INTENT, "never opened", 1, 11, "{}");
    journal_close(j);
    struct journal_sessions all = read_all();
    assert_int_equal(all.n, 1);
    assert_int_equal(json_object_size(all.list[0].head), 0);
    journal_sessions_deinit(&all);
}

static void what_is_killed_is_not_alive(void **state) {
    (void)state;
    pid_t pid = fork();
    if (pid == 0) {
        struct journal *j = NULL;
        const struct journal_record opening = {
            .type = JOURNAL_SESSION_OPEN, .session = SV("k"), .head = SV("{}")};
        if (journal_open(&(struct journal_options){.dir = root}, &j, NULL) == 0 &&
            journal_append_wait(j, &opening, NULL) == 0) {
            raise(SIGKILL);
        }
        _exit(1);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    struct journal_sessions all = read_all();
    assert_int_equal(all.n, 1);
    assert_false(all.list[0].is_alive);
    assert_false(all.list[0].is_closed);
    journal_sessions_deinit(&all);
}

static void an_outline_names_each_call_without_reading_its_body(void **state) {
    (void)state;
    struct err err = {0};
    struct journal *j = fresh();
    add(j, JOURNAL_SESSION_OPEN, "r1.1", 0, 1, "{\"model\":\"m\"}");
    append(j, record(5, SV("{}")));
    journal_close(j);
    struct journal_reader *r = open_reader();
    struct journal_record got;
    reader_outline(r);
    assert_int_equal(journal_reader_next(r, &got, &err), 1);
    assert_true(sv_eq(got.head, SV("{\"model\":\"m\"}")));
    assert_int_equal(journal_reader_next(r, &got, &err), 1);
    assert_int_equal(got.type, JOURNAL_RESULT);
    assert_int_equal(got.call, 5);
    assert_true(sv_eq(got.session, SV("r1.1")));
    assert_int_equal(got.head.n, 0);
    assert_int_equal(got.n_parts, 0);
    assert_int_equal(journal_reader_next(r, &got, &err), 0);
    journal_reader_close(r);
}

static void records_from_before_a_time_are_passed_over(void **state) {
    (void)state;
    struct err err = {0};
    struct journal *j = fresh();
    add(j, JOURNAL_INTENT, "a", 1, 9.5, "{}");
    add(j, JOURNAL_INTENT, "a", 2, 10, "{}");
    journal_close(j);
    struct journal_reader *r = open_reader();
    struct journal_record got;
    journal_reader_since(r, 10);
    assert_int_equal(journal_reader_next(r, &got, &err), 1);
    assert_int_equal(got.call, 2);
    assert_int_equal(journal_reader_next(r, &got, &err), 0);
    journal_reader_close(r);
}

static const struct CMUnitTest tests[] = {
    TEST(a_session_is_what_its_opening_and_changes_say),
    TEST(the_latest_opening_tells_whatever_order_the_boots_are_read_in),
    TEST(a_head_that_is_none_leaves_a_session_without_fields),
    TEST(what_is_killed_is_not_alive),
    TEST(an_outline_names_each_call_without_reading_its_body),
    TEST(records_from_before_a_time_are_passed_over),
};

RUN_TESTS(tests)
