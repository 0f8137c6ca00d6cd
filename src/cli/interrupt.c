/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/interrupt.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"

static struct cancel *soft_switch;
static struct cancel *hard_switch;
static volatile sig_atomic_t times;

static void tell(const char *text) {
    ssize_t ignored = write(STDERR_FILENO, text, strlen(text));
    (void)ignored; /* There is nowhere to say that it failed. */
}

static void on_signal(int number) {
    int saved = errno;
    times = times + 1;
    if (times == 1) {
        tell("\nsnaffle: stopping the agent and collecting; once more tears down at once\n");
        cancel_throw(soft_switch);
    } else if (times == 2) {
        tell("\nsnaffle: tearing down\n");
        cancel_throw(hard_switch);
    } else {
        struct sigaction action = {.sa_handler = SIG_DFL};
        (void)sigaction(number, &action, NULL);
        (void)raise(number);
    }
    errno = saved;
}

int interrupt_install(struct cancel *soft, struct cancel *hard, struct err *err) {
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    soft_switch = soft;
    hard_switch = hard;
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
        struct sigaction before;
        /* nohup's choice stands. */
        if (sigaction(numbers[i], NULL, &before) == 0 && before.sa_handler == SIG_IGN &&
            numbers[i] == SIGHUP) {
            continue;
        }
        if (sigaction(numbers[i], &action, NULL) < 0) {
            return err_sys(err, ERR_SYS, errno, "cannot catch signal %d", numbers[i]);
        }
    }
    if (sigaction(SIGPIPE, &ignore, NULL) < 0) {
        return err_sys(err, ERR_SYS, errno, "cannot ignore SIGPIPE");
    }
    return 0;
}
