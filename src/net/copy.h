/* SPDX-License-Identifier: MIT */
/*
 * Running a copy: copy.c, the driver. Within the runtime.
 */
#ifndef SENNIT_NET_COPY_H
#define SENNIT_NET_COPY_H

#include "net/copy_job.h"

/* Runs the job to its end, from wherever it is. 0, or an error. Parks. */
int sn_copy_run(struct sn_copy_job *job);

/*
 * Moves what is there of a small flow between sockets, for a task that has more to do than this job,
 * and waits for neither side. SN_PASS_END, an error, or SN_PASS_DRAINED when src may be waited for; or
 * else sn_copy_run() is to go on with it, as it is not so small, gathers, is held back, or waits for
 * room in dst.
 */
int sn_copy_try(struct sn_copy_job *job);

#endif
