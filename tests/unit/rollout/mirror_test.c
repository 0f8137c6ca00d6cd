/* SPDX-License-Identifier: BSD-3-Clause */
#include "rollout/mirror.h"

#include <dirent.h>
#include <stdio.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "journal/journal.h"
#include "tests/testing.h"

/* The sandbox here is a folder, of whose files only so many bytes are there yet. */

#define SESSION "task-1.1"

struct folder {
    struct sandbox base;
    char root[64];
    size_t limit; /* Of each file. */
    int reads;
    int failures; /* Of the next reads, by the network. */
};

struct bench {
    struct folder inside;
    char *boot; /* Where the writer inside keeps its segments. */
    struct journal *to;
    char *to_dir;
    char *copy;
    struct mirror *mirror;
};

static int read_part(struct sandbox *s, const char *path, uint64_t offset, size_t length,
                     struct buf *out, struct err *err) {
    struct folder *f = (struct folder *)s;
    AUTO_BUF struct buf all = {0};
    f->reads++;
    if (f->failures > 0) {
        f->failures--;
        return err_set(err, ERR_UPSTREAM, "HTTP 502");
    }
    if (!file_exists(path)) {
        return err_set(err, ERR_NOT_FOUND, "no '%s'", path);
    }
    int r = file_read(path, 1 << 20, &all, err);
    size_t there = all.len < f->limit ? all.len : f->limit;
    size_t from = offset < there ? (size_t)offset : there;
    size_t n = there - from < length ? there - from : length;
    return r < 0 ? r : buf_add(out, all.data + from, n);
}

static int exists(struct sandbox *s, const char *path, struct err *err) {
    (void)s;
    (void)err;
    return file_exists(path);
}

static const struct sandbox_ops ops = {.read_file = read_part, .exists = exists};

/* What a gateway inside writes: two calls, of which the second fails, and a third that is sent
 * again and completed late. */
static const struct journal_record records[] = {
    {.type = JOURNAL_SESSION_OPEN, .head = SV("{}")},
    {.type = JOURNAL_INTENT, .call = 1, .time = 10, .head = SV("{}")},
    {.type = JOURNAL_RESULT,
     .call = 1,
     .time = 11,
     .head = SV("{\"status\":200,\"end\":\"complete\"}"),
     .n_parts = 2,
     .parts = {{SV("response"), SV("{}")}, {SV("usage"), SV("{\"completion_tokens\":7}")}}},
    {.type = JOURNAL_INTENT, .call = 2, .time = 12, .head = SV("{}")},
    {.type = JOURNAL_RESULT,
     .call = 2,
     .time = 13,
     .head = SV("{\"status\":502,\"end\":\"error\"}")},
    {.type = JOURNAL_INTENT, .call = 3, .time = 14, .head = SV("{}")},
    {.type = JOURNAL_INTENT, .call = 3, .time = 15, .head = SV("{\"resend\":true}")},
    {.type = JOURNAL_RESULT,
     .call = 3,
     .time = 16,
     .head = SV("{\"status\":200,\"end\":\"upstream_abort\",\"tail_open\":true}"),
     .n_parts = 1,
     .parts = {{SV("usage"), SV("{\"completion_tokens\":2}")}}},
    {.type = JOURNAL_TAIL,
     .call = 3,
     .time = 17,
     .head = SV("{}"),
     .n_parts = 1,
     .parts = {{SV("usage"), SV("{\"completion_tokens\":3}")}}},
    {.type = JOURNAL_SESSION_CLOSE, .head = SV("{\"calls\":3}")},
};
#define N_RECORDS ARRAY_LEN(records)

/* The caller frees. */
static char *only_folder(const char *dir) {
    char *path = NULL;
    const struct dirent *e;
    DIR *d = opendir(dir);
    assert_non_null(d);
    while ((e = readdir(d))) {
        if (e->d_name[0] != '.') {
            assert_null(path);
            path = file_join(dir, e->d_name);
        }
    }
    closedir(d);
    return path;
}

/* Writes the first `n` records into the journal inside. */
static void write_inside(struct bench *b, size_t n, uint64_t segment_bytes) {
    struct err err = {0};
    struct journal *j = NULL;
    AUTO_FREE char *dir = file_join(b->inside.root, "inside");
    assert_ok(journal_open(&(struct journal_options){.dir = dir, .segment_bytes = segment_bytes},
                           &j, &err),
              &err);
    for (size_t i = 0; i < n; i++) {
        struct journal_record r = records[i];
        r.session = SV("gateway-0123456789ab.0");
        assert_ok(journal_append_wait(j, &r, &err), &err);
    }
    journal_close(j);
    b->boot = only_folder(dir);
}

static int set_up(void **state) {
    struct bench *b = calloc(1, sizeof *b);
    struct err err = {0};
    b->inside.base = (struct sandbox){.ops = &ops, .id = "folder", .home = "/"};
    b->inside.limit = SIZE_MAX;
    snprintf(b->inside.root, sizeof b->inside.root, "/tmp/snaffle-mirror-XXXXXX");
    assert_non_null(mkdtemp(b->inside.root));
    b->to_dir = file_join(b->inside.root, "to");
    b->copy = file_join(b->inside.root, "copy");
    assert_ok(journal_open(&(struct journal_options){.dir = b->to_dir}, &b->to, &err), &err);
    *state = b;
    return 0;
}

static int take_down(void **state) {
    struct bench *b = *state;
    struct err err = {0};
    mirror_free(b->mirror);
    journal_close(b->to);
    assert_ok(file_remove_tree(b->inside.root, &err), &err);
    free(b->boot);
    free(b->to_dir);
    free(b->copy);
    free(b);
    return 0;
}

static void begin(struct bench *b) {
    struct err err = {0};
    assert_ok(mirror_new(&(struct mirror_options){.sandbox = &b->inside.base,
                                                  .path = b->boot,
                                                  .dir = b->copy,
                                                  .to = b->to,
                                                  .session = SESSION},
                         &b->mirror, &err),
              &err);
}

/* How many records of the session stand in the run's journal, and the last one's type. */
static size_t count_taken(struct bench *b, enum journal_type *last) {
    struct err err = {0};
    struct journal_reader *reader = NULL;
    struct journal_record r;
    size_t n = 0;
    int code;
    assert_ok(journal_flush(b->to, &err), &err);
    assert_int_equal(journal_reader_own(b->to, SV(SESSION), &reader, &err), 1);
    while ((code = journal_reader_next(reader, &r, &err)) == 1) {
        assert_true(sv_eq(r.session, SV(SESSION)));
        *last = r.type;
        n++;
    }
    assert_int_equal(code, 0);
    journal_reader_close(reader);
    journal_forget(b->to, SV(SESSION));
    return n;
}

static void records_come_over_under_the_rollout_s_name_with_their_times_and_parts(void **state) {
    struct bench *b = *state;
    struct err err = {0};
    struct journal_reader *reader = NULL;
    struct journal_record r;
    write_inside(b, N_RECORDS, 0);
    begin(b);
    assert_ok(mirror_end(b->mirror, &err), &err);
    assert_int_equal(journal_reader_own(b->to, SV(SESSION), &reader, &err), 1);
    for (size_t i = 0; i < N_RECORDS; i++) {
        assert_int_equal(journal_reader_next(reader, &r, &err), 1);
        assert_int_equal(r.type, records[i].type);
        assert_int_equal(r.call, records[i].call);
        assert_true(records[i].time == 0 || r.time == records[i].time);
        assert_true(sv_eq(r.head, records[i].head));
        assert_int_equal(r.n_parts, records[i].n_parts);
        assert_true(r.n_parts == 0 || sv_eq(r.parts[0].bytes, records[i].parts[0].bytes));
    }
    assert_int_equal(journal_reader_next(reader, &r, &err), 0);
    journal_reader_close(reader);
}

static void calls_are_counted_as_the_gateway_counts_them(void **state) {
    struct bench *b = *state;
    struct err err = {0};
    struct gateway_session_stats s;
    write_inside(b, N_RECORDS, 0);
    begin(b);
    assert_ok(mirror_step(b->mirror, &err), &err);
    mirror_stats(b->mirror, &s);
    assert_int_equal(s.calls, 3);
    assert_int_equal(s.calls_ended, 3);
    assert_int_equal(s.calls_open, 0);
    assert_int_equal(s.completion_tokens, 10);
    assert_int_equal(s.failed_calls, 2);
    assert_int_equal(s.failed_in_a_row, 2);
    assert_true(s.failing_for_s == 3);
}

static void what_is_cut_at_any_byte_is_waited_for(void **state) {
    struct bench *b = *state;
    struct err err = {0};
    struct buf all = {0};
    enum journal_type last = 0;
    write_inside(b, N_RECORDS, 0);
    AUTO_FREE char *path = mem_printf("%s/000001.log", b->boot);
    assert_ok(file_read(path, 1 << 20, &all, &err), &err);
    for (size_t cut = 0; cut <= all.len; cut++) {
        begin(b);
        b->inside.limit = cut;
        assert_ok(mirror_step(b->mirror, &err), &err);
        b->inside.limit = SIZE_MAX;
        assert_ok(mirror_end(b->mirror, &err), &err);
        mirror_free(TAKE(b->mirror));
        assert_int_equal(count_taken(b, &last), N_RECORDS);
    }
    buf_deinit(&all);
}

static void one_that_stays_cut_is_an_error_and_the_whole_ones_are_kept(void **state) {
    struct bench *b = *state;
    struct err err = {0};
    struct buf all = {0};
    enum journal_type last = 0;
    write_inside(b, 3, 0);
    AUTO_FREE char *path = mem_printf("%s/000001.log", b->boot);
    assert_ok(file_read(path, 1 << 20, &all, &err), &err);
    b->inside.limit = all.len - 1;
    begin(b);
    assert_err(mirror_end(b->mirror, &err), ERR_CORRUPT, &err, "damaged in 1 places");
    mirror_free(TAKE(b->mirror));
    assert_int_equal(count_taken(b, &last), 3); /* Two, and the end that was not there. */
    assert_int_equal(last, JOURNAL_SESSION_CLOSE);
    buf_deinit(&all);
}

static void a_changed_byte_is_an_error_and_hides_nothing_behind_it(void **state) {
    struct bench *b = *state;
    struct err err = {0};
    struct buf all = {0};
    enum journal_type last = 0;
    write_inside(b, N_RECORDS, 0);
    AUTO_FREE char *path = mem_printf("%s/000001.log", b->boot);
    assert_ok(file_read(path, 1 << 20, &all, &err), &err);
    all.data[all.len / 2] ^= 1;
    assert_ok(file_write(path, buf_sv(&all), 0644, &err), &err);
    begin(b);
    assert_err(mirror_end(b->mirror, &err), ERR_CORRUPT, &err, "damaged");
    mirror_free(TAKE(b->mirror));
    assert_int_equal(count_taken(b, &last), N_RECORDS - 1);
    buf_deinit(&all);
}

static void every_segment_comes_over(void **state) {
    struct bench *b = *state;
    struct err err = {0};
    enum journal_type last = 0;
    write_inside(b, N_RECORDS, /* segment_bytes= */ 300);
    AUTO_FREE char *third = mem_printf("%s/000003.log", b->boot);
    assert_true(file_exists(third));
    begin(b);
    assert_ok(mirror_step(b->mirror, &err), &err);
    assert_ok(mirror_end(b->mirror, &err), &err);
    mirror_free(TAKE(b->mirror));
    assert_int_equal(count_taken(b, &last), N_RECORDS);
    assert_int_equal(last, JOURNAL_SESSION_CLOSE);
}

static void a_look_without_news_is_one_read(void **state) {
    struct bench *b = *state;
    struct err err = {0};
    write_inside(b, N_RECORDS, 0);
    begin(b);
    assert_ok(mirror_step(b->mirror, &err), &err);
    int before = b->inside.reads;
    assert_ok(mirror_step(b->mirror, &err), &err);
    assert_int_equal(b->inside.reads, before + 1);
}

static void the_rest_is_asked_for_again_after_what_may_pass(void **state) {
    struct bench *b = *state;
    struct err err = {0};
    enum journal_type last = 0;
    write_inside(b, N_RECORDS, 0);
    begin(b);
    b->inside.failures = 2;
    assert_ok(mirror_end(b->mirror, &err), &err);
    mirror_free(TAKE(b->mirror));
    assert_int_equal(count_taken(b, &last), N_RECORDS);
}

static void what_came_before_the_sandbox_was_lost_stays_and_has_an_end(void **state) {
    struct bench *b = *state;
    struct err err = {0};
    enum journal_type last = 0;
    write_inside(b, 4, 0);
    begin(b);
    assert_ok(mirror_step(b->mirror, &err), &err);
    assert_ok(file_remove_tree(b->boot, &err), &err);
    assert_err(mirror_end(b->mirror, &err), ERR_NOT_FOUND, &err, "000001.log");
    mirror_free(TAKE(b->mirror));
    assert_int_equal(count_taken(b, &last), 5);
    assert_int_equal(last, JOURNAL_SESSION_CLOSE);
    assert_false(file_exists(b->copy));
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, take_down)

static const struct CMUnitTest tests[] = {
    CASE(records_come_over_under_the_rollout_s_name_with_their_times_and_parts),
    CASE(calls_are_counted_as_the_gateway_counts_them),
    CASE(what_is_cut_at_any_byte_is_waited_for),
    CASE(one_that_stays_cut_is_an_error_and_the_whole_ones_are_kept),
    CASE(a_changed_byte_is_an_error_and_hides_nothing_behind_it),
    CASE(every_segment_comes_over),
    CASE(a_look_without_news_is_one_read),
    CASE(the_rest_is_asked_for_again_after_what_may_pass),
    CASE(what_came_before_the_sandbox_was_lost_stays_and_has_an_end),
};

int main(void) {
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
