/* SPDX-License-Identifier: MIT */
#include "sched/foreign.h"

#include <errno.h>
#include <stdatomic.h>

#include "wait/backoff.h"
#include "wait/checked.h"
#include "wait/futex.h"

/* Of `guests`: the number of the run, and the count in the lower half. 65,536 runs later a guest
 * that was left behind could be taken for one of the present run: it then ends a wait early. */
#define RUN_STEP 0x10000u
#define COUNT(word) ((word) & (RUN_STEP - 1))
#define RUN(word) ((word) & ~(RUN_STEP - 1))

static _Atomic uint32_t inside;
static _Atomic uint32_t guests;
static _Atomic bool running;
static bool forked; /* in a child of fork(), until its next run begins */

int sn_foreign_enter(void)
{
	atomic_fetch_add(&inside, 1);
	sn_checked_needed(true);
	if (atomic_load(&running))
		return 0;
	sn_foreign_leave();
	return -ESRCH;
}

void sn_foreign_leave(void)
{
	sn_checked_needed(false);
	if (atomic_fetch_sub(&inside, 1) == 1 && !atomic_load(&running))
		sn_futex_wake(&inside, 1);
}

uint32_t sn_foreign_go_out(void)
{
	/* The run cannot change before the caller has left. */
	const uint32_t run = RUN(atomic_fetch_add(&guests, 1));

	sn_foreign_leave();
	return run;
}

int sn_foreign_come_back(uint32_t run)
{
	/* First, so that there is no moment at which the end of the run sees neither count. */
	int err = sn_foreign_enter();
	uint32_t seen = atomic_load(&guests);

	do {
		if (RUN(seen) != run || COUNT(seen) == 0) {
			/* That run has ended, and waits for this thread no longer. */
			if (err == 0)
				sn_foreign_leave();
			return -ESRCH;
		}
	} while (!atomic_compare_exchange_weak(&guests, &seen, seen - 1));
	if (err < 0)
		sn_futex_wake(&guests, 1);
	return err;
}

uint32_t sn_foreign_count(void)
{
	return atomic_load(&inside) + COUNT(atomic_load(&guests));
}

bool sn_foreign_admitted(void)
{
	return atomic_load(&running);
}

void sn_foreign_begin(void)
{
	/* Only then: otherwise a thread may be about to find that no runtime runs, and to undo its
	 * own count. */
	if (forked) {
		atomic_store(&inside, 0); /* the parent's threads */
		atomic_store(&guests, RUN(atomic_load(&guests)) + RUN_STEP);
	}
	forked = false;
	atomic_store(&running, true);
}

/* Waits for those that are in a callback. Returns how many it leaves behind. */
static uint32_t dismiss_guests(int64_t give_up)
{
	uint32_t seen;

	while (COUNT(seen = atomic_load(&guests)) > 0)
		if (sn_futex_wait(&guests, seen, give_up) == -ETIMEDOUT)
			break;
	return COUNT(atomic_exchange(&guests, RUN(seen) + RUN_STEP));
}

uint32_t sn_foreign_end(int64_t give_up)
{
	SN_BACKOFF(backoff, SN_WAIT_END, 0, 0);
	uint32_t left;

	atomic_store(&running, false);
	while ((left = atomic_load(&inside)) > 0) {
		sn_backoff_pause(&backoff); /* only counts the wait */
		sn_futex_wait(&inside, left, 0);
	}
	/* In this order: a thread that is inside may go out, but none that is out comes back. */
	return dismiss_guests(give_up);
}

/* The count stays until the child runs, because the thread that forked may have been inside. */
void sn_foreign_fork(enum sn_fork_phase phase)
{
	if (phase != SN_FORK_CHILD)
		return;
	atomic_store(&running, false);
	forked = true;
}
