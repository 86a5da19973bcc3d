/* SPDX-License-Identifier: MIT */
#include "sched/lease.h"

#include <stdatomic.h>

#include "sched/abandon.h"
#include "sched/processor.h"
#include "sched/record.h"
#include "sched/runtime.h"
#include "sched/scan_serve.h"
#include "sched/switch.h"
#include "sched/sysmon_sleep.h"
#include "sched/task.h"
#include "sched/thread.h"
#include "wait/backoff.h"
#include "wait/futex.h"
#include "wait/lock.h"

/*
 * How long a thread spins and yields for the decision on a revocation before it sleeps. A
 * membarrier takes 1 to 3 us, so if the decision takes longer, the monitor is not running. In the
 * tests of scans ("lease" in docs/waiting.md) 63 of 100 waits were over after 4 us, 80 after 16,
 * and the rest took up to 0.5 ms.
 */
#define DECISION_SPIN_NS 5000
#define DECISION_YIELD_NS 20000

/* Changes the word from expected to desired, and returns whether it was expected. */
static bool word_is(struct sn_private_lease *lease, uint32_t expected, uint32_t desired)
{
	return __atomic_compare_exchange_n(&lease->word, &expected, desired, false,
					   __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

/* Ends a revocation: changes the word from REVOKING or AWAITED to the decision. If the end of the
 * runtime has already stored REVOKED, that stays. */
static void decide(struct sn_private_lease *lease, uint32_t decision)
{
	if (word_is(lease, SN_LEASE_REVOKING, decision))
		return;
	if (word_is(lease, SN_LEASE_AWAITED, decision))
		sn_futex_wake((_Atomic uint32_t *)&lease->word, 1);
}

bool sn_lease_revoke(struct sn_thread *thread, struct sn_processor *processor, bool blocks)
{
	struct sn_private_lease *lease = &thread->lease;
	struct sn_task *task;
	bool passed;

	if (!word_is(lease, sn_lease_held(), SN_LEASE_REVOKING) &&
	    !word_is(lease, SN_LEASE_ASKED, SN_LEASE_REVOKING))
		return false;
	SN_RACE_WINDOW();
	passed = sn_barrier_everywhere();
	SN_RACE_WINDOW();
	/*
	 * Acquire: the monitor sees all that the thread did before it went outside, above all to
	 * its processor. If the thread is outside, it waits in sn_private_lease_lost() at its next
	 * entry before it does anything else.
	 */
	if (!passed || __atomic_load_n(&lease->inside, __ATOMIC_ACQUIRE) ||
	    thread->processor != processor) {
		decide(lease, sn_lease_held());
		if (atomic_load(&thread->asked) || atomic_load(&thread->expired))
			word_is(lease, SN_LEASE_HELD, SN_LEASE_ASKED);
		return false;
	}
	thread->processor = NULL;
	atomic_store_explicit(&processor->thread, NULL, memory_order_relaxed);
	thread->blocked = blocks;
	/* Until the decision, only the monitor changes the status. The decision orders this change
	 * before those that the thread makes later. */
	task = __atomic_load_n(&thread->task, __ATOMIC_RELAXED);
	if (task) { /* NULL if the runtime has ended in between */
		sn_status_set(&task->word, SN_TASK_BLOCKING, SN_BY_MONITOR);
		sn_record_timed(processor->record,
				sn_record_what(SN_RECORD_REVOKE, 0, sn_record_id(task)));
	}
	decide(lease, SN_LEASE_REVOKED);
	return true;
}

void sn_lease_ask(struct sn_thread *thread)
{
	atomic_store(&thread->asked, 1);
	/* With any other value the thread takes the slow path anyway, or the party that makes the
	 * word HELD checks `asked` after that. */
	word_is(&thread->lease, SN_LEASE_HELD, SN_LEASE_ASKED);
}

/* The value of `expired` for a decision. 0 means that nothing has expired, so the decision with the
 * number 0 counts as the one before it, which does no harm. */
static uint32_t expiry_of(uint32_t tick)
{
	return tick ? tick : UINT32_MAX;
}

void sn_lease_expire(struct sn_thread *thread, uint32_t tick)
{
	atomic_store(&thread->expired, expiry_of(tick));
	word_is(&thread->lease, SN_LEASE_HELD, SN_LEASE_ASKED);
}

/* Lends the processor if the monitor has asked for that during the present decision. The thread has
 * its processor. */
static void lend_if_expired(struct sn_thread *self)
{
	uint32_t expired = 0;

	if (sn_unlikely(atomic_load(&self->expired)))
		expired = atomic_exchange(&self->expired, 0);
	if (expired && expired == expiry_of(atomic_load_explicit(&self->processor->tick,
								 memory_order_relaxed)))
		sn_processor_lend(self);
}

void sn_lease_end(struct sn_thread *thread)
{
	if (__atomic_exchange_n(&thread->lease.word, SN_LEASE_REVOKED, __ATOMIC_SEQ_CST) ==
	    SN_LEASE_AWAITED)
		sn_futex_wake((_Atomic uint32_t *)&thread->lease.word, 1);
}

/* Waits while a revocation is under way, and returns the decision. */
static uint32_t await_decision(struct sn_private_lease *lease)
{
	SN_BACKOFF(backoff, SN_WAIT_LEASE, DECISION_SPIN_NS, DECISION_YIELD_NS);
	uint32_t word;

	for (;;) {
		word = __atomic_load_n(&lease->word, __ATOMIC_ACQUIRE);
		if (word != SN_LEASE_REVOKING && word != SN_LEASE_AWAITED)
			return word;
		if (sn_backoff_pause(&backoff))
			continue;
		if (word == SN_LEASE_AWAITED || word_is(lease, word, SN_LEASE_AWAITED))
			sn_futex_wait((_Atomic uint32_t *)&lease->word, SN_LEASE_AWAITED, 0);
	}
}

/* The slow path of every entry into the runtime. The thread has already stored inside = 1. */
void sn_private_lease_lost(struct sn_private_lease *lease)
{
	struct sn_thread *self = sn_container_of(lease, struct sn_thread, lease);
	int saved_errno = *self->errno_location;
	uint32_t word;

	/* For FENCED: the thread's fence between its store of inside and the load of word. */
	atomic_thread_fence(memory_order_seq_cst);
	SN_RACE_WINDOW();
	do {
		word = await_decision(lease);
	} while (word == SN_LEASE_ASKED && !word_is(lease, SN_LEASE_ASKED, SN_LEASE_HELD));
	if (word == SN_LEASE_REVOKED) {
		if (sn_thread_must_end(self))
			sn_abandon(self);
		sn_processor_regain(self);
		__atomic_store_n(&lease->word, sn_lease_held(), __ATOMIC_SEQ_CST);
		/* The end of the runtime may have stored REVOKED before that store, which has then
		 * overwritten it. */
		if (sn_thread_must_end(self))
			sn_abandon(self);
		if (self->blocked) {
			self->blocked = false;
			self->task->may_block = SN_BLOCKS_AGAIN;
			sn_sysmon_expect_block();
		}
	}
	lend_if_expired(self);
	if (sn_unlikely(atomic_load(&self->asked)))
		sn_scan_serve_own(self);
	*self->errno_location = saved_errno;
}

void sn_private_bracket_check(struct sn_private_lease *lease, int entering)
{
	const char *call = entering ? "sn_enter_blocking()" : "sn_exit_blocking()";

	if (__atomic_load_n(&lease->inside, __ATOMIC_RELAXED))
		sn_fatal("%s called inside the runtime", call);
	if (entering && __atomic_load_n(&lease->blocking, __ATOMIC_RELAXED))
		sn_fatal("%s called twice: the bracket is already open", call);
	if (!entering && !__atomic_load_n(&lease->blocking, __ATOMIC_RELAXED))
		sn_fatal("%s called without sn_enter_blocking()", call);
}
