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
	/* The fork itself, and what the C library and others do about it, with every lock held: the
	 * price of a child that finds consistent data. */
	sn_checked_pass();
}

/* Backwards, so that a handler finds the locks free that nest within its own. */
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

	/* This fails only without memory. A child that calls sennit is then on its own. */
	if (atomic_exchange(&done, true))
		return;
	first = handlers;
	end = handlers + n;
	pthread_atfork(prepare, in_parent, in_child);
}
