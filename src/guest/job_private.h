/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_GUEST_JOB_PRIVATE_H
#define SNAFFLE_GUEST_JOB_PRIVATE_H

#include "guest/job.h"

/* What job.c and job_io.c share: a job's three streams. */

#define JOB_EXIT_TIMED_OUT 124 /* As timeout(1). */

void job_io_init(struct job *job);

/* Opens the job's ends and gives the command's three. */
int job_io_open(struct job *job, int child[3], struct err *err) CHECK_RESULT;
void job_io_close(struct job *job);

/* Lets through what stands in the pipes now, and closes them after. */
void job_io_end_grace(struct job *job);
void job_io_append_line(int fd, const char *line);

/* Ends the job if all that an end takes has come; the job may be gone after. */
void job_check_end(struct job *job);

#endif
