/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/sandbox/owner.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/testing.h"

#define ARGS_MAX 8

struct owner owner_start(const char *const *args) {
    int ends[2];
    const char *argv[ARGS_MAX + 3] = {"owner", "--owner"};
    for (size_t i = 0; args[i]; i++) {
        assert_true(i < ARGS_MAX);
        argv[i + 2] = args[i];
    }
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(ends[1], STDOUT_FILENO);
        execv("/proc/self/exe", (char *const *)argv);
        _exit(127);
    }
    close(ends[1]);
    FILE *said = fdopen(ends[0], "r");
    assert_non_null(said);
    return (struct owner){pid, said};
}

bool owner_says(struct owner *o, const char *word) {
    char line[512];
    while (fgets(line, sizeof line, o->said)) {
        line[strcspn(line, "\n")] = '\0';
        if (strcmp(line, word) == 0) {
            return true;
        }
    }
    return false;
}

void owner_kill(struct owner *o) {
    kill(o->pid, SIGKILL);
    assert_int_equal(waitpid(o->pid, NULL, 0), o->pid);
    (void)fclose(o->said);
}
