/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs a fuzz target over the files of a folder (or over single files), one TAP case each. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/mem.h"

#define SEED_MAX (16u * 1024 * 1024)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int cases;

static int replay_file(const char *path) {
    struct err err = {0};
    AUTO_BUF struct buf b = {0};
    if (file_read(path, SEED_MAX, &b, &err) < 0) {
        printf("not ok %d - %s\n# %s\n", ++cases, path, err.msg);
        return 1;
    }
    /* An exact copy, so that a sanitizer sees a read past the end. */
    uint8_t *copy = malloc(b.len ? b.len : 1);
    if (!copy) {
        return 1;
    }
    memcpy(copy, buf_cstr(&b), b.len);
    LLVMFuzzerTestOneInput(copy, b.len);
    free(copy);
    printf("ok %d - %s\n", ++cases, strrchr(path, '/') ? strrchr(path, '/') + 1 : path);
    return 0;
}

static int replay_folder(const char *path) {
    DIR *dir = opendir(path);
    int failed = dir ? 0 : 1;
    for (struct dirent *e = dir ? readdir(dir) : NULL; e; e = readdir(dir)) {
        AUTO_FREE char *name = e->d_name[0] == '.' ? NULL : file_join(path, e->d_name);
        failed += name ? replay_file(name) : 0;
    }
    if (dir) {
        closedir(dir);
    }
    return failed;
}

int main(int argc, char **argv) {
    int failed = 0;
    setvbuf(stdout, NULL, _IOLBF, BUFSIZ); /* What ran before an abort must be seen. */
    for (int i = 1; i < argc; i++) {
        struct stat st;
        bool is_folder = stat(argv[i], &st) == 0 && S_ISDIR(st.st_mode);
        failed += is_folder ? replay_folder(argv[i]) : replay_file(argv[i]);
    }
    printf("1..%d\n", cases);
    return failed || cases == 0;
}
