/* SPDX-License-Identifier: MIT */
/*
 * A busy thread takes what waits on a processor that takes no decisions: src/sched/find_work.c.
 *
 * What is modelled, by the names of the C code: the decisions of one thread, which finds its own
 * queue and the global one empty and something in the network each time, so that it comes to no
 * other theft.
 *   look()         steal_from_stalled()
 *   watch_next()   the same
 * The other processors take decisions, become idle or busy, and one of them, VICTIM, may
 * stop at any time with a task in its queue. It may also continue, and run that task itself.
 *
 * Abstracted: the figures (STALLED_TICKS is 2, PASSED_OVER is PASSED); ticks count modulo 4, so a
 * processor that moves is sometimes taken for one that does not, which must do no harm. The other
 * processors keep their tasks, or run them. A theft takes one task, and always succeeds. The
 * victim's timers, which a look fires, are not modelled.
 *
 * Safety: the task runs within BOUND decisions of the thread, whatever the others do. Processors
 * that have had no thread all the time (UNUSED of them) do not count, if PASSED is enough for them.
 *
 * Mutants, each of which must be caught:
 *   NO_LOOK      the network comes first, as it once did
 *   STAYS        a processor that moves is watched until it stops
 *   OLD_TICK     the tick that is noted is that of the processor that was watched before
 *   NOT_PASSED   with UNUSED: processors without a thread are watched like others
 */
#ifndef OTHERS
#	define OTHERS 3
#endif
#ifndef UNUSED
#	define UNUSED 0
#endif
#ifndef PASSED
#	define PASSED 4
#endif
#define VICTIM OTHERS
#define ALL (OTHERS + UNUSED + 1) /* number 0 is the thread's own */
#define STALLED_TICKS 2
/* A look at each of the others, and one more to see that the victim has not moved since. */
#define BOUND ((OTHERS + 1) * STALLED_TICKS)

bool has_thread[ALL];
byte tick[ALL];
bool stopped, waits; /* the victim; the task in its queue */
byte watched, watched_tick, since;
/* Only in the model, not in the code. */
byte late;
hidden byte before, i;

/* ---- all inside d_step ---- */

inline watch_next()
{
	before = watched;
	i = 0;
	do
	:: i < PASSED ->
		watched = (watched + 1) % ALL;
		i++;
		if
#ifdef NOT_PASSED
		:: watched != 0 -> break
#else
		:: watched != 0 && has_thread[watched] -> break
#endif
		:: else
		fi
	:: else -> break
	od;
#ifdef OLD_TICK
	watched_tick = tick[before];
#else
	watched_tick = tick[watched];
#endif
	since = 0
}

inline look()
{
	if
	:: watched == VICTIM && tick[VICTIM] == watched_tick && waits ->
		waits = 0; /* stolen */
		late = 0
	:: else
	fi;
#ifdef STAYS
	if
	:: watched != 0 && has_thread[watched] && tick[watched] != watched_tick ->
		watched_tick = tick[watched];
		since = 0
	:: else -> watch_next()
	fi
#else
	watch_next()
#endif
}

active proctype thread()
{
	do
	:: d_step {
		since++;
		if
#ifdef NO_LOOK
		:: since >= STALLED_TICKS -> since = 0
#else
		:: since >= STALLED_TICKS -> look()
#endif
		:: else
		fi;
		if
		:: waits ->
			late++;
			assert(late <= BOUND)
		:: else
		fi
	}
	od
}

active proctype victim()
{
	has_thread[VICTIM] = 1;
	do
	:: !stopped -> tick[VICTIM] = (tick[VICTIM] + 1) % 4
	:: d_step { !stopped -> stopped = 1; waits = 1; late = 0 }
	:: d_step { stopped -> stopped = 0; waits = 0; late = 0 }
	od
}

/* The others, any of which may do something next. */
active proctype others()
{
	byte one = 1;

	do
	:: one < VICTIM && has_thread[one] -> tick[one] = (tick[one] + 1) % 4
	:: one < VICTIM -> has_thread[one] = !has_thread[one]
	:: one < VICTIM -> one++
	:: one > 1 -> one = 1
	od
}
