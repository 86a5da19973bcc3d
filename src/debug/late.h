/* SPDX-License-Identifier: MIT */
/*
 * Traces of waits: when a task has waited for a processor for longer than SENNIT_LATE_MS, a trace
 * is requested, as for a stall (dump.h). It shows what ran during that time.
 *
 * The monitor checks the first task of each queue, so this costs nothing where tasks are woken and
 * run. The length of a wait is measured by the monitor's clock (status.h), and waits are seen only
 * when the monitor checks: both are up to 10 ms late.
 */
#ifndef SENNIT_DEBUG_LATE_H
#define SENNIT_DEBUG_LATE_H

#include <stdbool.h>
#include <stdint.h>

/* At the beginning of a run, before the monitor's. Returns 0, or -EINVAL after a line on stderr. */
int sn_late_init(void);

/* A chore of the monitor. */
void sn_late_step(int64_t now, bool idle);

#endif
