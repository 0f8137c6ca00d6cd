/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How long a gateway takes from exec to its answer on /healthz: the median of some starts.
 *
 *     gateway_start SNAFFLE gateway
 *     gateway_start SNAFFLE-GATEWAY --level=tokens
 *
 * Prints JSON.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/sv.h"

#define STARTS 21 /* Odd, so that the median is one of them; a second in all. */

static int ask_health(uint16_t port) {
    static const char request[] = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n";
    struct sockaddr_in at = {
        .sin_family = AF_INET,
        .sin_port = htons(port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    char answer[512] = "";
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int ok = connect(fd, (struct sockaddr *)&at, sizeof at) == 0 &&
             write(fd, request, sizeof request - 1) > 0 &&
             read(fd, answer, sizeof answer - 1) > 0 && strstr(answer, "200 OK") != NULL;
    close(fd);
    return ok ? 0 : -1;
}

/* "listening on http://127.0.0.1:40123/v1" */
static uint16_t port_of(struct sv line) {
    static const struct sv before = {"http://127.0.0.1:", 17};
    unsigned long long port = 0;
    size_t at = sv_find(line, before);
    struct sv rest = sv_cut(line, at == (size_t)-1 ? line.n : at + before.n);
    size_t end = sv_find(rest, SV("/"));
    (void)sv_parse_u64((struct sv){rest.p, end == (size_t)-1 ? 0 : end}, UINT16_MAX, &port);
    return (uint16_t)port;
}

/* Milliseconds of one start; negative when it failed. */
static double start_once(const char *program, const char *word, const char *dir) {
    int ends[2];
    char line[128] = "";
    if (pipe(ends) < 0) {
        return -1;
    }
    int64_t from = clock_us();
    pid_t pid = fork();
    if (pid == 0) {
        dup2(ends[1], 1);
        const char *const argv[] = {program,  word, "--upstream-url", "http://127.0.0.1:9/v1",
                                    "--port", "0",  "--journal",      dir,
                                    NULL};
        execv(program, (char *const *)(uintptr_t)argv);
        _exit(127);
    }
    close(ends[1]);
    ssize_t n = read(ends[0], line, sizeof line);
    uint16_t port = port_of((struct sv){line, n > 0 ? (size_t)n : 0});
    int ok = port && ask_health(port) == 0;
    double ms = (double)(clock_us() - from) / 1000;
    close(ends[0]);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    return ok ? ms : -1;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv) {
    char dir[] = "/tmp/snaffle-bench-XXXXXX";
    double ms[STARTS];
    struct err e = {0};
    if (argc != 3) {
        fprintf(stderr, "usage: gateway_start PROGRAM COMMAND-OR-OPTION\n");
        return 2;
    }
    if (!mkdtemp(dir)) {
        perror("gateway_start");
        return 1;
    }
    for (int i = 0; i < STARTS; i++) {
        ms[i] = start_once(argv[1], argv[2], dir);
        if (ms[i] < 0) {
            fprintf(stderr, "gateway_start: a gateway did not answer\n");
            return 1;
        }
    }
    qsort(ms, STARTS, sizeof ms[0], by_size);
    printf("{\"gateway_start_ms\":%.2f,\"gateway_start_max_ms\":%.2f}\n", ms[STARTS / 2],
           ms[STARTS - 1]);
    return file_remove_tree(dir, &e) < 0 ? 1 : 0;
}
