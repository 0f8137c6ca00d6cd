/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/mem.h"

int fd_set_nonblocking(int fd, struct err *err) {
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0) {
        return err_sys(err, ERR_SYS, errno, "cannot make a descriptor non-blocking");
    }
    return 0;
}

static ssize_t send_or_write(int fd, const void *bytes, size_t n) {
    ssize_t sent = send(fd, bytes, n, MSG_NOSIGNAL);
    return sent < 0 && errno == ENOTSOCK ? write(fd, bytes, n) : sent;
}

int fd_write_all(int fd, const void *bytes, size_t n, deadline_ms until,
                 const struct cancel *cancel, struct err *err) {
    const char *p = bytes;
    while (n > 0) {
        int r = cancel_poll(cancel, fd, POLLOUT, until, err);
        if (r < 0) {
            return r;
        }
        ssize_t sent = send_or_write(fd, p, n);
        if (sent >= 0) {
            p += sent;
            n -= (size_t)sent;
        } else if (errno == EPIPE || errno == ECONNRESET) {
            return err_sys(err, ERR_CLOSED, errno, "cannot write");
        } else if (errno != EAGAIN && errno != EINTR) {
            return err_sys(err, errno == ENOSPC ? ERR_FULL : ERR_SYS, errno, "cannot write");
        }
    }
    return 0;
}

ssize_t fd_read_some(int fd, void *bytes, size_t n, deadline_ms until, const struct cancel *cancel,
                     struct err *err) {
    for (;;) {
        int r = cancel_poll(cancel, fd, POLLIN, until, err);
        if (r < 0) {
            return r;
        }
        ssize_t got = read(fd, bytes, n);
        if (got >= 0) {
            return got;
        }
        if (errno == ECONNRESET) {
            return err_sys(err, ERR_CLOSED, errno, "cannot read");
        }
        if (errno != EAGAIN && errno != EINTR) {
            return err_sys(err, ERR_SYS, errno, "cannot read");
        }
    }
}

int fd_read_exact(int fd, void *bytes, size_t n, deadline_ms until, const struct cancel *cancel,
                  struct err *err) {
    char *p = bytes;
    while (n > 0) {
        ssize_t got = fd_read_some(fd, p, n, until, cancel, err);
        if (got < 0) {
            return (int)got;
        }
        if (got == 0) {
            return err_set(err, ERR_CLOSED, "the peer closed the connection");
        }
        p += got;
        n -= (size_t)got;
    }
    return 0;
}

/* Fills `addr` for `path`; *dir_fd is kept open by the caller while the address is in use. */
static int unix_address(const char *path, struct sockaddr_un *addr, int *dir_fd, struct err *err) {
    *addr = (struct sockaddr_un){.sun_family = AF_UNIX};
    size_t n = strlen(path);
    if (n < sizeof addr->sun_path) {
        memcpy(addr->sun_path, path, n + 1);
        return 0;
    }
    const char *slash = strrchr(path, '/');
    AUTO_FREE char *dir = slash ? mem_strndup(path, (size_t)(slash - path)) : NULL;
    if (!dir) {
        return err_set(err, ERR_LIMIT, "socket path too long: '%s'", path);
    }
    *dir_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (*dir_fd < 0) {
        return err_sys(err, ERR_SYS, errno, "cannot open '%s'", dir);
    }
    int len = snprintf(addr->sun_path, sizeof addr->sun_path, "/proc/self/fd/%d%s", *dir_fd, slash);
    if (len < 0 || (size_t)len >= sizeof addr->sun_path) {
        return err_set(err, ERR_LIMIT, "socket name too long: '%s'", path);
    }
    return 0;
}

/* A socket, and the address of `path`; `dir_fd` as above. */
static int unix_socket(const char *path, struct sockaddr_un *addr, int *dir_fd, int *out_fd,
                       struct err *err) {
    int r = unix_address(path, addr, dir_fd, err);
    if (r < 0) {
        return r;
    }
    *out_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return *out_fd < 0 ? err_sys(err, ERR_SYS, errno, "cannot make a socket") : 0;
}

int fd_listen_unix(const char *path, int backlog, unsigned mode, int *out_fd, struct err *err) {
    struct sockaddr_un addr;
    AUTO_CLOSE int dir_fd = -1;
    AUTO_CLOSE int fd = -1;
    int r = unix_socket(path, &addr, &dir_fd, &fd, err);
    if (r < 0) {
        return r;
    }
    if (unlink(path) < 0 && errno != ENOENT) {
        return err_sys(err, ERR_SYS, errno, "cannot remove the old socket '%s'", path);
    }
    if (bind(fd, (struct sockaddr *)&addr, sizeof addr) < 0 || chmod(path, mode) < 0 ||
        listen(fd, backlog) < 0) {
        return err_sys(err, ERR_SYS, errno, "cannot listen at '%s'", path);
    }
    *out_fd = TAKE_FD(fd);
    return 0;
}

int fd_connect_unix(const char *path, int *out_fd, struct err *err) {
    struct sockaddr_un addr;
    AUTO_CLOSE int dir_fd = -1;
    AUTO_CLOSE int fd = -1;
    int r = unix_socket(path, &addr, &dir_fd, &fd, err);
    if (r < 0) {
        return r;
    }
    if (connect(fd, (struct sockaddr *)&addr, sizeof addr) < 0) {
        return err_sys(err, ERR_CONNECT, errno, "cannot connect to '%s'", path);
    }
    *out_fd = TAKE_FD(fd);
    return 0;
}

unsigned long fd_raise_limit(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0) {
        return 0;
    }
    struct rlimit raised = {.rlim_cur = limit.rlim_max, .rlim_max = limit.rlim_max};
    return setrlimit(RLIMIT_NOFILE, &raised) < 0 ? limit.rlim_cur : raised.rlim_cur;
}

void fd_close_from(int first) {
    if (syscall(SYS_close_range, (unsigned)first, ~0U, 0U) == 0) {
        return;
    }
    long top = sysconf(_SC_OPEN_MAX); /* A kernel before 5.9. */
    for (int fd = first; fd < top; fd++) {
        close(fd);
    }
}
