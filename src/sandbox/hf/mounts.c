/* SPDX-License-Identifier: BSD-3-Clause */
/* Nothing of this machine can be mounted on another: what is asked for is copied there. */
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "sandbox/hf/hf.h"

static int send_file(struct hf *s, const char *from, const char *to, const struct stat *st,
                     deadline_ms until, const struct cancel *cancel, struct err *err) {
    AUTO_CLOSE int fd = open(from, O_RDONLY | O_CLOEXEC);
    size_t n = (size_t)st->st_size;
    void *bytes = fd >= 0 && n > 0 ? mmap(NULL, n, PROT_READ, MAP_PRIVATE, fd, 0) : NULL;
    if (fd < 0 || bytes == MAP_FAILED) {
        return err_sys(err, ERR_SYS, errno, "cannot read '%s'", from);
    }
    int r = hf_server_write(&s->server, to, (struct sv){bytes, n}, st->st_mode & 0755, until,
                            cancel, err);
    if (bytes) {
        munmap(bytes, n);
    }
    return r;
}

/* Files, and links as what they lead to; folders come with their files. */
static int send_tree(struct hf *s, const struct sandbox_mount *m, deadline_ms until,
                     const struct cancel *cancel, struct err *err) {
    AUTO_FREE char *top = mem_strdup(m->host_path);
    char *const tops[] = {top, NULL};
    FTS *walk = top ? fts_open(tops, FTS_LOGICAL | FTS_NOCHDIR, NULL) : NULL;
    if (!walk) {
        return err_sys(err, ERR_SYS, errno, "cannot read '%s'", m->host_path);
    }
    int r = 0;
    FTSENT *e;
    while (r == 0 && (e = fts_read(walk))) {
        if (e->fts_info == FTS_F) {
            AUTO_FREE char *to = mem_printf("%s%s", m->path, e->fts_path + strlen(top));
            r = to ? send_file(s, e->fts_accpath, to, e->fts_statp, until, cancel, err)
                   : err_set(err, ERR_NOMEM, "out of memory");
        } else if (e->fts_info == FTS_ERR || e->fts_info == FTS_DNR || e->fts_info == FTS_NS) {
            r = err_sys(err, ERR_NOT_FOUND, e->fts_errno, "cannot send '%s'", e->fts_path);
        }
    }
    fts_close(walk);
    return r;
}

static bool is_wanted(const char *path, const struct sandbox_spec *spec) {
    for (size_t i = 0; i < spec->n_mounts; i++) {
        if (strcmp(spec->mounts[i].path, path) == 0) {
            return true;
        }
    }
    return false;
}

static int remove_unwanted(struct hf *s, const struct sandbox_spec *spec, deadline_ms until,
                           struct err *err) {
    size_t kept = 0;
    int r = 0;
    for (size_t i = 0; i < s->n_placed; i++) {
        if (r < 0 || is_wanted(s->placed[i], spec)) {
            s->placed[kept++] = s->placed[i];
            continue;
        }
        r = hf_server_delete(&s->server, s->placed[i], until, err);
        free(s->placed[i]);
    }
    s->n_placed = kept;
    return r;
}

static bool stands(const struct hf *s, const char *path) {
    for (size_t i = 0; i < s->n_placed; i++) {
        if (strcmp(s->placed[i], path) == 0) {
            return true;
        }
    }
    return false;
}

int hf_mounts_place(struct hf *s, const struct sandbox_spec *spec, deadline_ms until,
                    const struct cancel *cancel, struct err *err) {
    int r = remove_unwanted(s, spec, until, err);
    for (size_t i = 0; r == 0 && i < spec->n_mounts; i++) {
        const struct sandbox_mount *m = &spec->mounts[i];
        if (stands(s, m->path)) {
            continue;
        }
        char **grown = realloc(s->placed, (s->n_placed + 1) * sizeof *grown);
        char *path = mem_strdup(m->path);
        s->placed = grown ? grown : s->placed;
        if (!grown || !path) {
            free(path);
            return err_set(err, ERR_NOMEM, "out of memory");
        }
        s->placed[s->n_placed++] = path;
        r = send_tree(s, m, until, cancel, err);
    }
    return r;
}

void hf_mounts_forget(struct hf *s) {
    for (size_t i = 0; i < s->n_placed; i++) {
        free(s->placed[i]);
    }
    free(s->placed);
    s->placed = NULL;
    s->n_placed = 0;
}
