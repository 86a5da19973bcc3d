/* SPDX-License-Identifier: MIT */
#include "base/fork.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "wait/lock.h"
#include "wait/site.h"

void sn_fork_lock(struct sn_lock *lock, enum sn_fork_phase phase)
{
	if (phase == SN_FORK_PREPARE)
		sn_lock(lock);
	else if (phase == SN_FORK_PARENT)
		sn_unlock(lock);
	else
		sn_lock_forget(lock, true); /* threads that slept on it are not in the child */
}

static sn_fork_handler *const *first, *const *end;

static void prepare(void)
{
	for (sn_fork_handler *const *handler = first; handler != end; handler++)
		(*handler)(SN_FORK_PREPARE);
	/* The fork itself and the fork handlers of other libraries run with every lock held. That
	 * is the price of consistent data in the child. */
	sn_checked_pass();
}

/* In reverse order, so that a handler finds the locks that nest within its own released. */
static void afterwards(enum sn_fork_phase phase)
{
	for (sn_fork_handler *const *handler = end; handler != first;)
		(*--handler)(phase);
	sn_checked_pass_end();
}

static void in_parent(void)
{
	afterwards(SN_FORK_PARENT);
}

static void in_child(void)
{
	afterwards(SN_FORK_CHILD);
	sn_lock_forget_sleepers();
	sn_wait_fork_child();
}

void sn_fork_init(sn_fork_handler *const *handlers, size_t n)
{
	static _Atomic bool done;

	/* pthread_atfork(), below, fails only for want of memory. Then nothing is done about forks,
	 * and a child must not call sennit. */
	if (atomic_exchange(&done, true))
		return;
	first = handlers;
	end = handlers + n;
	pthread_atfork(prepare, in_parent, in_child);
}
