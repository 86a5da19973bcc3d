/* SPDX-License-Identifier: MIT */
/*
 * Calling code that blocks the thread.
 */
#ifndef SENNIT_BLOCKING_H
#define SENNIT_BLOCKING_H

#include <sennit/base.h>
#include <sennit/run.h>

SN_BEGIN

/*
 * Calls fn(arg) and returns its value. When called from a task, the processor is given to other
 * tasks for the time of the call; the task itself stays on its thread, so errno and thread-locals
 * are what they were. fn must not call sennit functions that may park. Called outside a task it
 * just calls fn. Waits for a processor afterwards; does not change threads.
 */
SN_API int sn_blocking(sn_fn *fn, void *arg);

SN_END

#endif
