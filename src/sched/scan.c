/* SPDX-License-Identifier: MIT */
#include "sched/scan.h"

#include "sched/off_cpu.h"
#include "sched/scan_serve.h"

uint32_t sn_scan_initial;

bool sn_scan_before_run(struct sn_task *task)
{
	_Atomic uint32_t *word = &task->word.scan;
	uint32_t seen;

	for (;;) {
		atomic_thread_fence(memory_order_seq_cst); /* for FENCED */
		SN_RACE_WINDOW();
		seen = atomic_load(word);
		if (!(seen & SN_SCAN_HELD))
			break;
		sn_status_set(&task->word, SN_TASK_RUNNABLE, SN_BY_RUNNER);
		SN_RACE_WINDOW();
		if (atomic_compare_exchange_strong(word, &seen, seen | SN_SCAN_WANTED))
			return false;
		sn_status_set(&task->word, SN_TASK_RUNNING, SN_BY_RUNNER);
	}
	if (sn_unlikely(seen & SN_SCAN_TIMED))
		sn_off_cpu_runs(task);
	/* The stack stands still until this thread switches to the task. */
	sn_scan_complete(sn_scan_serve_saved(task));
	return true;
}

bool sn_scan_is_free(struct sn_task *task)
{
	atomic_thread_fence(memory_order_seq_cst); /* for FENCED */
	SN_RACE_WINDOW();
	return !(atomic_load(&task->word.scan) & (SN_SCAN_HELD | SN_SCAN_ASKED | SN_SCAN_TIMED));
}

bool sn_scan_hold_left(struct sn_task *task)
{
	uint32_t seen;

	atomic_thread_fence(memory_order_seq_cst); /* for FENCED */
	SN_RACE_WINDOW();
	seen = atomic_load(&task->word.scan);
	do {
		/* If another party has HELD, it looks for ASKED again before it gives the stack
		 * back. */
		if (!(seen & SN_SCAN_ASKED) || (seen & SN_SCAN_HELD))
			return false;
	} while (!atomic_compare_exchange_weak(&task->word.scan, &seen, seen | SN_SCAN_HELD));
	return true;
}

void sn_scan_ended(struct sn_task *task)
{
	atomic_thread_fence(memory_order_seq_cst); /* for FENCED */
	SN_RACE_WINDOW();
	sn_scan_complete(sn_scan_serve(task, NULL));
}

bool sn_scan_give_back(struct sn_task *task)
{
	_Atomic uint32_t *word = &task->word.scan;
	uint32_t seen = atomic_load(word);
	struct sn_scan_sync *served = NULL;

	for (;;) {
		if (seen & SN_SCAN_ASKED) {
			sn_scan_complete(served);
			served = sn_scan_serve_saved(task);
			SN_RACE_WINDOW();
			seen = atomic_load(word);
		} else if (atomic_compare_exchange_weak(word, &seen,
							seen & ~(uint32_t)(SN_SCAN_HELD |
									   SN_SCAN_BRIEF |
									   SN_SCAN_WANTED))) {
			break;
		}
	}
	sn_scan_complete(served);
	return seen & SN_SCAN_WANTED;
}
