/* SPDX-License-Identifier: MIT */
#include "observe/scan_own.h"

#include <errno.h>

#include "base/membarrier.h"
#include "sched/scan.h"
#include "sched/switch.h"
#include "sched/thread.h"

void sn_scan_release(struct sn_task *task)
{
	if (sn_scan_give_back(task))
		sn_requeue(task);
}

/*
 * Clears HELD, which was set although the stack is a thread's, or there is no task. Returns true if
 * the caller must try to own the stack once more: another thread has left a request, and relies on
 * this one to serve it, because the task has parked.
 */
static bool give_up(struct sn_task *task)
{
	_Atomic uint32_t *word = &task->word.scan;
	uint32_t seen = atomic_load(word);
	enum sn_task_status status;

	do {
		if (seen & SN_SCAN_WANTED) {
			/* A runner has left the task to this scanner after all, which therefore
			 * owns it. */
			sn_scan_release(task);
			return false;
		}
	} while (!atomic_compare_exchange_weak(word, &seen,
					       seen & ~(uint32_t)(SN_SCAN_HELD | SN_SCAN_BRIEF)));
	if (!(seen & SN_SCAN_ASKED))
		return false;
	status = sn_status_get(&task->word);
	return status == SN_TASK_PARKED || status == SN_TASK_RUNNABLE;
}

static bool take(struct sn_task *task, uint32_t bits)
{
	_Atomic uint32_t *word = &task->word.scan;
	uint32_t seen = atomic_load(word);

	do {
		if (seen & SN_SCAN_HELD)
			return false;
	} while (!atomic_compare_exchange_weak(word, &seen, seen | SN_SCAN_HELD | bits));
	return true;
}

int sn_scan_own(struct sn_task *task, uint32_t bits)
{
	enum sn_task_status status;

	do {
		if (!take(task, bits))
			return -EBUSY;
		SN_RACE_WINDOW();
		if (!sn_barrier_everywhere()) {
			give_up(task);
			return -ENOSYS;
		}
		SN_RACE_WINDOW();
		status = sn_status_get(&task->word);
		if (status == SN_TASK_PARKED || status == SN_TASK_RUNNABLE)
			return 0;
	} while (give_up(task));
	return status == SN_TASK_FREE || status == SN_TASK_NEW || status == SN_TASK_ENDED ? -ESRCH
											  : -EAGAIN;
}

uint64_t sn_scan_hold_slab(struct sn_block_slab *slab, uint64_t blocks)
{
	uint64_t held = 0, owned = 0;
	bool passed;

	for (uint64_t left = blocks; left; left &= left - 1) {
		int number = __builtin_ctzll(left);
		struct sn_task *task = sn_block_slab_at(slab, number);
		enum sn_task_status status = sn_status_get(&task->word);

		if ((status == SN_TASK_PARKED || status == SN_TASK_RUNNABLE) &&
		    take(task, SN_SCAN_BRIEF))
			held |= (uint64_t)1 << number;
	}
	if (!held)
		return 0;
	SN_RACE_WINDOW();
	passed = sn_barrier_everywhere();
	for (uint64_t left = held; left; left &= left - 1) {
		int number = __builtin_ctzll(left);
		struct sn_task *task = sn_block_slab_at(slab, number);
		enum sn_task_status status = sn_status_get(&task->word);

		if (!passed)
			give_up(task);
		else if (status == SN_TASK_PARKED || status == SN_TASK_RUNNABLE ||
			 (give_up(task) && sn_scan_own(task, SN_SCAN_BRIEF) == 0))
			owned |= (uint64_t)1 << number;
	}
	return owned;
}
