/* SPDX-License-Identifier: MIT */
/*
 * The monitor's deep sleep, while every processor is idle, and what wakes it.
 *
 * Contract. The monitor says under the runtime's lock that it sleeps, when nothing needs it. A
 * thread that takes a processor out of the idle ones, or asks for a chore, holds the same lock, and
 * wakes the monitor. So no wake-up is lost.
 *
 * Who may write what, under the runtime's lock, or in sn_sysmon_start(), before there is a monitor:
 *   sn_monitor_sleeps   true, the monitor; false, the thread that wakes it, or the monitor when
 *                       its time has come
 */
#ifndef SENNIT_SCHED_SYSMON_SLEEP_H
#define SENNIT_SCHED_SYSMON_SLEEP_H

#include <stdbool.h>
#include <stdint.h>

#include "arch/compiler.h"

/* The monitor: sleeps until it is woken, if may_sleep() says so under the lock, or until that time
 * (0: none). False: only the time has come, nothing has happened. */
bool sn_sysmon_sleep(int64_t until, bool (*may_sleep)(void));

extern bool sn_monitor_sleeps sn_hidden;

/* The runtime's lock is held. */
void sn_sysmon_wake(void);
static inline void sn_sysmon_wake_if_asleep(void)
{
	if (sn_monitor_sleeps)
		sn_sysmon_wake();
}

/* For a signal's handler, without the lock. */
void sn_sysmon_interrupt(void);

#endif
