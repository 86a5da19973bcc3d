/* SPDX-License-Identifier: MIT */
#include "sched/status.h"

struct sn_status_clock sn_status_clock;

/* changes[from][to] has the actors that may make the change; 0 if none may. */
static const uint8_t changes[SN_TASK_STATUSES][SN_TASK_STATUSES] = {
	[SN_TASK_FREE] = {[SN_TASK_NEW] = SN_BY_CREATOR},
	[SN_TASK_NEW] = {[SN_TASK_RUNNABLE] = SN_BY_CREATOR | SN_BY_WAKER,
			 [SN_TASK_PARKED] = SN_BY_CREATOR /* it waits before it begins */,
			 [SN_TASK_FREE] = SN_BY_FREER /* thrown away before it ran */},
	[SN_TASK_RUNNABLE] = {[SN_TASK_RUNNING] = SN_BY_RUNNER,
			      [SN_TASK_RUNNABLE] = SN_BY_SCANNER /* queues it again */},
	[SN_TASK_RUNNING] = {[SN_TASK_PARKED] = SN_BY_LEAVER,
			     [SN_TASK_RUNNABLE] = SN_BY_RUNNER /* a scanner has it: not now */,
			     [SN_TASK_BLOCKING] =
				     SN_BY_MONITOR | SN_BY_RUNNER /* lends its processor */,
			     [SN_TASK_ENDED] = SN_BY_RUNNER},
	[SN_TASK_PARKED] = {[SN_TASK_RUNNABLE] = SN_BY_WAKER},
	[SN_TASK_BLOCKING] = {[SN_TASK_RUNNING] = SN_BY_RUNNER, [SN_TASK_RETURNING] = SN_BY_RUNNER},
	[SN_TASK_RETURNING] = {[SN_TASK_RUNNING] = SN_BY_RUNNER},
	[SN_TASK_ENDED] = {[SN_TASK_FREE] = SN_BY_FREER},
};

static const char *const names[SN_TASK_STATUSES] = {
	[SN_TASK_FREE] = "free",
	[SN_TASK_NEW] = "new",
	[SN_TASK_RUNNABLE] = "runnable",
	[SN_TASK_RUNNING] = "running",
	[SN_TASK_PARKED] = "parked",
	[SN_TASK_BLOCKING] = "blocking",
	[SN_TASK_RETURNING] = "waiting for a processor",
	[SN_TASK_ENDED] = "ended",
};

bool sn_status_allowed(enum sn_task_status from, enum sn_task_status to, enum sn_status_actor by)
{
	return from < SN_TASK_STATUSES && to < SN_TASK_STATUSES && (changes[from][to] & by);
}

const char *sn_status_name(enum sn_task_status status)
{
	return status < SN_TASK_STATUSES ? names[status] : "?";
}

void sn_status_check(struct sn_task_status_word *word, enum sn_task_status to,
		     enum sn_status_actor by)
{
	enum sn_task_status from =
		(enum sn_task_status)atomic_load_explicit(&word->status, memory_order_relaxed);

	if (!sn_status_allowed(from, to, by))
		sn_fatal("illegal status change of a task: %s -> %s by actor %d",
			 sn_status_name(from), sn_status_name(to), (int)by);
}

void sn_status_clock_advance(int64_t now)
{
	/* The difference is signed, because the clock wraps. A thread that is preempted after this
	 * check may still set the clock back; is_older() is then wrong by as long as that took. */
	if ((int32_t)((uint32_t)(now / 1000000) -
		      atomic_load_explicit(&sn_status_clock.ms, memory_order_relaxed)) > 0)
		sn_status_clock_set(now);
}

void sn_status_clock_set(int64_t now)
{
	uint32_t ms = (uint32_t)(now / 1000000);

	/* No store when nothing changes, because every processor reads this line. */
	if (atomic_load_explicit(&sn_status_clock.ms, memory_order_relaxed) != ms)
		atomic_store_explicit(&sn_status_clock.ms, ms, memory_order_relaxed);
}
