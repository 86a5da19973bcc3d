/* SPDX-License-Identifier: MIT */
/*
 * Locks for many readers or one writer. The word's bits:
 *
 *   WRITER    a writer holds it
 *   WAITERS   one of the lists is not empty
 *   the rest  how many readers hold it, in units of READER
 *
 * Without WAITERS everything is done by compare-and-swap. A caller that would have to wait sets
 * WAITERS, under the lists' lock, and from then on every newcomer waits too. While WAITERS is set,
 * only one kind of change is made without the lists' lock: a reader that is not the last leaves.
 * All others are made by let_in(), under that lock: when the last holder leaves, or a waiter stops
 * waiting. The holder that leaves last hands the lock on in the same step. The lock is therefore
 * never free with WAITERS set, and no newcomer overtakes a waiter.
 *
 * The turns: a writer that leaves lets in all waiting readers, or else the first writer; the last
 * reader that leaves lets in the first writer, or else the readers. The readers that wait therefore
 * come between two writers; and because newcomers wait while a writer does, a writer comes between
 * two groups of readers.
 *
 * The store that hands on is the last access of the leaving caller to the lock: see waits.h.
 *
 * owner: the writer that holds the lock, as in mutex.c.
 */
#include <sennit/rwlock.h>

#include <errno.h>
#include <stdbool.h>

#include "sync/waits.h"

#define WRITER 1u
#define WAITERS 2u
#define READER 4u

_Static_assert(SN_RWLOCK_MAX_READERS == UINT32_MAX / READER, "as many as there is room for");

static inline void note_owner(sn_rwlock *rw, bool owned)
{
	if (SENNIT_DEBUG)
		__atomic_store_n(&rw->owner, owned ? sn_caller() : 0, __ATOMIC_RELAXED);
}

static bool read_if_free(sn_rwlock *rw, uint32_t *word)
{
	*word = __atomic_load_n(&rw->word, __ATOMIC_RELAXED);
	while (!(*word & (WRITER | WAITERS)) && *word <= UINT32_MAX - READER)
		if (__atomic_compare_exchange_n(&rw->word, word, *word + READER, true,
						__ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			return true;
	return false;
}

static bool write_if_free(sn_rwlock *rw)
{
	uint32_t word = 0;

	return __atomic_compare_exchange_n(&rw->word, &word, WRITER, false, __ATOMIC_ACQUIRE,
					   __ATOMIC_RELAXED);
}

/* Sets WAITERS if the caller has to wait; returns false if it no longer has to. The lists' lock is
 * held. */
static bool announce(sn_rwlock *rw, bool writes)
{
	uint32_t word = __atomic_load_n(&rw->word, __ATOMIC_RELAXED);

	do {
		if (writes ? word == 0 : !(word & (WRITER | WAITERS)))
			return false;
	} while (!(word & WAITERS) &&
		 !__atomic_compare_exchange_n(&rw->word, &word, word | WAITERS, true,
					      __ATOMIC_RELAXED, __ATOMIC_RELAXED));
	return true;
}

/* Claims the waiters that are to hold the lock next, beside those that still hold it (held).
 * Returns what these waiters add to the word. */
static uint32_t choose(sn_rwlock *rw, uint32_t held, bool after_writer, struct sn_wait_chain *chain)
{
	uint32_t readers = 0;

	if (held & WRITER)
		return 0;
	if (held ? !rw->writers.first : after_writer)
		readers = sn_waits_claim_several(&rw->readers, SN_WAITS_ALL, chain);
	if (held || readers)
		return readers * READER;
	if (sn_waits_claim_several(&rw->writers, 1, chain))
		return WRITER;
	return READER * sn_waits_claim_several(&rw->readers, SN_WAITS_ALL, chain);
}

/*
 * Lets in the waiters that are to hold the lock next. The lists' lock is held. leaves: what the
 * leaving caller has in the word: WRITER, READER, or 0 if it has only waited.
 *
 * Readers may leave while this runs. Each round therefore checks again whether others hold the
 * lock, until waiters have been chosen: the caller may turn out to be the last to leave.
 *
 * Release: a caller that is let in, or comes later, sees what this caller did. Acquire: it also
 * sees what the other readers did before they left, because this store continues their release
 * sequence.
 */
static void let_in(sn_rwlock *rw, uint32_t leaves, struct sn_wait_chain *chain)
{
	uint32_t word = __atomic_load_n(&rw->word, __ATOMIC_RELAXED), n = 0, held, wanted;

	do {
		held = (word & ~WAITERS) - leaves;
		if (n == 0)
			n = choose(rw, held, leaves == WRITER, chain);
		wanted = held + n;
		if (rw->readers.first || rw->writers.first)
			wanted |= WAITERS;
		SN_RACE_WINDOW();
	} while (!__atomic_compare_exchange_n(&rw->word, &word, wanted, true, __ATOMIC_ACQ_REL,
					      __ATOMIC_RELAXED));
}

static int wait_for(sn_rwlock *rw, bool writes, int64_t deadline, uint32_t flags, const char *call)
{
	struct sn_lock *lock = sn_waits_lock_of(rw);
	struct sn_thread *self = sn_waits_enter(call);
	struct sn_wait_chain chain = {0};
	struct sn_wait wait;
	uint32_t word;
	int result = 0;

	if (SENNIT_DEBUG && __atomic_load_n(&rw->owner, __ATOMIC_RELAXED) == sn_caller())
		sn_misuse("%s() called on a lock that the caller has locked for writing already",
			  call);
	for (;;) {
		if (writes ? write_if_free(rw) : read_if_free(rw, &word))
			break;
		if (!writes && !(word & (WRITER | WAITERS))) {
			result = -EAGAIN;
			break;
		}
		sn_lock(lock);
		if (!announce(rw, writes)) {
			sn_unlock(lock);
			continue; /* only after another caller has left, so there is progress */
		}
		sn_waiter_init(&wait.waiter, self, deadline, flags);
		sn_waits_put_last(writes ? &rw->writers : &rw->readers, &wait);
		result = sn_wait_park(&wait, lock, "a read-write lock");
		if (result < 0) {
			/* Readers may have waited only because of this writer. */
			if (wait.gave_up)
				let_in(rw, 0, &chain);
			sn_unlock(lock);
			self = sn_thread_again(self);
			sn_waits_wake(self, &chain, 0, SN_READY_LAST);
		}
		break;
	}
	sn_waits_leave(sn_thread_again(self));
	if (writes && result == 0)
		note_owner(rw, true);
	return result;
}

static void leave_to_waiters(sn_rwlock *rw, uint32_t leaves, const char *call)
{
	struct sn_lock *lock = sn_waits_lock_of(rw);
	struct sn_thread *self = sn_waits_enter(call);
	struct sn_wait_chain chain = {0};

	sn_lock(lock);
	let_in(rw, leaves, &chain);
	/* From here on the lock may be gone. */
	sn_unlock(lock);
	sn_waits_wake(self, &chain, 0,
		      chain.first && chain.first == chain.last ? SN_READY_NEXT : SN_READY_LAST);
	sn_waits_leave(self);
}

static inline int lock_reading(sn_rwlock *rw, int64_t deadline, uint32_t flags, const char *call)
{
	uint32_t word;

	if (sn_unlikely(!rw))
		return -EINVAL;
	return sn_likely(read_if_free(rw, &word)) ? 0 : wait_for(rw, false, deadline, flags, call);
}

static inline int lock_writing(sn_rwlock *rw, int64_t deadline, uint32_t flags, const char *call)
{
	if (sn_unlikely(!rw))
		return -EINVAL;
	if (sn_unlikely(!write_if_free(rw)))
		return wait_for(rw, true, deadline, flags, call);
	note_owner(rw, true);
	return 0;
}

int sn_rwlock_read_until(sn_rwlock *rw, int64_t deadline)
{
	return lock_reading(rw, deadline, 0, __func__);
}

int sn_rwlock_read(sn_rwlock *rw)
{
	return lock_reading(rw, SN_NO_DEADLINE, 0, __func__);
}

int sn_rwlock_read_uncancelled(sn_rwlock *rw)
{
	return lock_reading(rw, SN_NO_DEADLINE, SN_WAITER_UNCANCELLABLE, __func__);
}

int sn_rwlock_try_read(sn_rwlock *rw)
{
	uint32_t word;

	if (sn_unlikely(!rw))
		return -EINVAL;
	if (read_if_free(rw, &word))
		return 0;
	return word & (WRITER | WAITERS) ? -EBUSY : -EAGAIN;
}

int sn_rwlock_write_until(sn_rwlock *rw, int64_t deadline)
{
	return lock_writing(rw, deadline, 0, __func__);
}

int sn_rwlock_write(sn_rwlock *rw)
{
	return lock_writing(rw, SN_NO_DEADLINE, 0, __func__);
}

int sn_rwlock_write_uncancelled(sn_rwlock *rw)
{
	return lock_writing(rw, SN_NO_DEADLINE, SN_WAITER_UNCANCELLABLE, __func__);
}

int sn_rwlock_try_write(sn_rwlock *rw)
{
	if (sn_unlikely(!rw))
		return -EINVAL;
	if (!write_if_free(rw))
		return -EBUSY;
	note_owner(rw, true);
	return 0;
}

int sn_rwlock_read_unlock(sn_rwlock *rw)
{
	uint32_t word;

	if (sn_unlikely(!rw))
		return -EINVAL;
	word = __atomic_load_n(&rw->word, __ATOMIC_RELAXED);
	for (;;) {
		if (word < READER) {
			if (SENNIT_DEBUG)
				sn_misuse("%s() called on a lock that is not locked for reading",
					  __func__);
			return -EPERM;
		}
		if ((word & WAITERS) && word < 2 * READER) {
			leave_to_waiters(rw, READER, __func__);
			return 0;
		}
		if (__atomic_compare_exchange_n(&rw->word, &word, word - READER, true,
						__ATOMIC_RELEASE, __ATOMIC_RELAXED))
			return 0;
	}
}

int sn_rwlock_write_unlock(sn_rwlock *rw)
{
	uint32_t word = WRITER;

	if (sn_unlikely(!rw))
		return -EINVAL;
	if (SENNIT_DEBUG) {
		if (!(__atomic_load_n(&rw->word, __ATOMIC_RELAXED) & WRITER))
			sn_misuse("%s() called on a lock that is not locked for writing", __func__);
		if (__atomic_load_n(&rw->owner, __ATOMIC_RELAXED) != sn_caller())
			sn_misuse("%s() called on a lock that the caller has not locked", __func__);
		note_owner(rw, false);
	}
	if (sn_likely(__atomic_compare_exchange_n(&rw->word, &word, 0, false, __ATOMIC_RELEASE,
						  __ATOMIC_RELAXED)))
		return 0;
	if (!(word & WRITER))
		return -EPERM;
	leave_to_waiters(rw, WRITER, __func__);
	return 0;
}
