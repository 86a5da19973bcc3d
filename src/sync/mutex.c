/* SPDX-License-Identifier: MIT */
/*
 * Mutexes. The word's bits:
 *
 *   LOCKED    a task or thread holds it
 *   WAITERS   the list is not empty
 *   WOKEN     a waiter has been woken, and will take the mutex or wait again
 *   STARVING  the holder hands it to the first waiter; set only together with LOCKED
 *
 * A caller that finds LOCKED clear may take it: one compare-and-swap when nothing waits. Otherwise
 * it puts itself into the list and sets WAITERS, both under the list's lock, and only while LOCKED
 * is set. A holder that unlocks and finds WAITERS takes the list's lock first, and unlocks under
 * it, by a store that is its last access to the mutex:
 *
 *   - usually: LOCKED is cleared, WOKEN is set, and the first waiter is woken to try again. While
 *     WOKEN is set no other waiter is woken. A holder that locks and unlocks many times while the
 *     woken waiter is on its way therefore pays for one wake-up. That waiter clears WOKEN when it
 *     takes the mutex, or when it waits again, which it then does in front of the others.
 *   - STARVING: LOCKED stays, and the first waiter learns that it is the holder now.
 *
 * Invariant: outside the list's lock, while WAITERS is set, LOCKED or WOKEN is set too, so there is
 * always a party that will look at the list, and no waiter is forgotten. models/mutex.pml checks
 * the invariant. With LOCKED and WAITERS but not WOKEN, and the list's lock held by the holder, no
 * other thread can change the word: one that wants to lock only reads it, and one that would wait
 * or stop waiting needs the list's lock. Therefore the holder may use a plain store.
 *
 * A waiter that has been woken, finds the mutex taken again and has waited for STARVING_NS sets
 * STARVING when it waits again. The waiter that is handed the mutex clears STARVING when it has
 * waited for less, or is the last. Handing over costs a switch for each time that the mutex is
 * held, which is why it is the exception; but without it a waiter can be overtaken forever.
 * STARVING_NS is 1 ms as in Go: well above what a waiter waits under a load that is fair anyway,
 * and below what people notice.
 *
 * A waiter that was woken but found the mutex taken, and is woken again within SPIN_NS of that,
 * would most likely find it taken again, because one holder takes the mutex again and again. Such a
 * waiter becomes the next task of the holder's processor instead of any runnable one. It runs when
 * the holder parks, or after a while on another processor, and no napping thread is woken for it
 * (sched/idle.c). Eight tasks on two processors took 9.5 ns for a round without this and 8.0 with
 * it (bench-tasks, five alternating runs). If every woken waiter became the next task, they took
 * 7.3; but where a lock was held for 5 us, with 5 us in between, two tasks took 10 us a round
 * instead of 6.6, because a waiter that would have got the mutex on another processor was left
 * asleep.
 *
 * Spinning. With several processors, where the holder can be running at the same time, a caller
 * checks for SPIN_NS before its first wait whether the mutex becomes free. This is longer than a
 * short critical section, and shorter than parking and being woken. Of 168,713 waits of bench-mutex
 * ("mutex" in docs/waiting.md, parked time included) 84 % took less than 1 us, 94 % less than 2,
 * and hardly any 2 to 8; 10.8 % parked.
 *
 * owner is for reports of mistakes. Only debug builds, which make such reports, write it; the
 * writer is the holder. Other threads that read it may see any value except their own.
 */
#include "sync/mutex.h"

#include <errno.h>

#include <sennit/clock.h>

#include "sched/runtime.h"
#include "sync/waits.h"
#include "wait/backoff.h"

#define LOCKED 1u
#define WAITERS 2u
#define WOKEN 4u
#define STARVING 8u

#define STARVING_NS 1000000
#define SPIN_NS 1000

/* What a waiter is woken with. */
#define TRY_AGAIN 0
#define HANDED 1

/* In debug builds the holder records itself. */
static inline void note_owner(sn_mutex *mutex, bool owned)
{
	if (SENNIT_DEBUG)
		__atomic_store_n(&mutex->owner, owned ? sn_caller() : 0, __ATOMIC_RELAXED);
}

static void check_relock(sn_mutex *mutex, const char *call)
{
	if (SENNIT_DEBUG && __atomic_load_n(&mutex->owner, __ATOMIC_RELAXED) == sn_caller())
		sn_misuse("%s() called on a mutex that the caller has locked already", call);
}

bool sn_mutex_is_locked(sn_mutex *mutex, const char *call)
{
	bool locked = __atomic_load_n(&mutex->word, __ATOMIC_RELAXED) & LOCKED;

	if (SENNIT_DEBUG && !locked)
		sn_misuse("%s() called on a mutex that is not locked", call);
	if (SENNIT_DEBUG && __atomic_load_n(&mutex->owner, __ATOMIC_RELAXED) != sn_caller())
		sn_misuse("%s() called on a mutex that another task or thread has locked", call);
	return locked;
}

/*
 * The fast paths. Acquire: what earlier holders did is seen; release: the next holder sees what
 * this one did.
 *
 * With several processors the word is read first, so that one compare-and-swap suffices even when a
 * waiter is on its way, which is usual under contention. Without the read, an attempt with an
 * outdated expectation would fail, and take the cache line away from the holder (bench-tasks, eight
 * tasks: 25 ns a round with reading, 31 without). With one processor no other thread runs that
 * could have changed the word, so it is most likely as expected, and reading it first would only
 * wait for the previous store: 25 ns with reading, 19 without. A wrong expectation costs one
 * failing compare-and-swap, nothing else.
 */
static inline uint32_t expect(sn_mutex *mutex, uint32_t word)
{
	return atomic_load_explicit(&sn_runtime.nprocessors, memory_order_relaxed) == 1
		       ? word
		       : __atomic_load_n(&mutex->word, __ATOMIC_RELAXED);
}

/* Takes the mutex if it is free, whether or not others wait. word: a first guess at its value.
 * woken: WOKEN if the caller has to clear this bit, otherwise 0. */
static inline bool take_expecting(sn_mutex *mutex, uint32_t word, uint32_t woken)
{
	while (!(word & LOCKED))
		if (__atomic_compare_exchange_n(&mutex->word, &word, (word | LOCKED) & ~woken, true,
						__ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			return true;
	return false;
}

static bool take(sn_mutex *mutex, uint32_t woken)
{
	return take_expecting(mutex, __atomic_load_n(&mutex->word, __ATOMIC_RELAXED), woken);
}

static inline bool lock_at_once(sn_mutex *mutex)
{
	return take_expecting(mutex, expect(mutex, 0), 0);
}

/* Whether a mutex with this word can be unlocked without waking a waiter. */
static inline bool is_alone(uint32_t word)
{
	return (word & (WAITERS | WOKEN)) != WAITERS;
}

static inline bool unlock_at_once(sn_mutex *mutex)
{
	uint32_t word = expect(mutex, LOCKED);

	while ((word & LOCKED) && is_alone(word))
		if (__atomic_compare_exchange_n(&mutex->word, &word, word & ~(LOCKED | STARVING),
						false, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
			return true;
	return false;
}

/* Takes the mutex and returns true, or sets WAITERS and returns false. The list's lock is held. */
static bool take_or_announce(sn_mutex *mutex, uint32_t woken, uint32_t starving)
{
	uint32_t word = __atomic_load_n(&mutex->word, __ATOMIC_RELAXED), wanted;

	do {
		wanted = word & LOCKED ? word | WAITERS | starving : word | LOCKED;
	} while (!__atomic_compare_exchange_n(&mutex->word, &word, wanted & ~woken, true,
					      __ATOMIC_ACQUIRE, __ATOMIC_RELAXED));
	return !(word & LOCKED);
}

static bool spin(struct sn_thread *self, sn_mutex *mutex, struct sn_backoff *backoff)
{
	if (self && atomic_load_explicit(&sn_runtime.nprocessors, memory_order_relaxed) == 1)
		return false;
	while (sn_backoff_pause(backoff)) {
		uint32_t word = __atomic_load_n(&mutex->word, __ATOMIC_RELAXED);

		if (!(word & LOCKED) && take(mutex, 0))
			return true;
		if (word & STARVING)
			return false;
	}
	return false;
}

/* Called by the waiter that was handed the mutex: clears STARVING, unless this waiter has waited
 * for too long and others wait. */
static void end_starvation(sn_mutex *mutex, bool starving)
{
	if (!starving || !(__atomic_load_n(&mutex->word, __ATOMIC_RELAXED) & WAITERS))
		__atomic_fetch_and(&mutex->word, ~STARVING, __ATOMIC_RELAXED);
}

int sn_mutex_lock_inside(struct sn_thread *self, sn_mutex *mutex, int64_t deadline, uint32_t flags,
			 const char *call)
{
	struct sn_lock *lock = sn_waits_lock_of(mutex);
	SN_BACKOFF(backoff, SN_WAIT_MUTEX, SPIN_NS, 0);
	uint32_t woken = 0, starving = 0;
	struct sn_wait wait;
	int64_t since, now;
	int result;

	check_relock(mutex, call);
	if (take(mutex, 0) || spin(self, mutex, &backoff)) {
		note_owner(mutex, true);
		return 0;
	}
	since = sn_now();
	wait.missed_at = 0;
	for (;;) {
		sn_waiter_init(&wait.waiter, self, deadline, flags);
		sn_lock(lock);
		if (take_or_announce(mutex, woken, starving)) {
			sn_unlock(lock);
			break;
		}
		if (woken)
			sn_waits_put_first(&mutex->waits, &wait);
		else
			sn_waits_put_last(&mutex->waits, &wait);
		sn_backoff_sleeps(&backoff, since);
		result = sn_wait_park(&wait, lock, "a mutex");
		if (result < 0) {
			if (wait.gave_up && !mutex->waits.first)
				__atomic_fetch_and(&mutex->word, ~WAITERS, __ATOMIC_RELAXED);
			sn_unlock(lock);
			return result;
		}
		now = sn_now();
		starving = now - since > STARVING_NS ? STARVING : 0;
		if (result == HANDED) {
			end_starvation(mutex, starving);
			break;
		}
		SN_RACE_WINDOW();
		if (take(mutex, WOKEN))
			break;
		woken = WOKEN;
		wait.missed_at = now;
		self = sn_thread_again(self);
	}
	note_owner(mutex, true);
	return 0;
}

/* Whether the waiter was woken and found the mutex taken within the last SPIN_NS. */
static bool is_missing(const struct sn_wait *wait)
{
	return wait->missed_at && sn_now() - wait->missed_at < SPIN_NS;
}

/* Unlocks when there are waiters, and none of them is on its way. */
static void unlock_for_waiter(struct sn_thread *self, sn_mutex *mutex)
{
	struct sn_lock *lock = sn_waits_lock_of(mutex);
	struct sn_wait *next;
	uint32_t word;
	bool handed;

	sn_lock(lock);
	word = __atomic_load_n(&mutex->word, __ATOMIC_RELAXED);
	next = sn_waits_claim(&mutex->waits);
	handed = next && (word & STARVING);
	word = !next ? 0 : handed ? LOCKED | STARVING : WOKEN;
	if (mutex->waits.first)
		word |= WAITERS;
	SN_RACE_WINDOW();
	__atomic_store_n(&mutex->word, word, __ATOMIC_RELEASE);
	/* From here on the mutex may be gone. */
	sn_unlock(lock);
	if (next)
		sn_waiter_wake(self, &next->waiter, handed ? HANDED : TRY_AGAIN,
			       handed || is_missing(next) ? SN_READY_NEXT : SN_READY_LAST);
}

/* Unlocks, unless a waiter has to be woken for that. */
static bool unlock_alone(sn_mutex *mutex)
{
	uint32_t word = __atomic_load_n(&mutex->word, __ATOMIC_RELAXED);

	while (is_alone(word))
		if (__atomic_compare_exchange_n(&mutex->word, &word, word & ~(LOCKED | STARVING),
						true, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
			return true;
	return false;
}

int sn_mutex_unlock_inside(struct sn_thread *self, sn_mutex *mutex, const char *call)
{
	if (!sn_mutex_is_locked(mutex, call))
		return -EPERM;
	note_owner(mutex, false);
	if (!unlock_alone(mutex))
		unlock_for_waiter(self, mutex);
	return 0;
}

static sn_noinline int lock_slowly(sn_mutex *mutex, int64_t deadline, uint32_t flags,
				   const char *call)
{
	struct sn_thread *self;
	int result;

	/*
	 * The mutex is free, and has waiters. This call takes it without entering the runtime. A
	 * task that enters again and again looks to the monitor as if it did not keep its processor
	 * to itself, but the waiter that is on its way may need this processor.
	 */
	if (take(mutex, 0)) {
		note_owner(mutex, true);
		return 0;
	}
	self = sn_waits_enter(call);
	result = sn_mutex_lock_inside(self, mutex, deadline, flags, call);
	sn_waits_leave(self);
	return result;
}

static sn_noinline int unlock_slowly(sn_mutex *mutex, const char *call)
{
	struct sn_thread *self;

	if (!sn_mutex_is_locked(mutex, call))
		return -EPERM;
	note_owner(mutex, false);
	if (unlock_alone(mutex))
		return 0;
	self = sn_waits_enter(call);
	unlock_for_waiter(self, mutex);
	sn_waits_leave(self);
	return 0;
}

int sn_mutex_lock_until(sn_mutex *mutex, int64_t deadline)
{
	if (sn_unlikely(!mutex))
		return -EINVAL;
	if (sn_likely(lock_at_once(mutex))) {
		note_owner(mutex, true);
		return 0;
	}
	return lock_slowly(mutex, deadline, 0, __func__);
}

int sn_mutex_lock(sn_mutex *mutex)
{
	if (sn_unlikely(!mutex))
		return -EINVAL;
	if (sn_likely(lock_at_once(mutex))) {
		note_owner(mutex, true);
		return 0;
	}
	return lock_slowly(mutex, SN_NO_DEADLINE, 0, __func__);
}

int sn_mutex_lock_uncancelled(sn_mutex *mutex)
{
	if (sn_unlikely(!mutex))
		return -EINVAL;
	if (sn_likely(lock_at_once(mutex))) {
		note_owner(mutex, true);
		return 0;
	}
	return lock_slowly(mutex, SN_NO_DEADLINE, SN_WAITER_UNCANCELLABLE, __func__);
}

int sn_mutex_try_lock(sn_mutex *mutex)
{
	if (sn_unlikely(!mutex))
		return -EINVAL;
	if (!take(mutex, 0))
		return -EBUSY;
	note_owner(mutex, true);
	return 0;
}

int sn_mutex_unlock(sn_mutex *mutex)
{
	if (sn_unlikely(!mutex))
		return -EINVAL;
	if (!SENNIT_DEBUG && sn_likely(unlock_at_once(mutex)))
		return 0;
	return unlock_slowly(mutex, __func__);
}
