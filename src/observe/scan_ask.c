/* SPDX-License-Identifier: MIT */
#include "observe/scan_ask.h"

#include <errno.h>

#include "observe/scan_own.h"
#include "observe/scan_signal.h"
#include "sched/foreign.h"
#include "sched/lease.h"
#include "sched/runtime.h"
#include "sched/scan.h"
#include "sched/scan_serve.h"
#include "sched/sysmon_sleep.h"
#include "sched/thread.h"
#include "sched/thread_list.h"

/* The period at which threads are reminded: not shorter, because a signal disturbs its thread's
 * system calls. */
#define REMIND_NS 1000000

static int64_t last_reminded; /* written by the monitor alone */

int sn_scan_init(void)
{
	int err = sn_scan_signal_init();

	if (err < 0)
		return err;
	sn_scan_initial = sn_lease_held() == SN_LEASE_HELD ? 0 : SN_SCAN_FENCED;
	atomic_store(&sn_scan_pending_count, 0);
	last_reminded = 0;
	return 0;
}

bool sn_scan_pending(void)
{
	return atomic_load(&sn_scan_pending_count) > 0;
}

/* Reminds the thread, if it runs a task with a request. The runtime's lock is held, so the thread
 * does not end. */
static void remind(struct sn_thread *thread, bool at_once)
{
	struct sn_task *task = __atomic_load_n(&thread->task, __ATOMIC_RELAXED);
	enum sn_task_status status;

	/* A block stays a block (sched/control_block.h), so this may read its word even if the task
	 * has ended. */
	if (!task || !(atomic_load(&task->word.scan) & SN_SCAN_ASKED))
		return;
	status = sn_status_get(&task->word);
	sn_lease_ask(thread);
	if (at_once || status == SN_TASK_BLOCKING || status == SN_TASK_RETURNING ||
	    __atomic_load_n(&thread->lease.blocking, __ATOMIC_RELAXED))
		sn_scan_interrupt(thread, task);
}

static void remind_all(bool at_once)
{
	sn_lock(&sn_runtime.lock);
	for (struct sn_thread *thread = sn_threads.all; thread; thread = thread->next_all)
		remind(thread, at_once);
	sn_unlock(&sn_runtime.lock);
}

void sn_scan_remind(int64_t now, bool idle)
{
	(void)idle;
	if (!sn_scan_pending() || now - last_reminded < REMIND_NS)
		return;
	last_reminded = now;
	remind_all(true);
}

bool sn_scan_withdraw(struct sn_task *task)
{
	_Atomic uint32_t *word = &task->word.scan;
	uint32_t seen = atomic_load(word);

	do {
		if (!(seen & SN_SCAN_ASKED))
			return false;
	} while (!atomic_compare_exchange_weak(word, &seen, seen & ~(uint32_t)SN_SCAN_ASKED));
	atomic_fetch_sub(&sn_scan_pending_count, 1);
	return true;
}

int sn_scan_ask(struct sn_task *task, sn_task_scan_fn *fn, void *arg, bool at_once)
{
	_Atomic uint32_t *word = &task->word.scan;
	uint32_t seen = atomic_load(word);
	int err;

	do {
		if (seen & (SN_SCAN_ASKING | SN_SCAN_ASKED | SN_SCAN_SERVING))
			return -EBUSY;
	} while (!atomic_compare_exchange_weak(word, &seen, seen | SN_SCAN_ASKING));
	task->scan_fn = fn;
	task->scan_arg = arg;
	atomic_fetch_add(&sn_scan_pending_count, 1);
	atomic_fetch_xor(word, SN_SCAN_ASKING | SN_SCAN_ASKED);
	/*
	 * The barrier of sn_scan_own() is not enough, because sn_scan_own() has none if another
	 * party has HELD. That party looks whether the task is parked after it has seen ASKED. If
	 * the PARKED of a thread is not visible to it then, that thread will see ASKED, by this
	 * barrier.
	 */
	if (!sn_barrier_everywhere() && sn_scan_withdraw(task))
		return -ENOSYS;
	SN_RACE_WINDOW();
	err = sn_scan_own(task, 0);
	if (err == 0)
		sn_scan_release(task); /* this serves the request */
	else if (sn_status_get(&task->word) == SN_TASK_ENDED && sn_scan_withdraw(task))
		return -ESRCH; /* the task ended before the barrier, perhaps without seeing ASKED */
	if (!(atomic_load(word) & SN_SCAN_ASKED))
		return 0;
	remind_all(at_once);
	sn_lock(&sn_runtime.lock);
	sn_sysmon_wake_if_asleep();
	sn_unlock(&sn_runtime.lock);
	return 0;
}

int sn_scan_begin(struct sn_task **task, const sn_task *handle, sn_task_scan_fn *fn)
{
	struct sn_thread *self = sn_thread_self();

	if (!handle || !fn)
		return -EINVAL;
	*task = sn_task_of(handle);
	if (!*task)
		return -ESRCH;
	if (sn_scan_depth > 0 || (self && self->task == *task))
		return -EDEADLK;
	return sn_foreign_enter();
}

int sn_task_scan_async(sn_task *handle, sn_task_scan_fn *fn, void *arg)
{
	struct sn_private_lease *lease;
	struct sn_task *task;
	int err = sn_scan_begin(&task, handle, fn);

	if (err < 0)
		return err;
	lease = sn_scan_hide();
	err = sn_scan_ask(task, fn, arg, false);
	sn_scan_unhide(lease);
	sn_foreign_leave();
	return err;
}
