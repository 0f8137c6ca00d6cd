/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <pthread.h>
#include <seccomp.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "sandbox/local.h"

/*
 * What an agent never needs and a kernel has been broken by. The list refuses, so that new calls of
 * harmless kinds go on working; ptrace stays, debuggers are tools of the trade.
 */

/* By name: a libseccomp that is older than the call does not know its number. */
static const char *const refused[] = {
    /* Programs in the kernel, its counters, and memory faults served by user code. */
    "bpf", "perf_event_open", "userfaultfd", "lookup_dcookie",
    /* Rings: their work passes by every other filter. */
    "io_uring_setup", "io_uring_enter", "io_uring_register",
    /* Keys are not divided by namespace. */
    "add_key", "request_key", "keyctl",
    /* Another kernel, or more of this one. */
    "kexec_load", "kexec_file_load", "init_module", "finit_module", "delete_module",
    "create_module", "get_kernel_syms", "query_module",
    /* Mounts, old and new, and doors round them. */
    "mount", "umount", "umount2", "pivot_root", "chroot", "move_mount", "open_tree",
    "open_tree_attr", "fsopen", "fsconfig", "fsmount", "fspick", "mount_setattr",
    "open_by_handle_at", "setns", "fanotify_init", "nfsservctl", "quotactl", "quotactl_fd", "acct",
    "swapon", "swapoff",
    /* The machine itself. */
    "reboot", "syslog", "settimeofday", "clock_settime", "clock_settime64", "clock_adjtime",
    "clock_adjtime64", "adjtimex", "stime", "iopl", "ioperm", "vm86", "vm86old", "_sysctl",
    "uselib", "vhangup", "sethostname", "setdomainname"};

/* Sockets that are neither divided by network namespace (AF_VSOCK reaches the host of a virtual
 * machine, AF_ALG the kernel's ciphers) nor of use. */
static const int families[] = {AF_UNIX, AF_INET, AF_INET6, AF_NETLINK};
#define FAMILY_LAST AF_NETLINK

static int refuse_calls(scmp_filter_ctx ctx) {
    for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
        int number = seccomp_syscall_resolve_name(refused[i]);
        if (number == __NR_SCMP_ERROR) {
            continue;
        }
        int r = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), number, 0);
        if (r < 0 && r != -EDOM) { /* EDOM: no such call on this architecture. */
            return r;
        }
    }
    return 0;
}

static bool is_wanted(int family) {
    for (size_t i = 0; i < ARRAY_LEN(families); i++) {
        if (families[i] == family) {
            return true;
        }
    }
    return false;
}

static int refuse_families(scmp_filter_ctx ctx) {
    const uint32_t no = SCMP_ACT_ERRNO(EAFNOSUPPORT);
    int r = 0;
    for (int family = 0; r == 0 && family <= FAMILY_LAST; family++) {
        if (!is_wanted(family)) {
            r = seccomp_rule_add(ctx, no, SCMP_SYS(socket), 1,
                                 SCMP_A0(SCMP_CMP_MASKED_EQ, UINT32_MAX, (scmp_datum_t)family));
        }
    }
    return r < 0 ? r
                 : seccomp_rule_add(ctx, no, SCMP_SYS(socket), 1,
                                    SCMP_A0(SCMP_CMP_GT, (scmp_datum_t)FAMILY_LAST));
}

/* Typing into a terminal as its user would. */
static int refuse_terminal_input(scmp_filter_ctx ctx) {
    return seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(ioctl), 1,
                            SCMP_A1(SCMP_CMP_MASKED_EQ, UINT32_MAX, TIOCSTI));
}

/* Other calling conventions of the same machine (32-bit x86, x32) are refused whole: their socket
 * calls can't be told apart by a filter. */
static int export(int fd) {
    scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ALLOW);
    if (!ctx) {
        return -ENOMEM;
    }
    int r = seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ERRNO(EPERM));
    if (r == 0) {
        /* A tree: most calls pass after a few comparisons in place of ninety. */
        r = seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2);
    }
    if (r == 0) {
        r = refuse_calls(ctx);
    }
    if (r == 0) {
        r = refuse_families(ctx);
    }
    if (r == 0) {
        r = refuse_terminal_input(ctx);
    }
    if (r == 0) {
        r = seccomp_export_bpf(ctx, fd);
    }
    seccomp_release(ctx);
    return r;
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct buf program; /* Lives as long as the process. */

static int make_program(struct err *err) {
    AUTO_CLOSE int fd = -1;
    struct stat st;
    int r = local_memfd("seccomp", SV(""), &fd, err);
    if (r < 0) {
        return r;
    }
    r = export(fd);
    if (r < 0) {
        return err_sys(err, ERR_ENVIRONMENT, -r, "cannot make the system call filter");
    }
    if (fstat(fd, &st) < 0 || buf_reserve(&program, (size_t)st.st_size) < 0) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    if (pread(fd, program.data, (size_t)st.st_size, 0) != st.st_size) {
        return err_set(err, ERR_SYS, "cannot read the system call filter back");
    }
    program.len = (size_t)st.st_size;
    return 0;
}

int local_seccomp(int *out_fd, struct err *err) {
    pthread_mutex_lock(&lock);
    int r = program.len > 0 ? 0 : make_program(err);
    pthread_mutex_unlock(&lock);
    return r < 0 ? r : local_memfd("seccomp", buf_sv(&program), out_fd, err);
}
