/* SPDX-License-Identifier: BSD-3-Clause */
#include "sandbox/spawn_child.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/close_range.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FIRST_FD 3

/* While descriptors are sorted they stand above those they go to. */
#define PARKED_FD (FIRST_FD + SPAWN_FDS_MAX + 1)

/* When memory runs out, sandboxes go before the harness and its host (0 is everybody's, 1000 is
 * "first"). */
#define OOM_SCORE "500"

const char *const spawn_step_names[] = {"sort descriptors",    "mount the home's disk image",
                                        "become another user", "give up privileges",
                                        "follow its parent",   "be run"};

static void fail(int report_fd, enum spawn_step step) {
    struct spawn_failure f = {.sys = errno, .step = step};
    ssize_t n = write(report_fd, &f, sizeof f);
    _exit(n == sizeof f ? 127 : 126);
}

/* Ignored signals and the mask go through execve; handlers do not. */
static void reset_signals(void) {
    struct sigaction standard = {.sa_handler = SIG_DFL};
    for (int sig = 1; sig < NSIG; sig++) {
        sigaction(sig, &standard, NULL); /* Fails for SIGKILL and SIGSTOP only. */
    }
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

static int park(int fd) {
    return fcntl(fd, F_DUPFD_CLOEXEC, PARKED_FD);
}

/* Gives the report's new place, or -1. */
static int sort_fds(const struct spawn *what, int report_fd) {
    int parked[SPAWN_FDS_MAX];
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    int err = park(what->stderr_fd);
    int report = park(report_fd);
    for (size_t i = 0; i < what->n_fds; i++) {
        parked[i] = park(what->fds[i]);
        if (parked[i] < 0) {
            return -1;
        }
    }
    if (null < 0 || err < 0 || report < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 ||
        dup2(err, 2) < 0) {
        return -1;
    }
    for (size_t i = 0; i < what->n_fds; i++) {
        if (dup2(parked[i], FIRST_FD + (int)i) < 0) {
            return -1;
        }
    }
    int last = FIRST_FD + (int)what->n_fds;
    if (dup3(report, last, O_CLOEXEC) < 0) {
        return -1;
    }
    /* Not closed before the program runs under its own name: the lock among them says that somebody
     * is there, and only the name tells a sweep who. */
    unsigned rest = (unsigned)last + 1;
    return syscall(SYS_close_range, rest, ~0u, CLOSE_RANGE_CLOEXEC) == 0 ? last : -1;
}

/* The raw calls: the C library's own would tell the other threads, which are not in this process.
 */
static int become(uid_t uid) {
    return syscall(SYS_setgroups, 0, NULL) == 0 && syscall(SYS_setresgid, uid, uid, uid) == 0 &&
                   syscall(SYS_setresuid, uid, uid, uid) == 0
               ? 0
               : -1;
}

/* While still root: what the bounding set lacks, no program can ever get back. */
static int drop_bounding_set(void) {
    for (unsigned long cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++) {
        if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0) {
            return -1;
        }
    }
    return 0;
}

static int drop_capabilities(void) {
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {{0}};
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0) {
        return -1;
    }
    return (int)syscall(SYS_capset, &head, none);
}

/* A failure leaves the score as it was, which harms nothing. */
static void raise_oom_score(void) {
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd >= 0) {
        ssize_t n = write(fd, OOM_SCORE, sizeof OOM_SCORE - 1);
        (void)n;
        close(fd);
    }
}

/* After the change of user, which clears it. A parent that died before the call sent no signal. */
static int follow(pid_t parent) {
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0) {
        return -1;
    }
    if (getppid() != parent) {
        errno = ESRCH;
        return -1;
    }
    return 0;
}

/* Nothing of it reaches the host's mount namespace, and the kernel unmounts it when the last
 * process of this one has ended. What the host unmounts goes here too. */
static int mount_disk(const struct spawn *what) {
    /* Nothing outlives a crash of the machine, so nobody waits for the disk below. */
    static const char options[] = "barrier=0,noinit_itable,errors=remount-ro";
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) < 0 ||
        mount(what->disk, what->disk_at, "ext4", MS_NOSUID | MS_NODEV | MS_NOATIME, options) < 0) {
        return -1;
    }
    if (!what->disk_is_new) {
        return 0;
    }
    return chdir(what->disk_at) == 0 && rmdir("lost+found") == 0 &&
                   chown(".", what->uid, what->uid) == 0 && chmod(".", 0700) == 0
               ? 0
               : -1;
}

static void drop(const struct spawn *what, int report) {
    if (drop_bounding_set() < 0) {
        fail(report, SPAWN_STEP_PRIVILEGES);
    }
    if (become(what->uid) < 0) {
        fail(report, SPAWN_STEP_USER);
    }
    if (drop_capabilities() < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) {
        fail(report, SPAWN_STEP_PRIVILEGES);
    }
}

void spawn_child_run(const struct spawn *what, pid_t parent, int report_fd) {
    static char *const no_environment[] = {NULL};
    struct rlimit no_core = {0, 0};
    reset_signals();
    setsid(); /* Away from the terminal: its Ctrl-C is for us. It fails for a leader only. */
    int report = sort_fds(what, report_fd);
    if (report < 0) {
        fail(report_fd, SPAWN_STEP_FDS);
    }
    raise_oom_score();
    setrlimit(RLIMIT_CORE, &no_core); /* Lowering a limit is always allowed. */
    if (what->drop && what->disk && mount_disk(what) < 0) {
        fail(report, SPAWN_STEP_MOUNT);
    }
    if (what->drop) {
        drop(what, report);
    }
    umask(022);
    if (chdir("/") < 0 || (!what->follows_by_itself && follow(parent) < 0)) {
        fail(report, SPAWN_STEP_PARENT);
    }
    execve(what->program, (char *const *)(uintptr_t)what->argv, no_environment);
    fail(report, SPAWN_STEP_EXEC);
    _exit(126);
}
