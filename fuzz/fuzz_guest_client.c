/* SPDX-License-Identifier: BSD-3-Clause */
/* Whatever a guest answers, a call ends, keeps its bounds, and gives a result or an error. */
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sandbox/guest_client.h"

#define TAIL 16

static struct sv answer;

/* The whole answer stands in the socket's buffer, and then it ends. */
static int connect_guest(void *arg, int *out_fd, struct err *err) {
    (void)arg;
    (void)err;
    int fds[2];
    BUG_IF(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) < 0);
    ssize_t n = send(fds[1], answer.p, answer.n, MSG_DONTWAIT);
    (void)n;
    shutdown(fds[1], SHUT_WR);
    close(fds[1]);
    *out_fd = fds[0];
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct guest_client g = {.connect = connect_guest};
    struct sandbox_output o = {0};
    struct err err = {0};
    answer = (struct sv){(const char *)data, size};
    struct sandbox_exec what = {.shell = "x", .output_max = TAIL};
    int r = guest_exec(&g, &what, &o, &err);
    BUG_IF(r > 0 || (r < 0 && (!err.msg[0] || strchr(err.msg, '\n'))));
    BUG_IF(o.out.len > TAIL || o.err.len > TAIL || o.exit_code < 0 || o.exit_code > 255);
    buf_deinit(&o.out);
    buf_deinit(&o.err);
    struct buf file = {0};
    r = guest_read_file(&g, "x", 0, TAIL, &file, &err);
    BUG_IF(file.len > TAIL || (r < 0 && file.len > 0));
    buf_deinit(&file);
    return 0;
}
