/* SPDX-License-Identifier: MIT */
/*
 * Running a copy: copy.c, the driver.
 *
 * Contract. All calls are made inside the runtime, by the task to which the job belongs. A call
 * continues where the last one has left the job, and counts in its result what was read and what
 * was written. After an error these may differ: what was read and not written is lost.
 */
#ifndef SENNIT_COPY_COPY_H
#define SENNIT_COPY_COPY_H

#include "copy/copy_job.h"

/* Runs the job to its end, from wherever it is. Returns 0 or an error. Parks. */
int sn_copy_run(struct sn_copy_job *job);

/*
 * Moves the available bytes of a small flow between sockets, for a task that has more to do than
 * this job, and waits for neither side. Returns SN_PASS_END, an error, or SN_PASS_DRAINED when the
 * caller may wait for src. After any other result the caller has to use sn_copy_run(): the flow is
 * not small any more, coalesces, is held back, or waits for room in dst.
 */
int sn_copy_try(struct sn_copy_job *job);

#endif
