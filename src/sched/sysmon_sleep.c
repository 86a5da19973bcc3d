/* SPDX-License-Identifier: MIT */
#include "sched/sysmon_sleep.h"

#include <errno.h>
#include <stdatomic.h>

#include <sennit/clock.h>

#include "sched/runtime.h"
#include "sched/status.h"
#include "wait/futex.h"
#include "wait/lock.h"

bool sn_monitor_sleeps;
static _Atomic uint32_t wake_word;

bool sn_sysmon_sleep(int64_t until, bool (*may_sleep)(void))
{
	uint32_t seen = atomic_load(&wake_word);
	bool sleeps;

	sn_lock(&sn_runtime.lock);
	sn_monitor_sleeps = sleeps = may_sleep();
	sn_unlock(&sn_runtime.lock);
	if (!sleeps || sn_futex_wait(&wake_word, seen, until) != -ETIMEDOUT)
		return true;
	sn_lock(&sn_runtime.lock);
	sleeps = sn_monitor_sleeps;
	sn_monitor_sleeps = false;
	sn_unlock(&sn_runtime.lock);
	return !sleeps;
}

void sn_sysmon_wake(void)
{
	sn_monitor_sleeps = false;
	sn_status_clock_set(sn_now());
	atomic_fetch_add(&wake_word, 1);
	sn_futex_wake(&wake_word, 1);
}

void sn_sysmon_interrupt(void)
{
	atomic_fetch_add(&wake_word, 1);
	sn_futex_wake(&wake_word, 1);
}
