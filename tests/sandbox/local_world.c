/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/sandbox/local_world.h"

#include <dirent.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"

#define ORDINARY_UID 12345 /* Nobody's: no entry in passwd is needed. */
#define GUEST_MAX (64u << 20)

static char state[] = "/tmp/snaffle-state-XXXXXX";

static void require(bool holds, const char *what) {
    if (!holds) {
        printf("Bail out! cannot %s\n", what);
        exit(1);
    }
}

/* The build may stand where the ordinary user can't read: the guest comes along. */
static void take_guest_along(void) {
    struct err err = {0};
    AUTO_BUF struct buf guest = {0};
    const char *from = getenv("SNAFFLE_GUEST");
    AUTO_FREE char *to = file_join(state, "the-guest");
    require(from && to, "name the guest");
    require(file_read(from, GUEST_MAX, &guest, &err) == 0, err.msg);
    require(file_write(to, buf_sv(&guest), 0755, &err) == 0, err.msg);
    setenv("SNAFFLE_GUEST", to, 1);
}

static void become_ordinary(void) {
    require(chown(state, ORDINARY_UID, ORDINARY_UID) == 0, "give the state folder away");
    require(setgroups(0, NULL) == 0 && setresgid(ORDINARY_UID, ORDINARY_UID, ORDINARY_UID) == 0 &&
                setresuid(ORDINARY_UID, ORDINARY_UID, ORDINARY_UID) == 0,
            "become an ordinary user");
    /* As after a login: /proc/self is the user's own again. */
    require(prctl(PR_SET_DUMPABLE, 1) == 0, "become an ordinary process");
}

void world_enter(bool as_user) {
    require(getenv("SNAFFLE_GUEST") != NULL, "find the guest: set SNAFFLE_GUEST");
    require(mkdtemp(state) != NULL, "make a folder in /tmp");
    require(chmod(state, 0711) == 0, "make the folder in /tmp passable");
    setenv("SNAFFLE_STATE", state, 1);
    if (as_user && geteuid() == 0) {
        take_guest_along();
        become_ordinary();
    }
}

bool world_leave(void) {
    struct err err = {0};
    int left = 0;
    AUTO_FREE char *boxes = file_join(state, "sandboxes");
    DIR *d = boxes ? opendir(boxes) : NULL;
    for (struct dirent *e; d && (e = readdir(d));) {
        if (e->d_name[0] != '.') {
            printf("# left behind: %s\n", e->d_name);
            left++;
        }
    }
    if (d) {
        closedir(d);
    }
    if (file_remove_tree(state, &err) < 0) {
        printf("# %s\n", err.msg);
        return false;
    }
    return left == 0;
}

const char *world_state(void) {
    return state;
}

static bool process_has(const char *pid, const char *file, const char *word) {
    char path[300];
    char text[8192];
    snprintf(path, sizeof path, "/proc/%.20s/%s", pid, file);
    FILE *f = fopen(path, "r");
    size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    if (f) {
        fclose(f);
    }
    for (size_t i = 0; i < n; i++) {
        text[i] = text[i] ? text[i] : ' ';
    }
    text[n] = '\0';
    return strstr(text, word) != NULL;
}

/* Those with `word` in `file`, and with `status_word` in their status if that is given. */
static int count(const char *file, const char *word, const char *status_word) {
    int n = 0;
    DIR *d = opendir("/proc");
    for (struct dirent *e; d && (e = readdir(d));) {
        bool is_process = strspn(e->d_name, "0123456789") == strlen(e->d_name);
        n += is_process && process_has(e->d_name, file, word) &&
             !process_has(e->d_name, "status", "\nState:\tZ") &&
             (!status_word || process_has(e->d_name, "status", status_word));
    }
    if (d) {
        closedir(d);
    }
    return n;
}

int world_processes_of(uid_t uid) {
    char word[64];
    snprintf(word, sizeof word, "\nUid:\t%u\t", (unsigned)uid);
    return count("status", word, NULL);
}

int world_processes_named(const char *word) {
    return count("cmdline", word, NULL);
}

int world_children_named(const char *word) {
    char parent[64];
    snprintf(parent, sizeof parent, "\nPPid:\t%d\n", (int)getpid());
    return count("cmdline", word, parent);
}

const char *world_mark(void) {
    static char mark[64];
    snprintf(mark, sizeof mark, "31326.%d", (int)getpid());
    return mark;
}
