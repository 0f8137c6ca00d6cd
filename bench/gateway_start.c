/* SPDX-License-Identifier: BSD-3-Clause */
/* How long a gateway takes from exec to its answer on /healthz: the median of some starts, each in
 * a new process. Prints JSON. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "gateway/gateway.h"

#define STARTS 21 /* Odd, so that the median is one of them; a second in all. */

static int serve(const char *dir) {
    struct journal *j;
    struct gateway *g;
    struct err e = {0};
    if (journal_open(&(struct journal_options){.dir = dir}, &j, &e) < 0 ||
        gateway_start(&(struct gateway_options){.journal = j, .host = "127.0.0.1"}, &g, &e) < 0) {
        fprintf(stderr, "gateway_start: %s\n", e.msg);
        return 1;
    }
    printf("%u\n", gateway_port(g));
    fflush(stdout);
    for (;;) {
        pause();
    }
}

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

/* Milliseconds of one start; negative when it failed. */
static double start_once(const char *self, const char *dir) {
    int ends[2];
    char line[32] = "";
    unsigned long long port = 0;
    if (pipe(ends) < 0) {
        return -1;
    }
    int64_t from = clock_us();
    pid_t pid = fork();
    if (pid == 0) {
        dup2(ends[1], 1);
        execl(self, self, "--serve", dir, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    ssize_t n = read(ends[0], line, sizeof line);
    int ok = n > 1 && sv_parse_u64((struct sv){line, (size_t)n - 1}, UINT16_MAX, &port) &&
             ask_health((uint16_t)port) == 0;
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
    if (argc == 3 && strcmp(argv[1], "--serve") == 0) {
        return serve(argv[2]);
    }
    if (!mkdtemp(dir)) {
        perror("gateway_start");
        return 1;
    }
    for (int i = 0; i < STARTS; i++) {
        ms[i] = start_once("/proc/self/exe", dir);
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
