/* SPDX-License-Identifier: MIT */
#include "sched/fork.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include <sennit/blocking.h>

#include "sched/collector.h"
#include "sched/scan.h"
#include "wait/lock.h"
#include "wait/site.h"

void sn_fork_lock(struct sn_lock *lock, enum sn_fork_phase phase)
{
	if (phase == SN_FORK_PREPARE)
		sn_lock(lock);
	else if (phase == SN_FORK_PARENT)
		sn_unlock(lock);
	else
		atomic_store(&lock->word, 0); /* whoever may have slept on it is not in the child */
}

/* The order is that in which they nest anywhere: the runtime's first. */
static void all(enum sn_fork_phase phase)
{
	sn_run_fork(phase);
	sn_signal_fork(phase); /* it opens descriptors under its lock */
	sn_netpoll_fork(phase);
	sn_tasks_fork(phase);
	sn_stacks_fork(phase);
	sn_blocks_fork(phase);
	sn_buffers_fork(phase);
	sn_pipes_fork(phase);
	sn_resolver_fork(phase);
	sn_sync_fork(phase);
	sn_cancel_fork(phase);
	sn_dump_fork(phase); /* nobody dumps in a child, and the signal does what it did before */
}

static void prepare(void)
{
	all(SN_FORK_PREPARE);
}

static void in_parent(void)
{
	all(SN_FORK_PARENT);
}

static void in_child(void)
{
	all(SN_FORK_CHILD);
	sn_lock_forget_sleepers();
	sn_wait_fork_child();
	sn_scan_end();
	sn_collector_stopping(0); /* whoever stopped the others is not here, and neither are they */
	sn__current = NULL;
}

void sn_fork_init(void)
{
	static _Atomic bool done;

	/* Fails only without memory, and then a child that calls sennit is on its own. */
	if (!atomic_exchange(&done, true))
		pthread_atfork(prepare, in_parent, in_child);
}
