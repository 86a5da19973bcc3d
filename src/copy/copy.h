/* SPDX-License-Identifier: MIT */
/*
 * Running a copy: copy.c, the driver. All calls are made within the runtime.
 */
#ifndef SENNIT_COPY_COPY_H
#define SENNIT_COPY_COPY_H

#include "copy/copy_job.h"

/* Runs the job to its end, whatever it has done before. 0, or an error. Parks. */
int sn_copy_run(struct sn_copy_job *job);

/*
 * Moves the available bytes of a small flow between sockets, for a task that has more to do than
 * this job, and waits for neither side. Returns SN_PASS_END, an error, or SN_PASS_DRAINED when src
 * may be waited for. Any other result means that sn_copy_run() has to continue: the flow is not so
 * small, coalesces, is held back, or waits for room in dst.
 */
int sn_copy_try(struct sn_copy_job *job);

#endif
