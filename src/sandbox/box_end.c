/* SPDX-License-Identifier: BSD-3-Clause */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/sv.h"
#include "sandbox/box.h"
#include "sandbox/box_scan.h"

#define DEATH_MS 30000 /* A killed process ends in milliseconds; a swapped-out one in seconds. */
#define RESCAN_MS 10
#define STAT_BYTES 1024   /* /proc/<pid>/stat: 52 numbers and a name of 16 bytes. */
#define STATUS_BYTES 4096 /* /proc/<pid>/status up to its Uid line, and then some. */

static ssize_t read_proc(const char *path, char *out, size_t size) {
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, out, size - 1);
    out[n < 0 ? 0 : n] = '\0';
    return n;
}

int box_boot_id(char out[BOX_BOOT_MAX]) {
    ssize_t n = read_proc("/proc/sys/kernel/random/boot_id", out, BOX_BOOT_MAX);
    out[strcspn(out, "\n")] = '\0';
    return n > 0 ? 0 : -1;
}

/* Gives field `number` (3 and up) and the ones after it. The name before them may hold anything, so
 * they are counted from its last parenthesis. */
static const char *stat_field(char text[STAT_BYTES], pid_t pid, int number) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    if (read_proc(path, text, STAT_BYTES) <= 0) {
        return NULL;
    }
    const char *p = strrchr(text, ')');
    for (int i = 2; p && i < number; i++) {
        p = strchr(p + 1, ' ');
    }
    return p ? p + 1 : NULL;
}

int box_process_start(pid_t pid, unsigned long long *out) {
    char text[STAT_BYTES];
    const char *field = stat_field(text, pid, 22);
    size_t n = field ? strcspn(field, " ") : 0;
    return field && sv_parse_u64((struct sv){field, n}, ~0ull, out) ? 0 : -1;
}

int box_end_noted(const struct box_traces *t, struct err *err) {
    char boot[BOX_BOOT_MAX];
    unsigned long long start;
    if (t->pid <= 0 || box_boot_id(boot) < 0 || strcmp(boot, t->boot) != 0) {
        return 0;
    }
    AUTO_CLOSE int fd = (int)syscall(SYS_pidfd_open, t->pid, 0);
    if (fd < 0 || box_process_start(t->pid, &start) < 0 || start != t->pid_start) {
        return 0; /* Dead already; whoever has its number now is somebody else. */
    }
    (void)syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0);
    struct pollfd p = {.fd = fd, .events = POLLIN};
    if (poll(&p, 1, DEATH_MS) <= 0) {
        return err_set(err, ERR_TIMEOUT, "process %d of a sandbox does not end", (int)t->pid);
    }
    return 1;
}

static bool has_uid(const char *status, uid_t uid) {
    char line[32];
    snprintf(line, sizeof line, "\nUid:\t%u\t", (unsigned)uid);
    return strstr(status, line) != NULL;
}

/* Whether the process has the sandbox's name, or one that begins so, and its user or ours. A zombie
 * has no name any more. */
static bool is_named(pid_t pid, const struct box_traces *t) {
    char path[64];
    char text[STATUS_BYTES];
    char want[64];
    snprintf(path, sizeof path, "/proc/%d/cmdline", (int)pid);
    int n = snprintf(want, sizeof want, BOX_PROCESS_NAME "%s", t->id);
    if (read_proc(path, text, sizeof text) <= 0 || strncmp(text, want, (size_t)n) != 0 ||
        (text[n] != '\0' && text[n] != '-')) {
        return false;
    }
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    return read_proc(path, text, sizeof text) > 0 &&
           (has_uid(text, t->uid) || has_uid(text, geteuid()));
}

/* Signals every process of the name; gives how many there were. The descriptor comes first: if the
 * number changes hands after that, the signal reaches nobody. */
static unsigned kill_named_once(const struct box_traces *t) {
    unsigned found = 0;
    DIR *d = opendir("/proc");
    for (struct dirent *e; d && (e = readdir(d));) {
        unsigned long long pid;
        if (!sv_parse_u64(sv_from(e->d_name), INT32_MAX, &pid) || pid == 0) {
            continue;
        }
        AUTO_CLOSE int fd = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);
        if (fd >= 0 && is_named((pid_t)pid, t)) {
            found++;
            (void)syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0);
        }
    }
    if (d) {
        closedir(d);
    }
    return found;
}

/* Twice none, since one that is just becoming bwrap has no name for a moment. */
static int kill_named(const struct box_traces *t, struct err *err) {
    deadline_ms until = deadline_in_ms(DEATH_MS);
    for (int none = 0; none < 2;) {
        none = kill_named_once(t) == 0 ? none + 1 : 0;
        if (deadline_passed(until)) {
            return err_set(err, ERR_TIMEOUT, "processes of the dead sandbox '%s' do not end",
                           t->id);
        }
        clock_sleep_ms(none < 2 ? RESCAN_MS : 0);
    }
    return 0;
}

int box_end_processes(const struct box_traces *t, struct err *err) {
    int r = box_end_noted(t, err);
    return r < 0 ? r : kill_named(t, err);
}
