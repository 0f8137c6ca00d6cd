/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_SANDBOX_BOX_SCAN_H
#define SNAFFLE_SANDBOX_BOX_SCAN_H

#include <sys/types.h>

#include "base/err.h"

/* What box.c, box_list.c and box_end.c share. */

#define BOX_RECORD "record.json"
#define BOX_BOOT_MAX 40 /* The kernel's boot id is a UUID. */

/* Takes the gate of the sandboxes' folder: LOCK_SH to make a box, LOCK_EX to look round. */
int box_gate(const char *state, int how, int *out_fd, struct err *err) CHECK_RESULT;

/* Takes the box's own lock: a flock of its folder. ERR_EXISTS when a living owner has it,
 * ERR_NOT_FOUND when there is no such folder any more. */
int box_lock(const char *dir, int *out_fd, struct err *err) CHECK_RESULT;

/* This boot's name, and a process's start in ticks since then: with its pid they name it for ever.
 * Negative when the kernel does not say. */
int box_boot_id(char out[BOX_BOOT_MAX]);
int box_process_start(pid_t pid, unsigned long long *out);

/* What is known of a dead owner's sandbox. Its processes are found by the one noted, whose death is
 * that of all inside, and by bwrap's name: one that its owner's death caught in the middle of a
 * start waits for ever for a word of its killed parent. */
struct box_traces {
    const char *id;
    uid_t uid;
    pid_t pid; /* 0: none noted. */
    unsigned long long pid_start;
    const char *boot;
};

/* Kills them and sees them dead. */
int box_end_processes(const struct box_traces *t, struct err *err) CHECK_RESULT;

/* The same with the one noted alone; 1 when it was alive, else 0. */
int box_end_noted(const struct box_traces *t, struct err *err) CHECK_RESULT;

#endif
