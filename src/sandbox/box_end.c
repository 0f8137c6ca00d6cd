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
#include "sandbox/box_scan.h"
#include "sandbox/state.h"

#define DEATH_MS 5000 /* A killed process ends in milliseconds; a swapped-out one in seconds. */
#define RESCAN_MS 5
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

static int kill_noted(const struct box_traces *t, struct err *err) {
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
        return err_set(err, ERR_TIMEOUT, "process %d of a dead sandbox does not end", (int)t->pid);
    }
    return 0;
}

/* Whether the process runs (a zombie does not) as `uid`. The owner of its /proc folder does not
 * say: that is root for a process that made itself non-dumpable, as the guest does. */
static bool lives_as(pid_t pid, uid_t uid) {
    char path[64];
    char text[STATUS_BYTES];
    char want[32];
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    snprintf(want, sizeof want, "\nUid:\t%u\t", (unsigned)uid);
    return read_proc(path, text, sizeof text) > 0 && strstr(text, want) &&
           !strstr(text, "\nState:\tZ") && !strstr(text, "\nState:\tX");
}

/* Signals every living process of `uid`; gives how many there were. The descriptor comes first: if
 * the number changes hands after that, the signal reaches nobody. */
static unsigned kill_uid_once(uid_t uid) {
    unsigned found = 0;
    DIR *d = opendir("/proc");
    for (struct dirent *e; d && (e = readdir(d));) {
        unsigned long long pid;
        if (!sv_parse_u64(sv_from(e->d_name), INT32_MAX, &pid) || pid == 0) {
            continue;
        }
        AUTO_CLOSE int fd = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);
        if (fd >= 0 && lives_as((pid_t)pid, uid)) {
            found++;
            (void)syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0);
        }
    }
    if (d) {
        closedir(d);
    }
    return found;
}

static int kill_uid(uid_t uid, struct err *err) {
    deadline_ms until = deadline_in_ms(DEATH_MS);
    while (kill_uid_once(uid) > 0) {
        if (deadline_passed(until)) {
            return err_set(err, ERR_TIMEOUT, "processes of uid %u do not end", (unsigned)uid);
        }
        clock_sleep_ms(RESCAN_MS);
    }
    return 0;
}

int box_end_processes(const struct box_traces *t, struct err *err) {
    int r = kill_noted(t, err);
    bool own_uid =
        geteuid() == 0 && t->uid >= STATE_UID_FIRST && t->uid - STATE_UID_FIRST < STATE_UID_COUNT;
    return r < 0 || !own_uid ? r : kill_uid(t->uid, err);
}
