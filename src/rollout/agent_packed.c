/* SPDX-License-Identifier: BSD-3-Clause */
#include "rollout/agent_packed.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>

#include "base/fd.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/rand.h"

#define PIECE (256u << 10)
#define LEVEL "wb6" /* A tenth smaller than 1, once and for all. */

static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;

static int pack_into(gzFile to, int from, const char *path, struct err *err) {
    AUTO_FREE char *piece = malloc(PIECE);
    if (!piece) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    ssize_t n;
    while ((n = read(from, piece, PIECE)) != 0) {
        if (n < 0 && errno != EINTR) {
            return err_sys(err, ERR_SYS, errno, "cannot read '%s'", path);
        }
        if (n > 0 && gzwrite(to, piece, (unsigned)n) != n) {
            return err_sys(err, ERR_SYS, errno, "cannot compress '%s'", path);
        }
    }
    return 0;
}

/* Into a file that nobody looks for. */
static int pack(const char *program, const char *part, struct err *err) {
    AUTO_CLOSE int from = open(program, O_RDONLY | O_CLOEXEC);
    if (from < 0) {
        return err_sys(err, ERR_SYS, errno, "cannot read '%s'", program);
    }
    AUTO_CLOSE int fd = open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    gzFile to = fd >= 0 ? gzdopen(fd, LEVEL) : NULL;
    if (!to) {
        return err_sys(err, ERR_SYS, errno, "cannot write '%s'", part);
    }
    (void)TAKE_FD(fd); /* Closed with it. */
    int r = pack_into(to, from, program, err);
    return gzclose(to) == Z_OK || r < 0 ? r
                                        : err_sys(err, ERR_SYS, errno, "cannot write '%s'", part);
}

static int make(const char *program, const char *path, struct err *err) {
    char word[17];
    rand_hex(word, 8);
    AUTO_FREE char *part = mem_printf("%s.%s.part", path, word);
    if (!part) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    int r = pack(program, part, err);
    if (r == 0 && rename(part, path) < 0) {
        r = err_sys(err, ERR_SYS, errno, "cannot write '%s'", path);
    }
    if (r < 0) {
        (void)unlink(part);
    }
    return r;
}

int agent_packed(const struct agent_installed *i, const char *sha256, char **out, struct err *err) {
    AUTO_FREE char *path = mem_printf("%s/%s.gz", i->folder, sha256);
    if (!path) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    pthread_mutex_lock(&making);
    int r = file_exists(path) ? 0 : make(i->program, path, err);
    pthread_mutex_unlock(&making);
    if (r == 0) {
        *out = TAKE(path);
    }
    return r;
}
