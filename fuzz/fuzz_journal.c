/* SPDX-License-Identifier: BSD-3-Clause */
/* A reader over any bytes gives only records whose checksums are right. The first byte says whether
 * a good header is put before the rest (1), and whether its records' checksums are put right (2).
 * Or the rest, without the zero bytes that every head has, is damage between two good records (4):
 * then both are read. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "journal/crc32c.h"
#include "journal/format.h"
#include "journal/reader.h"
#include "journal/sessions.h"

static void put_right(struct buf *b, size_t at) {
    uint32_t n;
    for (; b->len - at >= FORMAT_HEAD_BYTES; at += FORMAT_HEAD_BYTES + n) {
        memcpy(&n, b->data + at + 4, 4);
        size_t room = b->len - at - FORMAT_HEAD_BYTES;
        n = n > room ? (uint32_t)room : n;
        memcpy(b->data + at + 4, &n, 4);
        uint32_t crc = crc32c(0, b->data + at + FORMAT_HEAD_BYTES, n);
        memcpy(b->data + at + 8, &crc, 4);
        crc = crc32c(0, b->data + at + 4, FORMAT_HEAD_BYTES - 4);
        memcpy(b->data + at, &crc, 4);
    }
}

static void add_record(struct buf *b, uint64_t call) {
    const struct journal_record r = {
        .type = JOURNAL_SESSION_CLOSE, .session = SV("s.1"), .call = call, .head = SV("{}")};
    size_t n = 0;
    BUG_IF(format_measure(&r, &n, NULL) < 0 || buf_reserve(b, n) < 0);
    format_write(&r, b->data + b->len);
    b->len += n;
}

static void put_between(struct buf *b, struct sv damage) {
    add_record(b, 1);
    for (size_t i = 0; i < damage.n; i++) {
        BUG_IF(buf_addc(b, damage.p[i] ? damage.p[i] : ' ') < 0);
    }
    add_record(b, 2);
}

/* One folder for all inputs, in memory: a disk would cost more than the reading. */
static char dir[] = "/dev/shm/snaffle-fuzz-journal.XXXXXX";
static bool made;

static void remove_dir(void) {
    BUG_IF(file_remove_tree(dir, NULL) < 0);
}

static bool is_named(const struct journal_record *r, const struct format_head *head) {
    return crc32c(0, r->session.p, r->session.n) == head->session_crc;
}

/* An outline has every whole record, and perhaps some whose bodies are damaged; its names are
 * right. */
static void read_outline(const struct buf *b, unsigned whole) {
    struct journal_reader *r = NULL;
    struct journal_sessions sessions = {0};
    struct journal_record record;
    unsigned n = 0;
    BUG_IF(journal_reader_open(dir, &r, NULL) < 0);
    reader_outline(r);
    while (journal_reader_next(r, &record, NULL) == 1) {
        struct format_head head;
        BUG_IF(!format_read_head(b->data + journal_reader_place(r).offset, &head));
        BUG_IF(record.call > 0 && !is_named(&record, &head));
        n += is_named(&record, &head);
    }
    BUG_IF(n < whole);
    journal_reader_close(r);
    if (journal_sessions_read(dir, &sessions, NULL) == 0) {
        for (size_t i = 0; i < sessions.n; i++) {
            const char *name = sessions.list[i].name;
            BUG_IF(journal_sessions_find(&sessions, sv_from(name)) != &sessions.list[i]);
        }
        journal_sessions_deinit(&sessions);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    AUTO_BUF struct buf b = {0};
    struct err err = {0};
    struct journal_reader *r = NULL;
    struct journal_record record;
    BUG_IF(!made && (!mkdtemp(dir) || atexit(remove_dir) != 0));
    made = true;
    AUTO_FREE char *boot = file_join(dir, "boot");
    AUTO_FREE char *path = file_join(boot, "000001.log");
    bool between = size > 0 && (data[0] & 4);
    uint64_t seen = 0;
    unsigned whole = 0;
    BUG_IF(size > 0 && (data[0] & 5) && format_add_segment_header("boot", &b) < 0);
    size_t start = b.len;
    if (between) {
        put_between(&b, (struct sv){(const char *)data + 1, size - 1});
    }
    BUG_IF(size > 0 && !between && buf_add(&b, data + 1, size - 1) < 0);
    if (size > 0 && !between && (data[0] & 2)) {
        put_right(&b, start);
    }
    BUG_IF(file_mkdirs(boot, 0700, &err) < 0 || file_write(path, buf_sv(&b), 0600, &err) < 0);
    BUG_IF(journal_reader_open(dir, &r, &err) < 0);
    while (journal_reader_next(r, &record, &err) == 1) {
        struct format_head head;
        const char *at = b.data + journal_reader_place(r).offset;
        BUG_IF(!format_read_head(at, &head) || record.call != head.call);
        BUG_IF(crc32c(0, at + FORMAT_HEAD_BYTES, head.body_bytes) != head.body_crc);
        seen = 10 * seen + record.call;
        whole += is_named(&record, &head);
        BUG_IF(record.n_parts > JOURNAL_PARTS_MAX || record.session.n > FORMAT_SESSION_MAX);
    }
    BUG_IF(between && (seen != 12 || (size > 1) != journal_reader_torn(r)));
    journal_reader_close(r);
    read_outline(&b, whole);
    return 0;
}
