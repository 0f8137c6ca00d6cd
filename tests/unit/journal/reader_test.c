/* SPDX-License-Identifier: BSD-3-Clause */
#include <fcntl.h>
#include <sys/stat.h>

#include "journal/format.h"
#include "tests/unit/journal/fixture.h"

#define RECORDS 3
#define FILE_MAX (1u << 20)

/* Writes a small journal and reads its one segment; ends[i]: where record i ends. */
static char *small_journal(struct buf *bytes, size_t ends[RECORDS]) {
    struct err err = {0};
    struct journal *j = open_journal(&(struct journal_options){.dir = root});
    AUTO_FREE char *path = segment_file(1);
    for (uint64_t i = 0; i < RECORDS; i++) {
        append(j, record(i + 1, SV("{\"id\": 1e0}")));
        struct stat st;
        assert_int_equal(stat(path, &st), 0);
        ends[i] = (size_t)st.st_size;
    }
    journal_close(j);
    assert_ok(file_read(path, FILE_MAX, bytes, &err), &err);
    assert_int_equal(bytes->len, ends[RECORDS - 1]);
    return TAKE(path);
}

static unsigned count_in(const char *path, struct sv bytes, unsigned *torn) {
    struct err err = {0};
    assert_ok(file_write(path, bytes, 0600, &err), &err);
    struct journal_reader *r = open_reader();
    unsigned n = count_records(r);
    *torn = journal_reader_torn(r);
    journal_reader_close(r);
    return n;
}

static void a_cut_at_any_byte_leaves_the_whole_records_before_it(void **state) {
    (void)state;
    AUTO_BUF struct buf bytes = {0};
    size_t ends[RECORDS];
    AUTO_FREE char *path = small_journal(&bytes, ends);
    size_t header = ends[0] - (ends[1] - ends[0]);
    for (size_t cut = 0; cut <= bytes.len; cut++) {
        unsigned want = 0;
        bool clean = cut == 0 || cut == header;
        for (size_t i = 0; i < RECORDS; i++) {
            want += ends[i] <= cut;
            clean = clean || ends[i] == cut;
        }
        unsigned torn = 0;
        assert_int_equal(count_in(path, (struct sv){bytes.data, cut}, &torn), want);
        assert_int_equal(torn, !clean);
    }
}

static void a_flipped_byte_loses_what_it_hits_and_no_other_record(void **state) {
    (void)state;
    AUTO_BUF struct buf bytes = {0};
    size_t ends[RECORDS];
    AUTO_FREE char *path = small_journal(&bytes, ends);
    size_t header = ends[0] - (ends[1] - ends[0]);
    for (size_t at = 0; at < bytes.len; at++) {
        if (at == 8 || at == 9) {
            continue; /* The major version: refused as another's. */
        }
        unsigned torn = 0;
        bytes.data[at] ^= 0x55;
        unsigned n = count_in(path, buf_sv(&bytes), &torn);
        bytes.data[at] ^= 0x55;
        assert_int_equal(n, at < header ? RECORDS : RECORDS - 1);
        assert_int_equal(torn, 1);
    }
}

/* A living writer's segment, damaged: reading goes on behind it, and follows. */
static void damage_hides_nothing_of_a_journal_that_grows(void **state) {
    (void)state;
    struct err err = {0};
    struct journal *j = open_journal(&(struct journal_options){.dir = root});
    AUTO_FREE char *path = segment_file(1);
    struct stat st[2];
    append(j, record(1, SV("{}")));
    assert_int_equal(stat(path, &st[0]), 0);
    append(j, record(2, SV("{}")));
    assert_int_equal(stat(path, &st[1]), 0);
    AUTO_CLOSE int fd = open(path, O_WRONLY | O_CLOEXEC);
    static const char zeros[200];
    size_t n = (size_t)(st[1].st_size - st[0].st_size);
    assert_true(n <= sizeof zeros);
    assert_int_equal(pwrite(fd, zeros, n, st[0].st_size), n);
    struct journal_reader *r = open_reader();
    struct journal_record got;
    assert_int_equal(journal_reader_next(r, &got, &err), 1);
    assert_int_equal(journal_reader_next(r, &got, &err), 0);
    assert_int_equal(journal_reader_torn(r), 0); /* Not certain yet. */
    append(j, record(3, SV("{}")));
    assert_int_equal(journal_reader_next(r, &got, &err), 1);
    assert_int_equal(got.call, 3);
    assert_int_equal(journal_reader_torn(r), 1);
    journal_close(j);
    assert_int_equal(count_records(r), 0);
    journal_reader_close(r);
}

static void another_major_version_is_refused(void **state) {
    (void)state;
    AUTO_BUF struct buf bytes = {0};
    size_t ends[RECORDS];
    struct err err = {0};
    AUTO_FREE char *path = small_journal(&bytes, ends);
    bytes.data[8] = 2;
    assert_ok(file_write(path, buf_sv(&bytes), 0600, &err), &err);
    struct journal_reader *r = open_reader();
    struct journal_record got;
    assert_err(journal_reader_next(r, &got, &err), ERR_UNSUPPORTED, &err, "another major version");
    journal_reader_close(r);
}

static void records_of_unknown_type_are_passed_over(void **state) {
    (void)state;
    struct err err = {0};
    struct journal *j = open_journal(&(struct journal_options){.dir = root});
    struct journal_record odd = record(1, SV("1"));
    odd.type = (enum journal_type)999;
    append(j, odd);
    append(j, record(2, SV("2")));
    journal_close(j);
    struct journal_reader *r = open_reader();
    struct journal_record got;
    assert_int_equal(journal_reader_next(r, &got, &err), 1);
    assert_int_equal(got.call, 2);
    assert_int_equal(journal_reader_next(r, &got, &err), 0);
    assert_int_equal(journal_reader_torn(r), 0);
    journal_reader_close(r);
}

static void a_reader_follows_a_journal_that_grows(void **state) {
    (void)state;
    struct err err = {0};
    struct journal_record got;
    struct journal *j = open_journal(&(struct journal_options){.dir = root, .segment_bytes = 400});
    struct journal_reader *r = open_reader();
    assert_int_equal(journal_reader_next(r, &got, &err), 0);
    for (uint64_t call = 1; call <= 20; call++) {
        append(j, record(call, SV("{}")));
        assert_int_equal(journal_reader_next(r, &got, &err), 1);
        assert_int_equal(got.call, call);
        assert_int_equal(journal_reader_next(r, &got, &err), 0);
    }
    AUTO_FREE char *second = segment_file(2);
    assert_true(file_exists(second));
    struct journal *other = open_journal(&(struct journal_options){.dir = root});
    append(other, record(21, SV("{}")));
    assert_int_equal(journal_reader_next(r, &got, &err), 1);
    assert_int_equal(got.call, 21);
    append(j, record(22, SV("{}")));
    assert_int_equal(journal_reader_next(r, &got, &err), 1);
    assert_int_equal(got.call, 22);
    assert_int_equal(journal_reader_torn(r), 0);
    journal_close(j);
    journal_close(other);
    journal_reader_close(r);
}

static void half_a_record_waits_while_its_writer_lives(void **state) {
    (void)state;
    struct err err = {0};
    struct journal *j = open_journal(&(struct journal_options){.dir = root});
    append(j, record(1, SV("{}")));
    AUTO_FREE char *path = segment_file(1);
    AUTO_BUF struct buf bytes = {0};
    assert_ok(file_read(path, FILE_MAX, &bytes, &err), &err);
    int fd = open(path, O_WRONLY | O_APPEND);
    assert_int_equal(write(fd, bytes.data + bytes.len - 60, 20), 20);
    struct journal_reader *r = open_reader();
    assert_int_equal(count_records(r), 1);
    assert_int_equal(journal_reader_torn(r), 0);
    journal_close(j);
    assert_int_equal(count_records(r), 0);
    assert_int_equal(journal_reader_torn(r), 1);
    journal_reader_close(r);
    close(fd);
}

static void one_session_is_read_without_the_others(void **state) {
    (void)state;
    struct err err = {0};
    struct journal *j = open_journal(&(struct journal_options){.dir = root});
    struct journal_place places[4];
    for (uint64_t call = 1; call <= 8; call++) {
        struct journal_record one = record(call, SV("{}"));
        one.session = call % 2 ? SV("r1.1") : SV("r1.2");
        append(j, one);
    }
    journal_close(j);
    struct journal_reader *r = open_reader();
    assert_ok(journal_reader_only(r, SV("r1.2"), &err), &err);
    struct journal_record got;
    for (uint64_t i = 0; i < 4; i++) {
        assert_int_equal(journal_reader_next(r, &got, &err), 1);
        assert_int_equal(got.call, 2 * i + 2);
        places[i] = journal_reader_place(r);
    }
    assert_int_equal(journal_reader_next(r, &got, &err), 0);
    for (uint64_t i = 4; i > 0; i--) {
        assert_ok(journal_reader_at(r, places[i - 1], &got, &err), &err);
        assert_int_equal(got.call, 2 * i);
    }
    journal_reader_close(r);
}

/* The text of the places, of a folder whose boot has a name of its own each time. */
static void damage_is_told_with_its_places(void **state) {
    (void)state;
    AUTO_BUF struct buf bytes = {0};
    size_t ends[RECORDS];
    AUTO_FREE char *path = small_journal(&bytes, ends);
    struct err err = {0};
    char got[256];
    char want[256];
    const char *slash = strrchr(path, '/');
    while (*--slash != '/') {
    }
    bytes.data[ends[0] + 60] ^= 1; /* A body. */
    assert_ok(file_write(path, (struct sv){bytes.data, ends[2] - 1}, 0600, &err), &err);
    struct journal_reader *r = open_reader();
    journal_reader_put_torn(r, got, sizeof got);
    assert_string_equal(got, "");
    assert_int_equal(count_records(r), 1);
    assert_int_equal(journal_reader_torn(r), 2);
    journal_reader_put_torn(r, got, sizeof got);
    (void)snprintf(want, sizeof want, "%s at byte %zu, %s at byte %zu", slash + 1, ends[0],
                   slash + 1, ends[1]);
    assert_string_equal(got, want);
    journal_reader_put_torn(r, got, 10); /* As much as there is room for. */
    assert_int_equal(strlen(got), 9);
    journal_reader_close(r);
}

static void a_missing_folder_is_said(void **state) {
    (void)state;
    struct err err = {0};
    struct journal_reader *r = NULL;
    assert_err(journal_reader_open("/nonexistent/journal", &r, &err), ERR_NOT_FOUND, &err,
               "'/nonexistent/journal'");
}

static const struct CMUnitTest tests[] = {
    TEST(a_cut_at_any_byte_leaves_the_whole_records_before_it),
    TEST(a_flipped_byte_loses_what_it_hits_and_no_other_record),
    TEST(damage_hides_nothing_of_a_journal_that_grows),
    TEST(another_major_version_is_refused),
    TEST(records_of_unknown_type_are_passed_over),
    TEST(a_reader_follows_a_journal_that_grows),
    TEST(half_a_record_waits_while_its_writer_lives),
    TEST(one_session_is_read_without_the_others),
    TEST(damage_is_told_with_its_places),
    TEST(a_missing_folder_is_said),
};

RUN_TESTS(tests)
