/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"

#define STAT_MAX 65536
#define START_FIELD 22 /* Of /proc/PID/stat; see proc(5). */

void host_label(char out[HOST_LABEL_MAX + 1]) {
    char host[256] = "";
    if (gethostname(host, sizeof host - 1) < 0 || !host[0]) {
        memcpy(host, "host", 5);
    }
    size_t n = 0;
    for (; n < HOST_LABEL_MAX && host[n]; n++) {
        char c = host[n];
        c = c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
        out[n] = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ? c : '-';
    }
    out[n] = '\0';
}

/* 0: no such process. */
static unsigned long long started(unsigned long long pid) {
    AUTO_BUF struct buf stat = {0};
    AUTO_FREE char *path = mem_printf("/proc/%llu/stat", pid);
    if (!path || file_read(path, STAT_MAX, &stat, NULL) < 0) {
        return 0;
    }
    const char *p = strrchr(buf_cstr(&stat), ')'); /* The name before it may hold blanks. */
    for (int field = 2; p && field < START_FIELD; field++) {
        p = strchr(p + 1, ' ');
    }
    return p ? strtoull(p, NULL, 10) : 0;
}

void host_process(char out[HOST_PROCESS_MAX + 1]) {
    unsigned long long pid = (unsigned long long)getpid();
    (void)snprintf(out, HOST_PROCESS_MAX + 1, "%llu-%llu", pid, started(pid));
}

bool host_process_alive(const char *process) {
    char *end;
    unsigned long long pid = strtoull(process, &end, 10);
    unsigned long long start = *end == '-' ? strtoull(end + 1, NULL, 10) : 0;
    return pid > 0 && start > 0 && started(pid) == start;
}
