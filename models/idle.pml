/* SPDX-License-Identifier: MIT */
/*
 * Waking and going idle: the essays at the top of src/sched/wake.c and src/sched/idle.c.
 *
 * What is modelled, by the names of the C code:
 *   thread()    sn_ready() with sn_submitted(), sn_wake_one(), sn_processor_start(),
 *               sn_find_work(), sn_start_spinning(), sn_stop_spinning(), nap(), sn_end_nap(),
 *               become_idle(), sleep_in_poller(), sleep_in_parker()
 *   monitor()   sn_processor_give(), after a revocation
 *   network()   events, which only the poller sees
 *   cpu()       the store buffers. The one plain store that the handshake relies on is that of the
 *               run queue's tail: it waits in pending until it drains. All others are
 *               read-modify-writes, or made under the lock.
 *
 * Abstracted:
 *   - Queues are counters: one for each processor, and the global one, q[GLOBAL]. sn_work_exists()
 *     reads them all in one step; sn_runqueue_empty() says why a task that moves is not missed.
 *   - What the lock guards is one step.
 *   - A thread to start is one that is about to come into the list of idle threads: born holds its
 *     processor until then. There is always one, except with CAP.
 *   - A processor is handed over in one step; pin.pml and parker.pml have the mailbox.
 *   - Some task always waits for the poller: sn_nobody_would_notice() is polling == 0.
 *   - Tasks make others runnable, end, or stay outside forever. There are few of them, and few
 *     events, so that everything comes to rest. Then only processors that no thread uses, and
 *     threads outside, are left, and the state is checked (the check at the end). The monitor
 *     would, in time, revoke the processors of such threads; that must not be what makes the
 *     protocol right.
 *   - The moment when a new deadline or a wake-up of the poller comes: poll.pml.
 *   - The tasks that naps may leave waiting are not modelled: there are no next tasks, and all
 *     tasks are queued in the ring. Naps end by themselves at any time; or, with LONG_NAPS, never,
 *     which shows whether everything that must end a nap does so.
 *
 * Safety, at rest: no task is queued while a processor is idle; no processor is idle while no
 * thread is in the poller; spinning is 0. Always: spinning does not underflow, there is one poller
 * at most, and an idle processor has no tasks of its own. (Those would wait forever beside a
 * thread that always finds other work, which is not modelled.) With CAP no thread can be started.
 * Then no task is queued, at rest, while there are both an idle processor and a sleeping thread.
 * With LONG_NAPS: while a thread naps no task is queued, a thread is in the poller, and the napping
 * thread is the only one that counts as spinning. One thread at a time waits in the parker for
 * naps.
 *
 *   - A rest of the poller, too, ends by itself at any time; or, with LONG_RESTS, never. Polls by
 *     other threads during the rest are not modelled, so events wait until it ends.
 *
 * With RESTS, in the end: the poller does not rest while all processors are idle or a thread naps.
 *
 * Variants: CAP (SENNIT_MAX_THREADS is reached), THREADS (with CAP: how many there are), PROCESSORS,
 * TASKS, REVOCATIONS, EVENTS, NAPS (at most this many), LONG_NAPS, RESTS (at most this many),
 * LONG_RESTS.
 *
 * Mutants, each of which must be caught:
 *   NO_WAKER_FENCE      sn_submitted() without its fence
 *   LOOK_FIRST          become_idle() looks for work before it releases the processor
 *   SPINNING_LATE       become_idle() stops counting as spinning after it has looked
 *   ROLE_LATE           the poller gives the role up after it has looked for a processor
 *   NO_LAST             the last thread to look, which has found something, wakes no other
 *   LEAVE_UNPOLLED      the last thread to look ignores whether a thread polls
 *   UNCOUNT_LATE        sn_wake_one() finds no processor, and releases the lock before it ceases to
 *                       count as spinning
 *   GIVE_UNPOLLED       sn_processor_give() ignores whether a thread polls
 *   RING_KEPT           with CAP: a processor becomes idle with its tasks
 *   SLEEP_BLIND         with CAP: a thread that goes to its parker does not check, under the lock,
 *                       whether a processor was put back meanwhile because there was no thread
 *   NAP_BLIND           nap() does not look for work once the nap is announced
 *   NAP_LOOK_FIRST      nap() looks before it announces the nap
 *   NAP_UNENDED         with LONG_NAPS: sn_announce() does not end naps
 *   NAP_FREED           sn_end_nap() lets the next nap begin before the one that it ends is over
 *   NAP_KEEPS_ROLE      the nap was in the poller, and its role is not given up
 *   NAP_UNPOLLED        with LONG_NAPS: a nap in the parker begins though no thread is in the
 *                       poller
 *   POLLER_SILENT       with LONG_NAPS: a thread leaves the poller without a processor, and ends no
 *                       nap
 *   BATCH_UNTOLD        with LONG_NAPS: sn_stop_spinning() ends no nap where there is work
 *   REST_BLIND          with LONG_RESTS: the poller rests without a look at the processors
 *   REST_LOOK_FIRST     the poller looks before it announces the rest
 *   REST_UNTOLD         with LONG_RESTS: become_idle() ends no rest
 *   REST_GIVEN          with LONG_RESTS: sn_processor_give() ends no rest
 *   REST_NAP            with LONG_RESTS: nap() takes a poller that rests for one that sleeps
 */
#ifndef PROCESSORS
#	define PROCESSORS 2
#endif
#ifndef REVOCATIONS
#	define REVOCATIONS 1
#endif
#ifndef TASKS
#	define TASKS 2 /* tasks still to come, besides those that run at first */
#endif
#ifndef EVENTS
#	define EVENTS 1
#endif
#ifndef NAPS
#	define NAPS 0
#endif
#ifndef RESTS
#	define RESTS 0
#endif
/* One more than processors, because the poller is not in the list. And one more for each thread
 * that a revocation has left without a processor. */
#ifndef THREADS
#	define THREADS (PROCESSORS + 1 + REVOCATIONS)
#endif
#define GLOBAL PROCESSORS
#define NONE 255

byte q[PROCESSORS + 1];
bool idle[PROCESSORS];
byte idle_count;
byte spinning;
bool polling;
byte in_poller;
byte list;                 /* threads in the list of idle ones, one bit each */
byte processor[THREADS] = NONE;
bool counted[THREADS];     /* struct sn_thread's spinning */
bool parker[THREADS];
bool outside[THREADS];     /* forever */
byte born[PROCESSORS];     /* 1: waits for a thread to start; 2: for one that will count as
                            * spinning */
byte pending[THREADS];     /* tasks that were put into the thread's own queue, but are still in
                            * its store buffer */
byte events;
bool woken;                /* the poller's eventfd */
byte to_come = TASKS;
#if RESTS > 0
byte rests = RESTS;         /* rests still to come */
bool resting;               /* whether struct sn_runtime's polling is RESTS */
#	define RESTS_NOW resting
#else
#	define RESTS_NOW false
#endif
#if NAPS > 0
byte naps = NAPS;           /* naps still to come */
byte napping;               /* struct sn_runtime's nap: one of the values above */
bool nap_parker;
byte in_nap_parker;
#	define NAP_NONE 0
#	define NAP_POLLING 1
#	define NAP_PARKED 2
#	define NAP_ENDED 3
#endif

#if PROCESSORS == 2
#	define WORK_EXISTS (q[0] + q[1] + q[2] > 0)
#else
#	define WORK_EXISTS (q[0] + q[1] + q[2] + q[3] > 0)
#endif

proctype cpu(byte t)
{
end:	do
	:: d_step { pending[t] > 0 -> q[processor[t]] = q[processor[t]] + pending[t]; pending[t] = 0 }
	od
}

inline drain(t)
{
	if
	:: pending[t] > 0 -> q[processor[t]] = q[processor[t]] + pending[t]; pending[t] = 0
	:: else
	fi
}

/* ---- processors and threads; all inside d_step ---- */

inline idle_put(p)
{
	assert(!idle[p]);
#ifndef RING_KEPT
	q[GLOBAL] = q[GLOBAL] + q[p];
	q[p] = 0;
#endif
	idle[p] = 1;
	idle_count++
}

/* The result is in p; NONE if there is none. */
inline idle_get(p)
{
	p = 0;
	do
	:: p < PROCESSORS && !idle[p] -> p++
	:: else -> break
	od;
	if
	:: p == PROCESSORS -> p = NONE
	:: else ->
		assert(q[p] == 0);
		idle[p] = 0;
		idle_count--
	fi
}

inline hand(u, p, s)
{
	list = list & ~(1 << u);
	processor[u] = p;
	counted[u] = s;
	parker[u] = 1
}

inline uncount()
{
	assert(spinning > 0);
	spinning--
}

inline start_processor(p, s)
{
	if
	:: list & 1 -> hand(0, p, s)
	:: else ->
		if
		:: list & 2 -> hand(1, p, s)
		:: else ->
			if
			:: list & 4 -> hand(2, p, s)
			:: else ->
				if
				:: list & 8 -> hand(3, p, s)
#ifdef CAP
				:: else ->
					idle_put(p);
					if
					:: s -> uncount()
					:: else
					fi;
					woken = 1
#else
				:: else -> born[p] = 1 + s
#endif
				fi
			fi
		fi
	fi
}

#if NAPS > 0
/* where is a variable of the caller. */
inline end_nap(where)
{
	where = napping;
	if
	:: where == NAP_POLLING || where == NAP_PARKED ->
		d_step {
			if
#	ifdef NAP_FREED
			:: napping == where -> napping = NAP_NONE
#	else
			:: napping == where -> napping = NAP_ENDED
#	endif
			:: else -> where = NAP_NONE
			fi
		}
		if
		:: where == NAP_POLLING -> woken = 1
		:: where == NAP_PARKED -> nap_parker = 1
		:: where == NAP_NONE
		fi
	:: else
	fi;
	where = 0
}
#endif

/* p is a variable of the caller. */
inline wake_one(p)
{
	if
	:: d_step { spinning == 0 -> spinning = 1 };
		d_step {
			idle_get(p);
#ifndef UNCOUNT_LATE
			if
			:: p == NONE -> uncount()
			:: else
			fi
#endif
		}
		if
		:: p != NONE -> d_step { start_processor(p, 1); p = 0 }
		:: else ->
			p = 0;
#ifdef UNCOUNT_LATE
			d_step { uncount() }
#endif
		fi
	:: spinning > 0 ->
#if NAPS > 0
		end_nap(p)
#else
		skip
#endif
	fi
}

inline submitted(t, p)
{
#ifndef NO_WAKER_FENCE
	d_step { drain(t) };
#endif
	if
	:: idle_count > 0 && spinning == 0 -> wake_one(p)
#if NAPS > 0 && !defined(NAP_UNENDED)
	:: !(idle_count > 0 && spinning == 0) ->
		if
		:: napping != NAP_NONE -> end_nap(p)
		:: else
		fi
#else
	:: else
#endif
	fi
}

inline start_spinning(t)
{
	if
	:: !counted[t] -> counted[t] = 1; spinning++
	:: else
	fi
}

/* sn_poller_needed() */
inline poller_needed()
{
#if RESTS > 0
	if
	:: resting -> woken = 1
	:: else
	fi
#else
	skip
#endif
}

#if NAPS > 0
#	define ANYONE_WORKS (idle_count < PROCESSORS && napping == NAP_NONE)
#else
#	define ANYONE_WORKS (idle_count < PROCESSORS)
#endif

inline enter_poller()
{
	in_poller++;
	assert(in_poller == 1)
}

proctype thread(byte t; bool runs)
{
	byte p, v;
	bool found, last;

	if
	:: runs -> goto running
	:: else -> goto end_parker
	fi;

running: /* runs a task */
	do
	:: d_step { to_come > 0 -> to_come--; pending[t]++ };
		submitted(t, p)
	:: d_step { outside[t] = 1; drain(t) } -> goto gone
	:: break
	od;

find_work:
	atomic {
		drain(t);
		found = 0;
		if
		:: q[processor[t]] > 0 -> q[processor[t]]--; found = 1
		:: else ->
			if
			:: q[GLOBAL] > 0 -> q[GLOBAL]--; found = 1
			:: else
			fi
		fi
	}
	if
	:: found -> found = 0; goto stop_spinning
	:: !found && !counted[t] -> goto become_idle /* enough threads are looking */
	:: !found -> d_step { start_spinning(t) }
	fi;
	/* steal(): from one of the queues that are not empty; the queue may be empty now */
	d_step {
		v = 0;
		do
		:: v <= PROCESSORS && q[v] == 0 -> v++
		:: else -> break
		od;
		if
		:: v <= PROCESSORS ->
			q[v]--;
			found = 1;
#if NAPS > 0
			/* It found more than one task; the others are not published yet. */
			if
			:: q[v] > 0 -> q[v]--; pending[t]++
			:: else
			fi
#endif
		:: else
		fi;
		v = 0
	}
	if
	:: found -> found = 0
#if NAPS > 0
	:: !found && naps > 0 -> naps--; goto nap
#endif
	:: !found -> goto become_idle
	fi;

stop_spinning:
	if
	:: !counted[t] -> goto running
	:: else
	fi;
	d_step { drain(t); counted[t] = 0; uncount(); last = (spinning == 0) }
#if NAPS > 0 && !defined(BATCH_UNTOLD)
	if
	:: !last && napping != NAP_NONE && WORK_EXISTS -> end_nap(p)
	:: else
	fi;
#endif
#ifndef NO_LAST
	if
	:: last ->
		last = 0;
		if
		:: idle_count > 0 ->
			if
#	ifdef LEAVE_UNPOLLED
			:: WORK_EXISTS -> wake_one(p)
#	else
			:: WORK_EXISTS || !polling -> wake_one(p)
#	endif
			:: else
			fi
		:: else
		fi
	:: else
	fi;
#else
	last = 0;
#endif
	goto running;

#if NAPS > 0
nap:	if
	:: napping != NAP_NONE -> goto become_idle
	:: else
	fi;
	d_step {
		v = NAP_PARKED;
		if
		:: !polling -> polling = 1; v = NAP_POLLING
		:: else
		fi
	}
#	ifdef NAP_LOOK_FIRST
	found = WORK_EXISTS;
#	endif
	if
	:: d_step { napping == NAP_NONE -> napping = v }
	:: napping != NAP_NONE ->
		/* Another thread is napping. */
#	ifdef NAP_LOOK_FIRST
		found = 0;
#	endif
		if
		:: v == NAP_POLLING -> v = 0; polling = 0
		:: v == NAP_PARKED -> v = 0
		fi;
		goto become_idle
	fi;
#	if !defined(NAP_LOOK_FIRST) && !defined(NAP_BLIND)
	found = WORK_EXISTS;
#	endif
	if
	:: found -> p = 0
#	ifndef NAP_UNPOLLED
#		ifdef REST_NAP
	:: !found && !polling -> v = 0; napping = NAP_NONE; goto become_idle
	:: !found && polling && v == NAP_PARKED ->
#		else
	:: !found && (!polling || RESTS_NOW) -> v = 0; napping = NAP_NONE; goto become_idle
	:: !found && polling && !RESTS_NOW && v == NAP_PARKED ->
#		endif
#	else
	:: !found && v == NAP_PARKED ->
#	endif
		in_nap_parker++;
		assert(in_nap_parker == 1);
end_nap_parker:
		if
		:: d_step { nap_parker -> nap_parker = 0; in_nap_parker-- }
#	ifndef LONG_NAPS
		:: in_nap_parker--
#	endif
		fi
	:: !found && v == NAP_POLLING ->
		d_step { enter_poller() }
end_nap_poller:
		if
		:: d_step { events > 0 -> events--; p = 1; in_poller-- }
		:: d_step { events > 0 -> events--; p = 0; in_poller-- }
		:: d_step { woken -> woken = 0; p = 0; in_poller-- }
#	ifndef LONG_NAPS
		:: d_step { p = 0; in_poller-- }
#	endif
		fi
	fi;
	found = 0;
	if
#	ifndef NAP_KEEPS_ROLE
	:: v == NAP_POLLING -> v = 0; polling = 0
#	endif
	:: else -> v = 0
	fi;
	napping = NAP_NONE;
	if
	:: p > 0 ->
		d_step { p = 0; pending[t]++ }
		submitted(t, p)
	:: else
	fi;
	goto find_work;
#endif

become_idle:
#ifdef LOOK_FIRST
	found = WORK_EXISTS;
#endif
	if
	:: d_step { q[GLOBAL] == 0 -> idle_put(processor[t]); processor[t] = NONE }
	:: q[GLOBAL] > 0 -> goto find_work
	fi;
#ifndef SPINNING_LATE
	d_step {
		if
		:: counted[t] -> counted[t] = 0; uncount()
		:: else
		fi
	}
#endif
#ifndef LOOK_FIRST
	found = WORK_EXISTS;
#endif
#ifdef SPINNING_LATE
	d_step {
		if
		:: counted[t] -> counted[t] = 0; uncount()
		:: else
		fi
	}
#endif
	if
	:: found ->
		found = 0;
		d_step {
			idle_get(p);
			if
			:: p != NONE -> processor[t] = p; start_spinning(t)
			:: else
			fi;
			p = 0
		}
		if
		:: processor[t] != NONE -> goto find_work
		:: else
		fi
	:: else
	fi;

	/* sleep_in_poller() */
	if
	:: d_step { !polling -> polling = 1; enter_poller() }
	:: polling ->
#ifndef REST_UNTOLD
		poller_needed();
#endif
		goto sleep_in_parker
	fi;
#if RESTS > 0
	/* rest_in_poller() */
	if
	:: rests > 0 ->
		rests--;
#	ifdef REST_LOOK_FIRST
		found = ANYONE_WORKS;
#	endif
		resting = 1;
#	ifdef REST_BLIND
		found = 1;
#	endif
#	if !defined(REST_BLIND) && !defined(REST_LOOK_FIRST)
		found = ANYONE_WORKS;
#	endif
		if
		:: found -> found = 0;
end_rest:		if
			:: woken
#	ifndef LONG_RESTS
			:: skip
#	endif
			fi
		:: else
		fi;
		resting = 0
	:: skip
	fi;
#endif
end_poller:
	if
	:: d_step { events > 0 -> events--; v = 1; in_poller-- } /* the event makes a task ready */
	:: d_step { events > 0 -> events--; v = 0; in_poller-- } /* or is of another kind */
	:: d_step { woken -> woken = 0; v = 0; in_poller-- }
	fi;
#ifndef ROLE_LATE
	polling = 0;
#endif
	d_step { idle_get(p); processor[t] = p; p = 0 }
#ifdef ROLE_LATE
	polling = 0;
#endif
	if
	:: processor[t] != NONE ->
		d_step { start_spinning(t) }
		if
		:: v > 0 ->
			d_step { v = 0; pending[t]++ }
			submitted(t, p)
		:: else
		fi;
		goto find_work
	:: else ->
		if
		:: v > 0 ->
			d_step { v = 0; q[GLOBAL]++ }
			submitted(t, p)
		:: else
		fi;
#if NAPS > 0 && !defined(POLLER_SILENT)
		end_nap(p)
#endif
	fi;

sleep_in_parker:
	atomic {
		/* Continues like a thread that starts: the processor is waiting already. */
		v = 0;
		do
		:: v < PROCESSORS && born[v] == 0 -> v++
		:: else -> break
		od;
		if
		:: v < PROCESSORS -> hand(t, v, born[v] - 1); born[v] = 0
#if defined(CAP) && !defined(SLEEP_BLIND)
		:: v == PROCESSORS && idle_count > 0 && (WORK_EXISTS || !polling) ->
			idle_get(p);
			processor[t] = p;
			start_spinning(t);
			p = 0;
			v = 0;
			goto find_work
#endif
		:: else -> list = list | (1 << t)
		fi;
		v = 0
	}
end_parker:
	atomic { parker[t] -> parker[t] = 0 }
	goto find_work;

gone:	skip
}

proctype network()
{
	byte n;

end:	do
	:: n < EVENTS -> d_step { events++; n++ }
	od
}

#if REVOCATIONS > 0
proctype monitor()
{
	byte t, p;

	/* sn_lease_revoke(): takes the processor of a thread that is outside */
end:	if
	:: d_step { outside[0] -> p = processor[0]; processor[0] = NONE }
	:: d_step { outside[1] -> p = processor[1]; processor[1] = NONE }
	fi;
	/* sn_processor_give() */
	if
	:: q[p] > 0 || q[GLOBAL] > 0 -> d_step { start_processor(p, 0) }
	:: else ->
		d_step { idle_put(p) }
#	ifdef GIVE_UNPOLLED
		if
		:: WORK_EXISTS -> wake_one(p)
#	else
		if
		:: WORK_EXISTS || !polling -> wake_one(p)
#	endif
#	ifdef REST_GIVEN
		:: else
#	else
		:: else -> poller_needed()
#	endif
		fi
	fi
}
#endif

init
{
	byte i;

	atomic {
		do
		:: i < THREADS ->
			if
			:: i < PROCESSORS -> processor[i] = i
			:: else -> list = list | (1 << i)
			fi;
			run thread(i, i < PROCESSORS);
			run cpu(i);
			i++
		:: else -> break
		od;
		i = 0;
		run network();
#if REVOCATIONS > 0
		run monitor()
#endif
	}
	/* At rest. */
	timeout;
#ifdef CAP
	assert(idle_count == 0 || !WORK_EXISTS || (list == 0 && !polling));
#else
	assert(idle_count == 0 || !WORK_EXISTS);
	assert(idle_count == 0 || in_poller);
#endif
#if NAPS > 0
	assert(napping == NAP_NONE || !WORK_EXISTS && in_poller);
	assert(spinning == (napping != NAP_NONE))
#else
	assert(spinning == 0)
#endif
#if RESTS > 0
	assert(!resting || ANYONE_WORKS)
#endif
}
