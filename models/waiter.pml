/* SPDX-License-Identifier: MIT */
/*
 * A wait that three parties can end: src/task/waiter.h, src/task/cancel.h, and the patient join of
 * src/task/join.c as the user of both.
 *
 * What is modelled, by the names of the C code:
 *   waiting()    join_patiently(): claim() of the join word, sn_waiter_park() (park_shared() with
 *                sn_cancel_publish(), sn_timer_start(), commit_park(), sn_timer_stop(),
 *                sn_cancel_retract()), the retreat after an error; then a second join, which may
 *                wait without a limit
 *   ending()     commit_end(), end_joined()
 *   timer()      sn_timers_run(), which calls deadline_fire() under the heap's lock
 *   canceller()  the party that sets the reason and then calls sn_cancel_take()
 * claimed, done and parked are the bits of the waiter's state; each is set by an atomic or, which
 * is a d_step here. Locks are modelled as they are; the heap's also guards "armed".
 *
 * Abstracted: memory orders, because all data passes from party to party through the bits' atomic
 * ors (acquire and release) or a lock.
 *
 * Safety (assertions): the waiter is not touched after its owner has left; the result is written
 * once and before the owner reads it; the task is made runnable once and only when parked; a join
 * that failed has not taken the task, and one that succeeded has; the task is freed once. At the
 * end no party sleeps, even if the task NEVER_ENDS but is cancelled, or the timer fires.
 *
 * Mutants, each of which must be caught:
 *   RETRACT_UNLOCKED   the owner leaves without the cancel lock
 *   NO_TIMER_STOP      the owner leaves without stopping the timer
 *   LEAVE_UNLOCKED     the owner takes its waiter out of the join word without the task's lock
 *   STALE_WAITER       the ending task uses the waiter that it read before it had the lock
 *   NO_CLAIM           the timer ends the wait without the claim
 *   COMMIT_FORGETS     the commit does not check whether the wait is over already
 *   NO_LOOK            the owner publishes its waiter without reading the reason
 *   LOOK_UNLOCKED      it reads the reason before it takes the lock
 */
#define RUNNING 0
#define ENDED 1
#define WAITER 2
#define TAKEN 3 /* taken by a join that need not wait */

#define OK 1
#define FAILED 2

byte word = RUNNING;
bool ended;
byte freed;

bool alive; /* the waiter is on its owner's stack */
bool claimed, done, parked;
byte result;
bool runnable, asleep;
bool in_waiter, reason, armed;
bool cancel_lock, join_lock, heap_lock;

#define USED assert(alive)

inline lock(l)
{
	atomic { !l -> l = 1 }
}
inline unlock(l)
{
	l = 0
}

/* won: whether this party has claimed the waiter */
inline sn_waiter_claim(won)
{
	d_step { USED; won = !claimed; claimed = 1 }
}

/* wake: whether the task is parked, so that it has to be woken */
inline finish(value, wake)
{
	d_step { USED; assert(result == 0); result = value };
	d_step { USED; done = 1; wake = parked }
}

inline sn_ready()
{
	d_step { assert(asleep && !runnable); runnable = 1 }
}

inline sn_waiter_park()
{
	lock(cancel_lock);
#ifdef NO_LOOK
	err = 0;
#elif !defined(LOOK_UNLOCKED)
	err = reason;
#endif
	if
	:: !err -> in_waiter = 1
	:: else
	fi;
	unlock(cancel_lock);
	if
	:: !err -> lock(heap_lock); armed = 1; unlock(heap_lock)
	:: else ->
		sn_waiter_claim(won);
		if
		:: won -> finish(FAILED, wake)
		:: else
		fi
	fi;
	if
	:: done
	:: else ->
		asleep = 1; /* the switch */
#ifdef COMMIT_FORGETS
		d_step { USED; parked = 1; wake = 0 };
#else
		d_step { USED; parked = 1; wake = done };
#endif
		if
		:: wake -> sn_ready()
		:: else
		fi;
		d_step { runnable -> runnable = 0; asleep = 0 }
	fi;
#ifndef NO_TIMER_STOP
	lock(heap_lock);
	armed = 0;
	unlock(heap_lock);
#endif
#ifdef RETRACT_UNLOCKED
	in_waiter = 0
#else
	lock(cancel_lock);
	in_waiter = 0;
	unlock(cancel_lock)
#endif
}

proctype waiting()
{
	bool err, won, wake;
	byte state;

	d_step { alive = 1; state = word; if :: word == RUNNING -> word = WAITER :: else fi }
	if
	:: state == RUNNING ->
#ifdef LOOK_UNLOCKED
		err = reason;
#endif
		sn_waiter_park();
		assert(result != 0);
		if
		:: result == FAILED ->
#ifndef LEAVE_UNLOCKED
			lock(join_lock);
#endif
			d_step { if :: word == WAITER -> word = RUNNING :: else fi };
#ifndef LEAVE_UNLOCKED
			unlock(join_lock)
#endif
		:: else -> d_step { assert(word == WAITER && ended); freed++ }
		fi
	:: else -> d_step { assert(state == ENDED); word = TAKEN; freed++ }
	fi;
	alive = 0;
	/* The handle is still valid, so the task is joined again after its end. */
	if
	:: result == FAILED ->
#ifndef NEVER_ENDS
		d_step { word == ENDED -> word = TAKEN; freed++ }
#endif
	:: else
	fi
}

proctype ending()
{
	byte state;
	bool won, wake;

	ended = 1;
	d_step { state = word; if :: word == RUNNING -> word = ENDED :: else fi };
	if
	:: state == RUNNING
	:: else ->
		lock(join_lock);
#ifndef STALE_WAITER
		state = word;
#endif
		do
		:: state == WAITER ->
			sn_waiter_claim(won);
			if
			:: won -> finish(OK, wake); break
			:: else
			fi;
			d_step { state = word; if :: word == WAITER -> word = ENDED :: else fi };
			if
			:: state == WAITER -> break
			:: else
			fi
		:: state == RUNNING ->
			d_step { state = word; if :: word == RUNNING -> word = ENDED :: else fi };
			if
			:: state == RUNNING -> break
			:: else
			fi
		od;
		unlock(join_lock);
		if
		:: wake -> sn_ready()
		:: else
		fi
	fi
}

proctype timer()
{
	bool won, wake;

	lock(heap_lock);
	if
	:: armed ->
#ifdef NO_CLAIM
		won = 1;
#else
		sn_waiter_claim(won);
#endif
		if
		:: won -> finish(FAILED, wake)
		:: else
		fi;
		armed = 0
	:: else
	fi;
	unlock(heap_lock);
	if
	:: wake -> sn_ready()
	:: else
	fi
}

proctype canceller()
{
	bool won, wake;

	reason = 1;
	lock(cancel_lock);
	if
	:: in_waiter ->
		sn_waiter_claim(won);
		if
		:: won -> finish(FAILED, wake)
		:: else
		fi
	:: else
	fi;
	unlock(cancel_lock);
	if
	:: wake -> sn_ready()
	:: else
	fi
}

init
{
	atomic {
		run waiting();
#ifndef NEVER_ENDS
		run ending();
		if
		:: run timer()
		:: skip
		fi;
		if
		:: run canceller()
		:: skip
		fi
#else
		run canceller();
		if
		:: run timer()
		:: skip
		fi
#endif
	};
	timeout;
	assert(!asleep && !alive);
#ifndef NEVER_ENDS
	assert(freed == 1)
#else
	assert(freed == 0 && result == FAILED)
#endif
}
