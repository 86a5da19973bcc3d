/* SPDX-License-Identifier: MIT */
/*
 * The mutex: src/sync/mutex.c.
 *
 * What is modelled, by the names of the C code:
 *   lock()     sn_mutex_lock_inside(): taking it, announcing under the list's lock, waiting, being
 *              woken to try again or being handed the mutex, waiting again at the front, giving up
 *              after a deadline
 *   unlock()   unlock_alone() and unlock_for_waiter()
 *   list       mutex->waits; claims are those of src/task/waiter.h
 * WORKERS tasks each lock and unlock the mutex ROUNDS times, and then drop a reference, whose count
 * the mutex guards. The task that drops the last reference frees the mutex. The first GIVE_UP of
 * them have deadlines, which pass at any time.
 *
 * Abstracted: how long a task has waited is arbitrary, so STARVING is set or not. Spinning is one
 * more attempt. The processor runs every worker that can run.
 *
 * Safety: one holder at a time; no access after it was freed; outside the list's lock, with WAITERS
 * set, LOCKED or WOKEN is set; no other party has changed what unlock_for_waiter() overwrites;
 * STARVING only together with LOCKED; and at the end all workers have done their rounds, so none
 * sleeps forever.
 *
 * Mutants, each of which must be caught:
 *   ANNOUNCE_BLINDLY   a waiter sets WAITERS without checking whether the mutex is still locked
 *   KEEP_WOKEN         a waiter that waits again does not clear WOKEN
 *   WAKE_CLAIMED       a waiter whose deadline has claimed the wait is woken nevertheless
 *   WOKEN_GIVES_UP     a waiter that was woken, and is past its deadline, does not try again
 *   HAND_UNLOCKED      LOCKED is cleared when the mutex is handed on
 *   UNLOCK_FIRST       LOCKED is cleared first, and only then does the owner look for a waiter
 */
#ifndef WORKERS
#define WORKERS 3
#endif
#ifndef ROUNDS
#define ROUNDS 1
#endif
#ifndef GIVE_UP
#define GIVE_UP 1
#endif

#define NOBODY 255
#define WAITS 0
#define TRY_AGAIN 1
#define HANDED 2

/* The mutex's word. */
bool locked, waiters, woken, starving;

bool list_locked;
byte list[WORKERS];
byte list_size;

bool claimed[WORKERS];
byte result[WORKERS];

byte holders, references = WORKERS, finished;
bool freed;

inline lock_list()
{
	atomic { !list_locked -> list_locked = 1 }
}

inline unlock_list()
{
	d_step {
		assert(!waiters || locked || woken);
		assert(!starving || locked);
		list_locked = 0
	}
}

inline put_first(who)
{
	d_step {
		assert(!freed);
		i = list_size;
		do
		:: i > 0 -> list[i] = list[i - 1]; i--
		:: else -> break
		od;
		list[0] = who;
		list_size++;
		i = 0
	}
}

inline put_last(who)
{
	d_step { assert(!freed); list[list_size] = who; list_size++ }
}

/* Takes the first waiter of the list; NOBODY if there is none. */
inline take_first(who)
{
	d_step {
		assert(!freed);
		who = NOBODY;
		if
		:: list_size > 0 ->
			who = list[0];
			list_size--;
			i = 0;
			do
			:: i < list_size -> list[i] = list[i + 1]; i++
			:: else -> break
			od;
			i = 0
		:: else
		fi
	}
}

/* gone: whether it was in the list. */
inline remove(who)
{
	d_step {
		gone = 0;
		i = 0;
		do
		:: i < list_size && list[i] == who -> gone = 1; break
		:: i < list_size && list[i] != who -> i++
		:: i >= list_size -> break
		od;
		if
		:: gone ->
			assert(!freed);
			list_size--;
			do
			:: i < list_size -> list[i] = list[i + 1]; i++
			:: else -> break
			od
		:: else
		fi;
		i = 0
	}
}

/* got: whether the task has locked the mutex. */
inline lock(deadline)
{
	mine = 0;
	patient = 0;
	got = 0;
	d_step {
		assert(!freed);
		if
		:: !locked -> locked = 1; got = 1
		:: else
		fi
	};
	do
	:: got -> break
	:: else ->
		lock_list();
		claimed[me] = 0;
		result[me] = WAITS;
		d_step {
			assert(!freed);
#ifdef ANNOUNCE_BLINDLY
			if
			:: 0
#else
			if
			:: !locked -> locked = 1; got = 1
#endif
			:: else ->
				waiters = 1;
				starving = starving || (patient && locked)
			fi;
#ifndef KEEP_WOKEN
			woken = woken && !mine
#else
			woken = woken && !(mine && got)
#endif
		};
		if
		:: got -> unlock_list(); break
		:: else
		fi;
		if
		:: mine -> put_first(me)
		:: else -> put_last(me)
		fi;
		list_locked = 0; /* not unlock_list(), because a mutant breaks what that asserts */
		if
		:: result[me] != WAITS
		:: atomic { deadline && !claimed[me] -> claimed[me] = 1 };
			lock_list();
			remove(me);
			if
			:: gone && list_size == 0 -> waiters = 0
			:: else
			fi;
			unlock_list();
			break
		fi;
		if
		:: patient = 0
		:: patient = 1
		fi;
		if
		:: result[me] == HANDED ->
			got = 1;
			if
			:: !patient || !waiters -> starving = 0
			:: else
			fi;
			break
		:: else
		fi;
#ifdef WOKEN_GIVES_UP
		if
		:: deadline -> break
		:: 1
		fi;
#endif
		mine = 1;
		d_step {
			assert(!freed);
			if
			:: !locked -> locked = 1; woken = 0; got = 1
			:: else
			fi
		}
	od
}

inline unlock()
{
#ifdef UNLOCK_FIRST
	d_step { assert(!freed); alone = !(waiters && !woken); locked = 0; starving = 0 };
#else
	d_step {
		assert(!freed && locked);
		alone = !(waiters && !woken);
		if
		:: alone -> locked = 0; starving = 0; waiters = waiters && woken
		:: else
		fi
	};
#endif
	if
	:: alone
	:: else ->
		lock_list();
		do
		:: take_first(next);
			if
			:: next == NOBODY -> break
#ifdef WAKE_CLAIMED
			:: next != NOBODY -> claimed[next] = 1; break
#else
			:: atomic { next != NOBODY && !claimed[next] -> claimed[next] = 1 }; break
			:: next != NOBODY && claimed[next]
#endif
			fi
		od;
		skip; /* a jump must not lead into the next statement */
		d_step {
			assert(!freed);
#ifndef UNLOCK_FIRST
			assert(locked && !woken);
#endif
			hands = next != NOBODY && starving;
#ifdef HAND_UNLOCKED
			locked = 0;
#else
			locked = hands;
#endif
			starving = hands && locked;
			woken = next != NOBODY && !hands;
			waiters = list_size > 0
		};
		unlock_list();
		if
		:: next != NOBODY ->
			if
			:: hands -> result[next] = HANDED
			:: else -> result[next] = TRY_AGAIN
			fi
		:: else
		fi
	fi
}

proctype worker(byte me)
{
	byte i, round, next;
	bool mine, patient, got, gone, alone, hands, last;

	do
	:: round < ROUNDS ->
		lock(me < GIVE_UP);
		if
		:: got ->
			holders++;
			assert(holders == 1);
			holders--;
			unlock()
		:: else
		fi;
		round++
	:: else -> break
	od;
	lock(0);
	holders++;
	assert(holders == 1);
	references--;
	last = references == 0;
	holders--;
	unlock();
	if
	:: last -> freed = 1
	:: else
	fi;
	finished++
}

init
{
	byte w;

	atomic {
		do
		:: w < WORKERS -> run worker(w); w++
		:: else -> break
		od
	};
	finished == WORKERS;
	assert(list_size == 0 && !locked && !waiters && !woken && !starving)
}
