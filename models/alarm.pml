/* SPDX-License-Identifier: MIT */
/*
 * An alarm that fires once: starting it, stopping it, and its function, which may free it.
 *
 * What is modelled, by the names of the C code in src/sync/alarm.c:
 *   starts()   sn_alarm_start(): the guard, stop(), sn_timer_start(), the end of the guard
 *   stops()    with STOPS: sn_alarm_stop() by another thread, of an alarm that its function does
 *              not free
 *   fires()    the thread with the timers: fire(), under the heap's lock, start_task(), and the
 *              task
 *
 * Abstracted: fire() is one step, and so is each operation on the timer, because of the heap's
 * lock. The guard and the wait for FIRED to be cleared are conditions. A timer that is to fire
 * again a little later stays active.
 *
 * Safety: no party touches an alarm that was freed, and none waits forever. An alarm that was
 * started is stopped or rings, and not both.
 *
 * Mutants, each of which must be caught:
 *   NO_LOOK        fire() does not look whether the guard is held
 *   GUARD_FIRST    fire() sets FIRED, and start_task() waits for the guard, instead
 *   LAUNCH_FIRST   start_task() makes the task runnable before it clears FIRED
 */
bool guard, timer, fired, freed;
byte rung, prevented, started;
byte firings; /* the count in the alarm's state */

inline touch() { assert(!freed) }

/* The caller holds the guard. */
inline stop(state)
{
	do
	:: atomic { !fired -> touch(); state = firings };
		atomic { touch(); prevented = prevented + timer; timer = 0 };
		if
		:: firings == state && !fired -> break
		:: else
		fi
	od
}

proctype starts()
{
	byte state;

	atomic { !guard -> touch(); guard = 1 };
	stop(state);
	atomic { touch(); timer = 1; started++ };
	atomic { touch(); guard = 0 } /* its last access to the alarm */
}

proctype stops()
{
	byte state;

	atomic { !guard -> guard = 1 };
	stop(state);
	guard = 0
}

proctype fires()
{
end:	do
	:: atomic { timer ->
		touch();
		if
#if !defined(NO_LOOK) && !defined(GUARD_FIRST)
		:: guard -> goto end /* fires again a little later */
		:: else ->
#else
		:: true ->
#endif
			timer = 0;
			fired = 1;
			firings++
		fi };
		/* start_task() */
#ifdef GUARD_FIRST
		atomic { !guard -> skip };
#endif
#ifndef LAUNCH_FIRST
		atomic { touch(); fired = 0 };
#endif
		/* the task */
		rung++;
#ifndef STOPS
		atomic { touch(); freed = 1 };
#endif
#ifdef LAUNCH_FIRST
		atomic { touch(); fired = 0 };
#endif
	od
}

init
{
	atomic {
		run starts();
#ifdef STOPS
		run stops();
#endif
		run fires()
	}
	timeout;
	assert(!guard && !timer && !fired);
	assert(started == 1 && rung + prevented == 1)
}
