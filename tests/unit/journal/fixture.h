/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_TESTS_UNIT_JOURNAL_FIXTURE_H
#define SNAFFLE_TESTS_UNIT_JOURNAL_FIXTURE_H

#include <dirent.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "journal/journal.h"
#include "tests/testing.h"

/* A folder of the test program's own, new for each case. */
static char root[] = "/tmp/snaffle-journal-test.XXXXXX";

static inline int make_root(void **state) {
    (void)state;
    memcpy(root + sizeof root - 7, "XXXXXX", 6);
    return mkdtemp(root) ? 0 : -1;
}

static inline int remove_root(void **state) {
    (void)state;
    return file_remove_tree(root, NULL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_root, remove_root)

static inline struct journal *open_journal(const struct journal_options *o) {
    struct err err = {0};
    struct journal *j = NULL;
    assert_ok(journal_open(o, &j, &err), &err);
    return j;
}

static inline struct journal_reader *open_reader(void) {
    struct err err = {0};
    struct journal_reader *r = NULL;
    assert_ok(journal_reader_open(root, &r, &err), &err);
    return r;
}

/* A result with one part. */
static inline struct journal_record record(uint64_t call, struct sv bytes) {
    return (struct journal_record){
        .type = JOURNAL_RESULT,
        .session = SV("r1.1"),
        .call = call,
        .time = 1.5,
        .head = SV("{\"status\":200}"),
        .parts = {{SV("response"), bytes}, {SV("usage"), SV("null")}},
        .n_parts = 2,
    };
}

static inline void append(struct journal *j, struct journal_record r) {
    struct err err = {0};
    assert_ok(journal_append_wait(j, &r, &err), &err);
}

/* The path of segment `number` of the one boot there is; the caller frees. */
static inline char *segment_file(unsigned number) {
    DIR *d = opendir(root);
    assert_non_null(d);
    char *path = NULL;
    const struct dirent *e;
    while ((e = readdir(d))) {
        if (e->d_name[0] != '.') {
            assert_null(path);
            path = mem_printf("%s/%s/%06u.log", root, e->d_name, number);
        }
    }
    closedir(d);
    assert_non_null(path);
    return path;
}

/* Reads on to the end; how many records there were. */
static inline unsigned count_records(struct journal_reader *r) {
    struct err err = {0};
    struct journal_record got;
    unsigned n = 0;
    int code;
    while ((code = journal_reader_next(r, &got, &err)) == 1) {
        n++;
    }
    assert_ok(code, &err);
    return n;
}

#endif
