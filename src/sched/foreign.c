/* SPDX-License-Identifier: MIT */
#include "sched/foreign.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>

#include <sennit/blocking.h>
#include <sennit/run.h>

#include "sched/runtime.h"
#include "sched/scan_serve.h"
#include "wait/backoff.h"
#include "wait/checked.h"
#include "wait/futex.h"

/* The word `guests` has the number of the run in its upper half, and the count in its lower half.
 * After 65,536 more runs, a guest that was left behind could be taken for one of the present run;
 * the end of that run then waits for one guest too few. */
#define RUN_STEP 0x10000u
#define COUNT(word) ((word) & (RUN_STEP - 1))
#define RUN(word) ((word) & ~(RUN_STEP - 1))

static _Atomic uint32_t inside;
static _Atomic uint32_t guests;
static _Atomic bool running;
static _Atomic bool forked; /* in a child of fork(), until its next run begins */

/* How many brackets the calling thread is in. */
static __thread volatile sig_atomic_t marks __attribute__((tls_model("initial-exec")));

/* Whether the runtime knows the thread, hidden or not. */
static bool is_known(void)
{
	return sn_private_self() || sn_scan_hidden;
}

/* Both are out of line. Before or after them a task may change threads, and the compiler could keep
 * the address of a thread-local of the first thread. */
sn_noinline void sn_foreign_mark(void)
{
	if (is_known())
		return;
	marks++;
	sn_compiler_barrier();
}

sn_noinline void sn_foreign_unmark(void)
{
	sn_compiler_barrier();
	/* A thread that was known has no mark. In a child of fork() it is not known any more. */
	if (!is_known() && marks > 0)
		marks--;
}

bool sn_foreign_is_marked(void)
{
	return marks > 0;
}

int sn_foreign_enter(void)
{
	sn_foreign_mark();
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
	sn_foreign_unmark();
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
	/* Enters before it leaves the count of guests, so that the end of the run finds the thread
	 * in one of the counts at any moment. */
	int err = sn_foreign_enter();
	uint32_t seen = atomic_load(&guests);

	do {
		if (RUN(seen) != run || COUNT(seen) == 0) {
			/* That run has ended, and no longer waits for this thread. */
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

uint32_t sn_private_run(void)
{
	/* A task belongs to its run also while that ends. */
	if (sn_private_self() || atomic_load(&running))
		return atomic_load(&sn_runtime.run);
	return atomic_load(&forked) ? SN_PRIVATE_FORKED : 0;
}

void sn_foreign_begin(void)
{
	/* Only in a child are the counts reset. In other processes a thread may have incremented
	 * `inside`, and be about to find that no runtime runs and to decrement it. */
	if (atomic_load(&forked)) {
		atomic_store(&inside, 0); /* it counted threads of the parent */
		atomic_store(&guests, RUN(atomic_load(&guests)) + RUN_STEP);
	}
	atomic_store(&forked, false);
	atomic_store(&running, true);
}

/* Waits for guests, which are in callbacks. Returns how many it leaves behind. */
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
	/* After the wait for `inside`, because a thread that is inside may still become a guest,
	 * whereas no guest comes back inside any more. */
	return dismiss_guests(give_up);
}

/* The counts stay until the child begins a run, because the thread that forked may be inside, and
 * then leaves. */
void sn_foreign_fork(enum sn_fork_phase phase)
{
	if (phase != SN_FORK_CHILD)
		return;
	atomic_store(&running, false);
	atomic_store(&forked, true);
}
