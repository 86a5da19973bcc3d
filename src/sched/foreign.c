/* SPDX-License-Identifier: MIT */
#include "sched/foreign.h"

#include <errno.h>
#include <stdatomic.h>

#include "wait/backoff.h"
#include "wait/futex.h"

static _Atomic uint32_t inside;
static _Atomic bool running;
static bool forked; /* in a child of fork(), until its next run begins */

int sn_foreign_enter(void)
{
	atomic_fetch_add(&inside, 1);
	if (atomic_load(&running))
		return 0;
	sn_foreign_leave();
	return -ESRCH;
}

void sn_foreign_leave(void)
{
	if (atomic_fetch_sub(&inside, 1) == 1 && !atomic_load(&running))
		sn_futex_wake(&inside, 1);
}

uint32_t sn_foreign_count(void)
{
	return atomic_load(&inside);
}

bool sn_foreign_admitted(void)
{
	return atomic_load(&running);
}

void sn_foreign_begin(void)
{
	/* Only then: otherwise a thread may be about to find that no runtime runs, and to undo its
	 * own count. */
	if (forked)
		atomic_store(&inside, 0); /* the parent's threads */
	forked = false;
	atomic_store(&running, true);
}

void sn_foreign_end(void)
{
	SN_BACKOFF(backoff, SN_WAIT_END, 0, 0);
	uint32_t left;

	atomic_store(&running, false);
	while ((left = atomic_load(&inside)) > 0) {
		sn_backoff_pause(&backoff); /* only counts the wait */
		sn_futex_wait(&inside, left, 0);
	}
}

/* The count stays until the child runs, because the thread that forked may have been inside. */
void sn_foreign_fork(enum sn_fork_phase phase)
{
	if (phase != SN_FORK_CHILD)
		return;
	atomic_store(&running, false);
	forked = true;
}
