/* SPDX-License-Identifier: BSD-3-Clause */
#include "journal/segment_list.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/sv.h"
#include "journal/boot.h"

static char *segment_path(const char *boot_path, unsigned number) {
    return mem_printf("%s/%06u.log", boot_path, number);
}

int segment_list_init(struct segment_list *l, const char *dir, struct err *err) {
    struct stat st;
    if (stat(dir, &st) < 0) {
        return err_sys(err, errno == ENOENT ? ERR_NOT_FOUND : ERR_SYS, errno,
                       "cannot read the journal '%s'", dir);
    }
    if (!S_ISDIR(st.st_mode)) {
        return err_set(err, ERR_INPUT, "'%s' is not a journal's folder", dir);
    }
    l->dir = mem_strdup(dir);
    return l->dir ? 0 : err_set(err, ERR_NOMEM, "out of memory");
}

void segment_list_deinit(struct segment_list *l) {
    for (size_t i = 0; i < l->n; i++) {
        free(l->entries[i].boot_path);
        free(l->entries[i].path);
    }
    free(l->entries);
    free(l->dir);
    free(l->only_boot);
    *l = (struct segment_list){0};
}

static bool is_listed(const struct segment_list *l, const char *path) {
    for (size_t i = l->n; i > 0; i--) {
        if (strcmp(l->entries[i - 1].path, path) == 0) {
            return true;
        }
    }
    return false;
}

static int add(struct segment_list *l, const char *boot_path, unsigned number) {
    AUTO_FREE char *path = segment_path(boot_path, number);
    AUTO_FREE char *boot = mem_strdup(boot_path);
    if (!path || !boot) {
        return ERR_NOMEM;
    }
    if (is_listed(l, path)) {
        return 0;
    }
    if (l->n == l->cap) {
        size_t cap = l->cap ? 2 * l->cap : 16;
        void *grown = realloc(l->entries, cap * sizeof *l->entries);
        if (!grown) {
            return ERR_NOMEM;
        }
        l->entries = grown;
        l->cap = cap;
    }
    l->entries[l->n++] =
        (struct segment_entry){.boot_path = TAKE(boot), .path = TAKE(path), .number = number};
    return 0;
}

int segment_list_add(struct segment_list *l, const char *boot_path, unsigned number,
                     struct err *err) {
    return add(l, boot_path, number) < 0 ? err_set(err, ERR_NOMEM, "out of memory") : 0;
}

static int compare(const void *a, const void *b) {
    const struct segment_entry *x = a;
    const struct segment_entry *y = b;
    int order = strcmp(x->boot_path, y->boot_path);
    return order ? order : (x->number > y->number) - (x->number < y->number);
}

/* The number of "000012.log"; 0: no segment's name. */
static unsigned number_of(const char *name) {
    struct sv v = sv_from(name);
    unsigned long long number = 0;
    if (v.n < 10 || !sv_ends_with(v, SV(".log")) ||
        !sv_parse_u64((struct sv){v.p, v.n - 4}, 4000000000, &number)) {
        return 0;
    }
    return (unsigned)number;
}

static int add_boot(struct segment_list *l, const char *boot_path) {
    DIR *d = opendir(boot_path);
    if (!d) {
        return 0; /* No folder, or gone since. */
    }
    int r = 0;
    const struct dirent *entry;
    while (r == 0 && (entry = readdir(d))) {
        unsigned number = number_of(entry->d_name);
        r = number ? add(l, boot_path, number) : 0;
    }
    closedir(d);
    return r;
}

int segment_list_refresh(struct segment_list *l, struct err *err) {
    size_t before = l->n;
    DIR *d = opendir(l->dir);
    if (!d) {
        return err_sys(err, ERR_SYS, errno, "cannot read the journal '%s'", l->dir);
    }
    int r = 0;
    const struct dirent *entry;
    while (r == 0 && (entry = readdir(d))) {
        if (entry->d_name[0] == '.' || (l->only_boot && strcmp(entry->d_name, l->only_boot) != 0)) {
            continue;
        }
        AUTO_FREE char *boot_path = file_join(l->dir, entry->d_name);
        r = boot_path ? add_boot(l, boot_path) : ERR_NOMEM;
    }
    closedir(d);
    if (l->n > before) {
        qsort(l->entries + before, l->n - before, sizeof *l->entries, compare);
    }
    return r < 0 ? err_set(err, r, "out of memory") : 0;
}

bool segment_is_final(const struct segment_entry *e) {
    AUTO_FREE char *next = segment_path(e->boot_path, e->number + 1);
    return (next && file_exists(next)) || !boot_alive(e->boot_path);
}
