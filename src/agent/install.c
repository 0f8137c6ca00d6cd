/* SPDX-License-Identifier: BSD-3-Clause */
#include "agent/install.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/installed.h"
#include "agent/npm.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/rand.h"

#define PART_PREFIX ".part-" /* A folder in the making. */
#define LOCK_POLL_MS 100     /* Another installer takes seconds to minutes. */
#define LATEST_NAME "latest" /* A file with the version that this meant when last resolved. */
#define LATEST_MAX 256

/* The package whose one program fits this machine. */
static const char *package_name(void) {
#if defined(__x86_64__)
    bool musl =
        file_exists("/lib/ld-musl-x86_64.so.1") && !file_exists("/lib64/ld-linux-x86-64.so.2");
    if (!__builtin_cpu_supports("avx2")) {
        return musl ? "opencode-linux-x64-baseline-musl" : "opencode-linux-x64-baseline";
    }
    return musl ? "opencode-linux-x64-musl" : "opencode-linux-x64";
#elif defined(__aarch64__)
    bool musl =
        file_exists("/lib/ld-musl-aarch64.so.1") && !file_exists("/lib/ld-linux-aarch64.so.1");
    return musl ? "opencode-linux-arm64-musl" : "opencode-linux-arm64";
#else
    return NULL;
#endif
}

/* Folders that another user's process must pass through, whatever our umask is. */
static int make_folder(const char *path, unsigned mode, struct err *err) {
    int r = file_mkdirs(path, 0711, err);
    if (r == 0 && chmod(path, mode) < 0) {
        r = err_sys(err, ERR_SYS, errno, "cannot set the mode of '%s'", path);
    }
    return r;
}

static int lock_cache(const struct agent_install *what, const char *root, int *out_fd,
                      struct err *err) {
    AUTO_FREE char *path = file_join(root, ".lock");
    AUTO_CLOSE int fd = path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (fd < 0) {
        return err_sys(err, ERR_SYS, errno, "cannot open '%s/.lock'", root);
    }
    while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        if (errno != EWOULDBLOCK && errno != EINTR) {
            return err_sys(err, ERR_SYS, errno, "cannot lock '%s/.lock'", root);
        }
        if (what->deadline && deadline_passed(what->deadline)) {
            return err_set(err, ERR_TIMEOUT, "another installation of %s did not end in time",
                           what->agent->name);
        }
        int r = cancel_sleep(what->cancel, deadline_in_ms(LOCK_POLL_MS), err);
        if (r < 0) {
            return r;
        }
    }
    *out_fd = TAKE_FD(fd);
    return 0;
}

/* Under the lock nobody else is at work, so these are of installers that died. */
static int remove_parts(const char *root, struct err *err) {
    DIR *dir = opendir(root);
    if (!dir) {
        return err_sys(err, ERR_SYS, errno, "cannot read '%s'", root);
    }
    int r = 0;
    const struct dirent *entry;
    while (r == 0 && (entry = readdir(dir))) {
        if (strncmp(entry->d_name, PART_PREFIX, strlen(PART_PREFIX)) == 0) {
            AUTO_FREE char *path = file_join(root, entry->d_name);
            r = path ? file_remove_tree(path, err) : err_set(err, ERR_NOMEM, "out of memory");
        }
    }
    closedir(dir);
    return r;
}

static int move(const char *from, const char *to, struct err *err) {
    return rename(from, to) == 0
               ? 0
               : err_sys(err, ERR_SYS, errno, "cannot rename '%s' to '%s'", from, to);
}

/* Makes <part>/ready with the program and its note. */
static int prepare(const struct agent_install *what, const char *package, const char *version,
                   const char *part, const char *ready, struct err *err) {
    const char *name = what->agent->name;
    AUTO_FREE char *fetched = mem_printf("%s/node_modules/%s/bin/%s", part, package, name);
    AUTO_FREE char *program = file_join(ready, name);
    AUTO_BUF struct buf digest = {0};
    if (!fetched || !program) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    int r = npm_install(what, package, version, part, err);
    if (r == 0 && !file_exists(fetched)) {
        r = err_set(err, ERR_ENVIRONMENT,
                    "%s: package '%s@%s' holds no bin/%s (try another "
                    "version)",
                    name, package, version, name);
    }
    r = r < 0 ? r : make_folder(ready, 0755, err);
    r = r < 0 ? r : move(fetched, program, err);
    if (r == 0 && chmod(program, 0755) < 0) {
        r = err_sys(err, ERR_SYS, errno, "cannot set the mode of '%s'", program);
    }
    r = r < 0 ? r : installed_digest(program, &digest, err);
    struct agent_installed note = {.version = (char *)version, .sha256 = digest.data};
    return r < 0 ? r : installed_write_note(ready, &note, package, err);
}

/* Fetches into a folder beside and moves it to its place. */
static int fetch(const struct agent_install *what, const char *package, const char *version,
                 const char *root, const char *folder, struct err *err) {
    char hex[17];
    rand_hex(hex, 8);
    AUTO_FREE char *part = mem_printf("%s/" PART_PREFIX "%s", root, hex);
    AUTO_FREE char *ready = mem_printf("%s/" PART_PREFIX "%s/ready", root, hex);
    AUTO_FREE char *old = mem_printf("%s/" PART_PREFIX "%s/old", root, hex);
    if (!part || !ready || !old) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    int r = make_folder(part, 0700, err);
    r = r < 0 ? r : prepare(what, package, version, part, ready, err);
    if (r == 0 && file_exists(folder)) {
        r = move(folder, old, err);
    }
    r = r < 0 ? r : move(ready, folder, err);
    struct err left = {0};
    if (file_remove_tree(part, &left) < 0) {
        log_warning("%s (the next installation tries again)", left.msg);
    }
    return r;
}

/* What "latest" means now; noted, so that it can be found again without network. */
static int resolve_latest(const struct agent_install *what, const char *package, const char *root,
                          char **out, struct err *err) {
    AUTO_BUF struct buf version = {0};
    AUTO_FREE char *note = file_join(root, LATEST_NAME);
    int r = npm_latest(what, package, &version, err);
    r = r < 0 ? r : installed_check_version(buf_cstr(&version), err);
    r = r < 0 ? r : file_write(note, buf_sv(&version), 0644, err);
    if (r == 0) {
        *out = buf_take(&version);
        r = *out ? 0 : err_set(err, ERR_NOMEM, "out of memory");
    }
    return r;
}

static int install_locked(const struct agent_install *what, const char *package,
                          const char *version, const char *root, struct agent_installed *out,
                          struct err *err) {
    AUTO_FREE char *latest = NULL;
    if (strcmp(version, LATEST_NAME) == 0) {
        int r = resolve_latest(what, package, root, &latest, err);
        if (r < 0) {
            return r;
        }
        version = latest;
    }
    AUTO_FREE char *folder = file_join(root, version);
    if (!folder) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    struct err absent = {0};
    if (!what->again && installed_read(folder, what->agent->name, version, out, &absent) == 0) {
        return 0;
    }
    int r = fetch(what, package, version, root, folder, err);
    return r < 0 ? r : installed_read(folder, what->agent->name, version, out, err);
}

int agent_install(const struct agent_install *what, struct agent_installed *out, struct err *err) {
    const char *version = what->version ? what->version : what->agent->default_version;
    const char *package = package_name();
    if (!package) {
        return err_set(err, ERR_ENVIRONMENT, "%s has no program for this processor",
                       what->agent->name);
    }
    int r = strcmp(version, LATEST_NAME) == 0 ? 0 : installed_check_version(version, err);
    if (r < 0) {
        return err_wrap(err, "%s", what->agent->name);
    }
    AUTO_FREE char *root = file_join(what->cache_dir, what->agent->name);
    AUTO_CLOSE int lock = -1;
    if (!root) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    r = make_folder(what->cache_dir, 0711, err);
    r = r < 0 ? r : make_folder(root, 0711, err);
    r = r < 0 ? r : lock_cache(what, root, &lock, err);
    r = r < 0 ? r : remove_parts(root, err);
    return r < 0 ? r : install_locked(what, package, version, root, out, err);
}

static int not_installed(const struct agent *agent, const char *version, const char *root,
                         struct err *err) {
    return err_set(err, ERR_ENVIRONMENT,
                   "%s %s is not installed (run 'snaffle agent install %s --version %s', or put "
                   "the program at '%s/%s/%s')",
                   agent->name, version, agent->name, version, root,
                   strcmp(version, LATEST_NAME) == 0 ? "VERSION" : version, agent->name);
}

int agent_find_installed(const char *cache_dir, const struct agent *agent, const char *version,
                         struct agent_installed *out, struct err *err) {
    AUTO_BUF struct buf latest = {0};
    AUTO_FREE char *root = file_join(cache_dir, agent->name);
    AUTO_FREE char *note = root ? file_join(root, LATEST_NAME) : NULL;
    const char *exact = version ? version : agent->default_version;
    struct err absent = {0};
    if (!note) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    if (strcmp(exact, LATEST_NAME) == 0) {
        if (file_read(note, LATEST_MAX, &latest, &absent) < 0) {
            return not_installed(agent, LATEST_NAME, root, err);
        }
        exact = buf_cstr(&latest);
    }
    int r = installed_check_version(exact, err);
    if (r < 0) {
        return err_wrap(err, "%s", agent->name);
    }
    AUTO_FREE char *folder = file_join(root, exact);
    if (!folder) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    r = installed_read(folder, agent->name, exact, out, &absent);
    if (r == ERR_NOT_FOUND) {
        return not_installed(agent, exact, root, err);
    }
    return r < 0 ? err_set(err, r, "%s", absent.msg) : 0;
}
