/* SPDX-License-Identifier: BSD-3-Clause */
#include "guest/door.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/rand.h"
#include "guest/files.h"
#include "guest/parcel.h"
#include "guest/protocol.h"
#include "guest/record.h"
#include "guest/run.h"
#include "guest/self.h"

#define SPEC_TEXT_MAX (2u << 20) /* A frame's bytes as text. */
#define PAUSE_MS 2 /* Between two looks for a first record: some ms after the start. */
#define FIRST_RECORD_S 10.0
#define ALARM_AGAIN_US 50000 /* One that comes before the wait has begun ends nothing. */

/* --- whose command it is --- */

static int make_folder(const char *dir, struct err *err) {
    AUTO_FREE char *parent = mem_strdup(dir);
    char *slash = parent ? strrchr(parent, '/') : NULL;
    if (slash && slash != parent) {
        *slash = '\0';
        (void)mkdir(parent, 0755); /* Failing shows below. */
    }
    return mkdir(dir, 0700) == 0 || errno == EEXIST
               ? 0
               : err_sys(err, errno == ENOSPC ? ERR_FULL : ERR_SYS, errno, "cannot make '%s'", dir);
}

/* The lock is held before the name is there: who finds the name waits for the holder. */
static int lock_new(const char *temp, const char *path, int *out_fd, struct err *err) {
    AUTO_CLOSE int fd = open(temp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0) {
        return err_sys(err, ERR_SYS, errno, "cannot make '%s'", temp);
    }
    int r = link(temp, path);
    int reason = errno;
    unlink(temp);
    if (r < 0 && reason != EEXIST) {
        return err_sys(err, ERR_SYS, reason, "cannot make '%s'", path);
    }
    *out_fd = r == 0 ? TAKE_FD(fd) : -1;
    return 0;
}

/* Gives -1 where another was first. */
static int claim(const char *dir, int *out_fd, struct err *err) {
    char word[17];
    rand_hex(word, 8);
    AUTO_FREE char *path = record_path(dir, "begun");
    AUTO_FREE char *temp = path ? mem_printf("%s.%s", path, word) : NULL;
    if (!temp) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    int r = make_folder(dir, err);
    return r < 0 ? r : lock_new(temp, path, out_fd, err);
}

static bool has_begun(const char *dir) {
    AUTO_FREE char *path = record_path(dir, "begun");
    return path && access(path, F_OK) == 0;
}

/* --- the start --- */

static int read_stdin(struct buf *out, struct err *err) {
    AUTO_BUF struct buf text = {.limit = SPEC_TEXT_MAX};
    char bytes[8192];
    ssize_t n;
    while ((n = read(0, bytes, sizeof bytes)) > 0) {
        if (buf_add(&text, bytes, (size_t)n) < 0) {
            return err_set(err, ERR_LIMIT, "a spec of more than %u bytes", SPEC_TEXT_MAX);
        }
    }
    return parcel_read(buf_sv(&text), out, err);
}

static int read_spec(const struct door_options *o, struct buf *out, struct err *err) {
    AUTO_FREE char *path = record_path(o->dir, "spec");
    if (o->has_spec) {
        return read_stdin(out, err);
    }
    return path ? record_read_file(path, PROTOCOL_FRAME_MAX, out, err)
                : err_set(err, ERR_NOMEM, "out of memory");
}

static int start(const char *dir, struct sv spec, int lock_fd, struct err *err) {
    pid_t pid = fork();
    if (pid == 0) {
        setsid();
        for (int fd = 0; fd < 3; fd++) {
            close(fd);
        }
        self_close_strays(&lock_fd, 1);
        _exit(run_supervise(dir, spec, lock_fd));
    }
    return pid < 0 ? err_sys(err, ERR_LIMIT, errno, "cannot start a process") : 0;
}

/* Nothing, when it was begun before. */
static int begin(const struct door_options *o, struct err *err) {
    AUTO_BUF struct buf spec = {0};
    AUTO_CLOSE int lock_fd = -1;
    if (has_begun(o->dir)) {
        return 0;
    }
    int r = read_spec(o, &spec, err);
    r = r < 0 ? r : claim(o->dir, &lock_fd, err);
    return r < 0 || lock_fd < 0 ? r : start(o->dir, buf_sv(&spec), lock_fd, err);
}

/* --- the wait --- */

static void on_alarm(int number) {
    (void)number;
}

/* Whether the one that holds the lock has let it go by then. */
static bool await_end(const char *dir, uint64_t ms) {
    AUTO_FREE char *path = record_path(dir, "begun");
    AUTO_CLOSE int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0 || flock(fd, LOCK_SH | LOCK_NB) == 0) {
        return true;
    }
    if (ms == 0) {
        return false;
    }
    struct sigaction wake = {.sa_handler = on_alarm};
    struct itimerval at = {.it_value = {(time_t)(ms / 1000), (suseconds_t)(ms % 1000) * 1000},
                           .it_interval = {0, ALARM_AGAIN_US}};
    deadline_ms until = deadline_in_ms((int64_t)ms);
    sigaction(SIGALRM, &wake, NULL);
    setitimer(ITIMER_REAL, &at, NULL);
    int r;
    do {
        r = flock(fd, LOCK_SH);
    } while (r < 0 && errno == EINTR && !deadline_passed(until));
    setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL);
    return r == 0;
}

/* Its keeper is gone: what it did not write, nobody will. */
static int complete(const char *dir, struct buf *record, struct err *err) {
    struct record_end end = {.exit_code = RECORD_EXIT_UNSEEN};
    uint64_t pid = protocol_u64(buf_sv(record), PROTOCOL_PID, 0);
    if (record->len == 0) {
        return err_set(err, ERR_SYS, "the command left no record (is the sandbox's disk full?)");
    }
    if (record_is_final(buf_sv(record))) {
        return 0;
    }
    int r = record_write(dir, pid, &end, err);
    buf_reset(record);
    return r < 0 ? r : record_read(dir, record, err);
}

/* Gives the record: of its end if that comes in time. */
static int await_record(const char *dir, uint64_t wait_ms, struct buf *out, struct err *err) {
    deadline_ms until = deadline_in_s(FIRST_RECORD_S);
    bool is_over = await_end(dir, wait_ms);
    for (;;) {
        buf_reset(out);
        int r = record_read(dir, out, err);
        if (r < 0 || is_over) {
            return r < 0 ? r : complete(dir, out, err);
        }
        if (out->len > 0) {
            return 0;
        }
        if (deadline_passed(until)) {
            return err_set(err, ERR_TIMEOUT, "the command's process does not begin");
        }
        is_over = await_end(dir, PAUSE_MS);
    }
}

static int stop(const struct door_options *o, struct buf *record, struct err *err) {
    AUTO_CLOSE int lock_fd = -1;
    struct err never = {0};
    (void)err_set(&never, ERR_CANCELLED, "the command was stopped before it began");
    int r = claim(o->dir, &lock_fd, err);
    if (r == 0 && lock_fd >= 0) {
        record_write_failure(o->dir, &never);
    }
    if (r < 0 || lock_fd >= 0) {
        return r;
    }
    r = await_record(o->dir, 0, record, err);
    uint64_t pid = protocol_u64(buf_sv(record), PROTOCOL_PID, 0);
    if (r == 0 && !record_is_final(buf_sv(record)) && pid > 1 && pid <= INT32_MAX) {
        (void)kill((pid_t)pid, SIGTERM); /* It holds the lock, so it is the one. */
    }
    return r;
}

/* --- the telling --- */

/* Appends a file's last bytes, as one field; none when there is no such file. */
static int add_tail(struct protocol_out *o, const char *dir, const char *name, uint8_t total_tag,
                    size_t max, struct err *err) {
    AUTO_FREE char *path = record_path(dir, name);
    AUTO_BUF struct buf tail = {0};
    AUTO_CLOSE int fd = -1;
    uint64_t size = 0;
    int r = path ? files_open_read(AT_FDCWD, path, &fd, &size, err) : ERR_NOMEM;
    size_t n = size < max ? (size_t)size : max;
    r = r < 0 ? r : buf_reserve(&tail, n + 1);
    ssize_t got = r < 0 ? 0 : pread(fd, tail.data, n, (off_t)(size - n));
    if (r == ERR_NOT_FOUND) {
        return 0;
    }
    if (r < 0 || got < 0) {
        return r < 0 ? r : err_sys(err, ERR_SYS, errno, "cannot read '%s'", path);
    }
    protocol_add_u64(o, total_tag, size);
    protocol_add(o, PROTOCOL_BYTES, (struct sv){tail.data, (size_t)got});
    return 0;
}

static int write_all(struct sv text, struct err *err) {
    while (text.n > 0) {
        ssize_t n = write(1, text.p, text.n);
        if (n < 0 && errno != EINTR) {
            return err_sys(err, ERR_CLOSED, errno, "cannot tell what became of the command");
        }
        text = sv_cut(text, n > 0 ? (size_t)n : 0);
    }
    return 0;
}

/* Until the pipe is empty, and a moment more. */
static void linger(unsigned ms) {
    deadline_ms until = deadline_in_ms(100 * (int64_t)ms);
    int waiting = 1;
    while (ms > 0 && ioctl(1, FIONREAD, &waiting) == 0 && waiting > 0 && !deadline_passed(until)) {
        clock_sleep_ms(1);
    }
    clock_sleep_ms(ms);
}

static int tell(const struct door_options *o, struct buf *record, struct err *err) {
    AUTO_BUF struct buf text = {0};
    int r = 0;
    struct protocol_out fields = protocol_fields_begin(record);
    fields.start = 0; /* The record is the first of it. */
    if (record_is_final(buf_sv(record))) {
        r = add_tail(&fields, o->dir, "out", PROTOCOL_OUT_TOTAL, o->output_max, err);
        r = r < 0 ? r : add_tail(&fields, o->dir, "err", PROTOCOL_ERR_TOTAL, o->output_max, err);
    }
    if (r < 0) {
        return r;
    }
    if (protocol_fields_end(&fields) < 0 || parcel_put(buf_sv(record), &text) < 0) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    r = write_all(buf_sv(&text), err);
    linger(o->linger_ms);
    return r;
}

/* --- forgetting --- */

static void forget_one(const char *beside, unsigned long long number) {
    static const char *const names[] = {"spec", "in", "begun", "exit", "out", "err"};
    AUTO_FREE char *dir = mem_printf("%s/%llu", beside, number);
    for (size_t i = 0; dir && i < ARRAY_LEN(names); i++) {
        AUTO_FREE char *path = record_path(dir, names[i]);
        if (path) {
            unlink(path);
        }
    }
    if (dir) {
        rmdir(dir);
    }
}

/* What can't be removed stays. */
static void forget(const char *dir, const char *list) {
    AUTO_FREE char *beside = mem_strdup(dir);
    char *slash = beside ? strrchr(beside, '/') : NULL;
    struct sv rest = sv_from(list);
    if (!slash) {
        return;
    }
    *slash = '\0';
    while (rest.n > 0) {
        unsigned long long number;
        size_t n = sv_find(rest, SV(","));
        struct sv word = {rest.p, n == (size_t)-1 ? rest.n : n};
        rest = sv_cut(rest, word.n + 1);
        if (sv_parse_u64(word, UINT32_MAX, &number)) {
            forget_one(beside, number);
        }
    }
}

int door_run(const struct door_options *o, struct err *err) {
    AUTO_BUF struct buf record = {0};
    int r = o->is_stop ? stop(o, &record, err) : begin(o, err);
    if (o->forget) {
        forget(o->dir, o->forget);
    }
    r = r < 0 ? r : await_record(o->dir, o->wait_ms, &record, err);
    return r < 0 ? r : tell(o, &record, err);
}
