/* SPDX-License-Identifier: MIT */
/*
 * Traces of waits: when a task has waited for a processor for longer than SENNIT_LATE_MS, the
 * monitor requests a trace, as for a stall (dump.h). It shows what ran during that time.
 *
 * Contract. Only the monitor checks, and only the first task of each queue, so this costs nothing
 * where tasks are woken and run. The length of a wait is measured by the monitor's clock
 * (status.h), and waits are seen only when the monitor checks: both are up to 10 ms late. Only the
 * monitor writes the state, and sn_late_init() before it starts.
 */
#ifndef SENNIT_DEBUG_LATE_H
#define SENNIT_DEBUG_LATE_H

#include <stdbool.h>
#include <stdint.h>

/* Called when a run begins, before the monitor starts. Returns 0, or -EINVAL after a line on
 * stderr. */
int sn_late_init(void);

/* A chore of the monitor: checks the queues. */
void sn_late_step(int64_t now, bool idle);

#endif
