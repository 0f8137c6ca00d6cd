/* SPDX-License-Identifier: BSD-3-Clause */
#include "journal/places.h"

#include "journal/trace.h"
#include "tests/unit/journal/fixture.h"

static struct journal_record of(struct sv session, enum journal_type type, uint64_t call) {
    struct journal_record r = record(call, SV("{\"a\":1}"));
    r.session = session;
    r.type = type;
    return r;
}

static void append_call(struct journal *j, struct sv session, uint64_t call) {
    append(j, of(session, JOURNAL_INTENT, call));
    append(j, of(session, JOURNAL_RESULT, call));
}

static unsigned own_records(struct journal *j, struct sv session) {
    struct err err = {0};
    struct journal_reader *r = NULL;
    assert_int_equal(journal_reader_own(j, session, &r, &err), 1);
    unsigned n = count_records(r);
    assert_int_equal(journal_reader_torn(r), 0);
    journal_reader_close(r);
    return n;
}

static void a_writer_knows_where_its_records_stand_across_segments(void **state) {
    (void)state;
    struct journal *j = open_journal(&(struct journal_options){.dir = root, .segment_bytes = 600});
    for (uint64_t call = 1; call <= 20; call++) {
        append_call(j, SV("a.1"), call);
        append_call(j, SV("b.1"), call);
    }
    assert_int_equal(own_records(j, SV("a.1")), 40);
    assert_int_equal(own_records(j, SV("b.1")), 40);
    assert_int_equal(own_records(j, SV("c.1")), 0);
    journal_close(j);
}

static void the_trace_is_the_same_by_places_and_by_reading_all(void **state) {
    (void)state;
    struct err err = {0};
    struct journal *j = open_journal(&(struct journal_options){.dir = root, .segment_bytes = 900});
    for (uint64_t call = 1; call <= 7; call++) {
        append_call(j, SV("a.1"), call);
        append_call(j, SV("other.1"), call);
    }
    append(j, of(SV("a.1"), JOURNAL_INTENT, 8));
    struct trace_source from = {.journal_dir = root, .session = "a.1"};
    struct trace_summary all = {0};
    struct trace_summary own = {0};
    AUTO_BUF struct buf by_all = {0};
    AUTO_BUF struct buf by_places = {0};
    assert_ok(trace_to_buf(&from, &by_all, &all, &err), &err);
    from.journal = j;
    assert_ok(trace_to_buf(&from, &by_places, &own, &err), &err);
    assert_string_equal(buf_cstr(&by_all), buf_cstr(&by_places));
    assert_int_equal(own.calls, 8);
    assert_int_equal(own.open, 1);
    journal_close(j);
}

static void a_forgotten_session_has_no_places_and_others_keep_theirs(void **state) {
    (void)state;
    struct journal *j = open_journal(&(struct journal_options){.dir = root});
    append_call(j, SV("a.1"), 1);
    append_call(j, SV("b.1"), 1);
    journal_forget(j, SV("a.1"));
    journal_forget(j, SV("never.1"));
    assert_int_equal(own_records(j, SV("a.1")), 0);
    assert_int_equal(own_records(j, SV("b.1")), 2);
    journal_close(j);
}

static void places_of_many_sessions_stay_apart(void **state) {
    (void)state;
    struct places *p = calloc(1, sizeof *p);
    struct err err = {0};
    char name[16];
    assert_non_null(p);
    for (unsigned i = 0; i < 3000; i++) {
        snprintf(name, sizeof name, "s%u.1", i % 1500);
        places_add(p, sv_from(name), (struct journal_place){1, i});
    }
    for (unsigned i = 0; i < 1500; i++) {
        AUTO_FREE struct journal_place *got = NULL;
        size_t n = 0;
        snprintf(name, sizeof name, "s%u.1", i);
        assert_ok(places_copy(p, sv_from(name), &got, &n, &err), &err);
        assert_int_equal(n, 2);
        assert_int_equal(got[0].offset, i);
        assert_int_equal(got[1].offset, i + 1500);
    }
    assert_false(p->lossy);
    places_deinit(p);
    free(p);
}

static const struct CMUnitTest tests[] = {
    TEST(a_writer_knows_where_its_records_stand_across_segments),
    TEST(the_trace_is_the_same_by_places_and_by_reading_all),
    TEST(a_forgotten_session_has_no_places_and_others_keep_theirs),
    TEST(places_of_many_sessions_stay_apart),
};

int main(void) {
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
