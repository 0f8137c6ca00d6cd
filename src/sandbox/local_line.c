/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "sandbox/local.h"

/*
 * bwrap's command line. It goes through a descriptor (--args), so that neither the host's process
 * list nor /proc inside shows it; the environment is empty, since /proc/1/environ would show it.
 */

#define FIRST_FD 3 /* Where the child's descriptors begin (spawner.h). */

/* Of the memory limit: what is in a tmpfs counts as memory and outlives the process that wrote it.
 */
#define TMP_SHARE 4
#define SHM_SHARE 16

/* RLIMIT_NPROC above a control group's limit, behind which it stands. */
#define NPROC_ROOM 64

int local_memfd(const char *name, struct sv bytes, int *out_fd, struct err *err) {
    AUTO_CLOSE int fd = memfd_create(name, MFD_CLOEXEC);
    if (fd < 0) {
        return err_sys(err, ERR_SYS, errno, "cannot make a memory file");
    }
    if (bytes.n > 0 && pwrite(fd, bytes.p, bytes.n, 0) != (ssize_t)bytes.n) {
        return err_sys(err, ERR_SYS, errno, "cannot fill a memory file");
    }
    *out_fd = TAKE_FD(fd);
    return 0;
}

/* Adds the NULL-ended words. */
static int add(struct buf *to, const char *const *words) {
    int r = 0;
    for (; r == 0 && *words; words++) {
        r = buf_add(to, *words, strlen(*words) + 1);
    }
    return r;
}

int local_line_add(struct local_line *line, const char *const *words) {
    return add(&line->args, words);
}

#define ADD(line, ...) add(&(line)->args, (const char *const[]){__VA_ARGS__, NULL})
#define ADD_COMMAND(line, ...) add(&(line)->command, (const char *const[]){__VA_ARGS__, NULL})

/* Gives the number that the descriptor, taken, has in the child. */
static int pass(struct local_line *line, int fd) {
    BUG_IF(line->n_fds >= LOCAL_LINE_FDS);
    line->fds[line->n_fds] = fd;
    return FIRST_FD + (int)line->n_fds++;
}

struct number {
    char text[24];
};

static struct number number(long long n) {
    struct number out;
    snprintf(out.text, sizeof out.text, "%lld", n);
    return out;
}

static int add_identity(struct local_line *line) {
    struct number id = number(LOCAL_UID_INSIDE);
    return ADD(line, "--unshare-all", "--unshare-user", "--disable-userns", "--uid", id.text,
               "--gid", id.text, "--hostname", "sandbox", "--die-with-parent", "--new-session",
               "--as-pid-1");
}

/* What the image's configuration says, over our own defaults; who the user is stays ours. */
static int add_image_environment(struct local_line *line, const json_t *env) {
    static const char *const ours[] = {"HOME=", "USER=", "LOGNAME=", "SHELL="};
    int r = 0;
    size_t i;
    json_t *text;
    json_array_foreach(env, i, text) {
        struct sv v = sv_from(json_string_value(text));
        bool taken = false;
        for (size_t k = 0; k < ARRAY_LEN(ours); k++) {
            taken = taken || sv_starts_with(v, sv_from(ours[k]));
        }
        size_t n = sv_find(v, SV("="));
        AUTO_FREE char *name = mem_strndup(v.p, n);
        r = r < 0 || taken ? r : name ? ADD(line, "--setenv", name, v.p + n + 1) : ERR_NOMEM;
    }
    return r;
}

static int add_environment(struct local_line *line, const char *home) {
    return ADD(line, "--clearenv", "--setenv", "PATH",
               "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "--setenv", "HOME",
               home, "--setenv", "USER", "user", "--setenv", "LOGNAME", "user", "--setenv", "SHELL",
               "/bin/bash", "--setenv", "LANG", "C.UTF-8");
}

/* The host's /usr, and the top-level names that lead into it: links on a merged system, folders on
 * an older one. */
static int add_system(struct local_line *line) {
    static const char *const names[] = {"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"};
    int r = ADD(line, "--ro-bind", "/usr", "/usr");
    for (size_t i = 0; r == 0 && i < ARRAY_LEN(names); i++) {
        char target[256];
        ssize_t n = readlink(names[i], target, sizeof target - 1);
        if (n > 0) {
            target[n] = '\0';
            r = ADD(line, "--symlink", target, names[i]);
        } else if (errno == EINVAL) {
            r = ADD(line, "--ro-bind", names[i], names[i]);
        }
    }
    return r;
}

static int add_text(struct local_line *line, const char *path, struct sv text, struct err *err) {
    int fd = -1;
    int r = local_memfd(path, text, &fd, err);
    if (r < 0) {
        return r;
    }
    return ADD(line, "--perms", "0644", "--file", number(pass(line, fd)).text, path);
}

static int add_passwd(struct local_line *line, const char *home, struct err *err) {
    AUTO_BUF struct buf text = {0};
    int r = buf_addf(&text,
                     "root:x:0:0:root:/root:/usr/sbin/nologin\n"
                     "user:x:%d:%d::%s:/bin/bash\n"
                     "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
                     LOCAL_UID_INSIDE, LOCAL_UID_INSIDE, home);
    return r < 0 ? r : add_text(line, "/etc/passwd", buf_sv(&text), err);
}

/* Names come from files alone: a look-up that can't succeed must fail at once, and `localhost` must
 * not. */
static int add_names(struct local_line *line, enum sandbox_network network, struct err *err) {
    bool full = network == SANDBOX_NETWORK_FULL;
    int r = add_text(line, "/etc/nsswitch.conf",
                     full ? SV("passwd: files\ngroup: files\nhosts: files dns\n")
                          : SV("passwd: files\ngroup: files\nhosts: files\n"),
                     err);
    if (r == 0) {
        r = add_text(line, "/etc/hosts", SV("127.0.0.1 localhost sandbox\n::1 localhost\n"), err);
    }
    if (r == 0 && full) {
        r = add_text(line, "/etc/resolv.conf", SV("nameserver " LOCAL_NET_RESOLVER "\n"), err);
    }
    return r;
}

/* What compilers, interpreters and TLS libraries read, and nothing of the machine's own setup. */
static int add_host_etc(struct local_line *line) {
    static const char *const paths[] = {
        "/etc/alternatives",    "/etc/ld.so.cache",     "/etc/ld.so.conf", "/etc/ld.so.conf.d",
        "/etc/ssl/certs",       "/etc/ssl/openssl.cnf", "/etc/pki/tls",    "/etc/pki/ca-trust",
        "/etc/ca-certificates", "/etc/protocols",       "/etc/services",   "/etc/mime.types"};
    int r = 0;
    for (size_t i = 0; r == 0 && i < ARRAY_LEN(paths); i++) {
        if (file_exists(paths[i])) {
            r = ADD(line, "--ro-bind-try", paths[i], paths[i]);
        }
    }
    return r < 0 ? r : ADD(line, "--symlink", "../usr/lib/os-release", "/etc/os-release");
}

static int add_etc(const struct local *l, const struct sandbox_spec *spec, struct local_line *line,
                   struct err *err) {
    int r = ADD(line, "--dir", "/etc", "--symlink", "/proc/self/mounts", "/etc/mtab");
    if (r == 0) {
        r = add_passwd(line, l->home, err);
    }
    if (r == 0) {
        r = add_text(line, "/etc/group", SV("root:x:0:\nuser:x:1000:\nnogroup:x:65534:\n"), err);
    }
    if (r == 0) {
        r = add_names(line, spec->network, err);
    }
    return r < 0 || l->image.dir ? r : add_host_etc(line);
}

static int add_scratch(struct local_line *line, const struct sandbox_spec *spec) {
    long long bytes = (long long)local_limits(&spec->limits).memory_mb << 20;
    return ADD(line, "--proc", "/proc", "--dev", "/dev", "--perms", "1777", "--size",
               number(bytes / SHM_SHARE).text, "--tmpfs", "/dev/shm", "--perms", "1777", "--size",
               number(bytes / TMP_SHARE).text, "--tmpfs", "/tmp", "--dir", "/var", "--symlink",
               "/tmp", "/var/tmp", "--dir", "/run");
}

static int add_mounts(const struct local *l, const struct sandbox_spec *spec,
                      struct local_line *line) {
    int r = ADD(line, "--ro-bind", l->guest_program, LOCAL_GUEST);
    if (r == 0 && spec->network != SANDBOX_NETWORK_NONE) {
        r = ADD(line, "--ro-bind", l->box.model, LOCAL_MODEL_DIR);
    }
    for (size_t i = 0; r == 0 && i < spec->n_mounts; i++) {
        r = ADD(line, "--ro-bind", spec->mounts[i].host_path, spec->mounts[i].path);
    }
    return r < 0 ? r : ADD(line, "--bind", l->box.home, l->home);
}

/* After every mount: nothing can be added to the root and to /dev, which are memory without a
 * bound. */
static int add_locks(struct local_line *line, const char *home, const struct local_ends *ends,
                     struct err *err) {
    int seccomp = -1;
    int r = local_seccomp(&seccomp, err);
    if (r < 0) {
        return r;
    }
    r = ADD(line, "--remount-ro", "/dev", "--remount-ro", "/", "--chdir", home, "--seccomp",
            number(pass(line, seccomp)).text);
    if (r == 0) {
        r = ADD(line, "--info-fd", number(ends->info).text, "--block-fd", number(ends->block).text);
    }
    return r;
}

/* What nothing holds, the guest watches. */
static int add_watch(const struct sandbox_limits *limits, unsigned holds, struct local_line *line) {
    int r = holds & LOCAL_HOLDS_MEMORY
                ? 0
                : ADD_COMMAND(line, "--watch-memory-mb", number(limits->memory_mb).text);
    if (r == 0 && !(holds & LOCAL_HOLDS_PROCESSES)) {
        r = ADD_COMMAND(line, "--watch-processes", number(limits->processes).text);
    }
    if (r == 0) {
        r = holds & LOCAL_HOLDS_DISK
                ? ADD_COMMAND(line, "--home-has-bound")
                : ADD_COMMAND(line, "--watch-disk-mb", number(limits->disk_mb).text);
    }
    return r;
}

static int add_guest(const struct local *l, const struct sandbox_spec *spec,
                     const struct local_ends *ends, struct local_line *line) {
    struct sandbox_limits limits = local_limits(&spec->limits);
    unsigned holds = atomic_load(&l->holds);
    /* The control group's limit comes first: the kernel counts only how often that one was hit. */
    long processes = limits.processes + (holds & LOCAL_HOLDS_PROCESSES ? NPROC_ROOM : 0);
    int r =
        ADD_COMMAND(line, LOCAL_GUEST, "serve", "--listen-fd", number(ends->listen).text,
                    "--ready-fd", number(ends->ready).text, "--processes", number(processes).text);
    if (r == 0 && spec->network != SANDBOX_NETWORK_NONE) {
        r = ADD_COMMAND(line, "--model-socket", LOCAL_MODEL_DIR "/" LOCAL_MODEL_SOCKET);
    }
    return r < 0 ? r : add_watch(&limits, holds, line);
}

int local_line_build(const struct local *l, const struct sandbox_spec *spec,
                     const struct local_ends *ends, struct local_line *out, struct err *err) {
    struct local_line line = {.args = {.limit = 1 << 20}}; /* As much as an argument list may be. */
    snprintf(line.name, sizeof line.name, BOX_PROCESS_NAME "%s", l->box.id);
    struct local_ends inside = {
        .listen = pass(&line, ends->listen),
        .ready = pass(&line, ends->ready),
        .info = pass(&line, ends->info),
        .block = pass(&line, ends->block),
        .heard = pass(&line, ends->heard),
    };
    line.n_borrowed = line.n_fds;
    int r = add_identity(&line);
    if (r == 0) {
        r = add_environment(&line, l->home);
    }
    if (r == 0) {
        r = add_image_environment(&line, l->image.env);
    }
    if (r == 0) {
        r = l->image.dir ? local_root_add(l, spec, &line, err) : add_system(&line);
    }
    if (r == 0) {
        r = add_etc(l, spec, &line, err);
    }
    if (r == 0) {
        r = add_scratch(&line, spec);
    }
    if (r == 0) {
        r = add_mounts(l, spec, &line);
    }
    if (r == 0) {
        r = add_locks(&line, l->home, &inside, err);
    }
    if (r == 0) {
        r = add_guest(l, spec, &inside, &line);
    }
    if (r < 0) {
        local_line_deinit(&line);
        return err && err->code == r ? r : err_set(err, r, "cannot write bwrap's command line");
    }
    *out = line;
    return 0;
}

void local_line_argv(struct local_line *line, char text[16]) {
    size_t n = 0;
    snprintf(text, 16, "%d", FIRST_FD + (int)line->n_fds);
    line->argv[n++] = line->name;
    line->argv[n++] = "--args";
    line->argv[n++] = text;
    line->argv[n++] = "--";
    for (size_t at = 0; at < line->command.len; at += strlen(line->command.data + at) + 1) {
        BUG_IF(n + 1 >= ARRAY_LEN(line->argv));
        line->argv[n++] = line->command.data + at;
    }
    line->argv[n] = NULL;
}

void local_line_deinit(struct local_line *line) {
    for (size_t i = line->n_borrowed; i < line->n_fds; i++) {
        mem_auto_close(&line->fds[i]);
    }
    buf_deinit(&line->args);
    buf_deinit(&line->command);
    *line = (struct local_line){0};
}
