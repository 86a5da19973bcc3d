/* SPDX-License-Identifier: MIT */
/*
 * Threads are not started by the party that wants one: src/sched/birth.h. The model also shows what
 * happens when none can be started.
 *
 * What is modelled, by the names of the C code:
 *   thread()    sn_next_task(): tasks that end, that block forever in foreign code, and pinned
 *               ones, which park forever (await_pinned()) or end (give_up_thread(),
 *               thread_dismiss()); sn_stop_spinning(), become_idle(), the poller, sleep_in_parker()
 *   foreign()   a foreign thread that queues tasks: sn_submitted(), sn_wake_one(); with JOBS, tasks
 *               that ask for helpers by sn_birth_ask(); the last one may ask when the run is
 *               already ending
 *   monitor()   sn_sysmon_nap(), sn_processors_start_asked(), sn_births_serve(), sn_sysmon_sleep();
 *               after a look: a revocation, and sn_processors_notice() with fire_timers()
 * All of them call sn_processor_start(): a start may be known to be refused, or the system refuses
 * it; then comes the second look, under the lock.
 *
 * Abstracted:
 *   - All tasks are in one queue, what the lock guards is one step, a processor is handed over in
 *     one step. idle.pml and retire.pml model the details of waking and going idle that are left
 *     out here.
 *   - The monitor's word is whether it has changed since the monitor read it.
 *   - There is one timer, which is late from some moment on, and makes a task runnable. The thread
 *     with the first processor, or the poller, serves it.
 *   - The system refuses REFUSALS threads; RETRY_NS is over at any moment after that.
 *   - A look comes when it would find something to do. With PROMPT it comes only when there is a
 *     thread to take a processor from, so everything else must continue without a look.
 *
 * Safety (assertions): a processor has one owner; there are no more threads than MOST, besides the
 * successor of one that leaves; spinning does not underflow. At rest: no processor waits for its
 * thread; no task is queued while a processor is idle, unless the limit is reached and no thread is
 * idle; no thread counts as spinning or leaving; no timer is late (not with PROMPT at the limit).
 * With JOBS all helpers that are counted were started.
 *
 * Variants: PROMPT, REFUSALS, JOBS; MOST (threads), TASKS, FOREIGN (tasks).
 *
 * Mutants, each of which must be caught:
 *   NO_WAKE          with PROMPT: the party that asks for a thread does not wake the monitor
 *   WAKE_FIRST       with PROMPT: it wakes the monitor before it asks
 *   LOOK_FIRST       with PROMPT: the monitor looks for requests before it reads the word
 *   SPINS_LOST       a thread that takes a processor for which one was asked forgets that it counts
 *   LEAVES_COUNTED   with PROMPT: a thread that leaves still has its place when it asks for another
 *   LEAVES_UNCOUNTED thread_dismiss() forgets that the thread was counted as leaving
 *   REFUSED_BLIND    with PROMPT: after a start that was known to be refused, there is no second
 *                    look under the lock for a thread that has become idle since
 *   SLEEP_BLIND      with PROMPT: a thread that goes to sleep does not look for a processor that
 *                    was put back because there was no thread
 *   NO_RETRY         with REFUSALS: sn_processors_notice() only looks for timers
 *   RETRY_SLEEPS     with REFUSALS: the monitor sleeps until it is woken, though it is to try again
 *   TIMERS_UNFIRED   sn_processors_notice() fires no timers
 *   TIMERS_SLEEP     the monitor sleeps until it is woken, though no other thread serves the timer
 *   JOBS_SLEEP       with JOBS: the monitor sleeps until it is woken, though a helper is asked for
 *   JOB_CLEARED_LATE with JOBS: a request is taken out of the list after its helper has begun
 *   JOBS_DROPPED     with JOBS: requests that the monitor has not served are dropped at the end of
 *                    the run
 */
#ifndef PROCESSORS
#	define PROCESSORS 1
#endif
#ifndef MOST
#	define MOST 2
#endif
#ifndef TASKS
#	define TASKS 2
#endif
#ifndef FOREIGN
#	define FOREIGN 1
#endif
#ifndef REFUSALS
#	define REFUSALS 0
#endif
#define THREADS 3
#define NONE 255

byte q;                      /* tasks */
byte idle[1];                /* idle processors, one bit each */
byte idle_count;
byte asked;                  /* processors for which the monitor has to start a thread, likewise */
bool spins[PROCESSORS];
byte list;                   /* threads in the list of idle ones */
bool threadless;
byte spinning;
bool polling, poller_woken;
byte count = 1, leaving;     /* threads */
bool none_before;            /* set until RETRY_NS is over */
byte refusals = REFUSALS;
bool timer, late;
byte processor[THREADS] = NONE;
bool counted[THREADS], parker[THREADS], outside[THREADS], born[THREADS];
byte unborn = 6;            /* threads that may be started, one bit each: only in the model */
bool changed, deep;          /* the monitor's word; the monitor sleeps until it changes */
bool stopping;
byte to_start, started, helpers; /* with JOBS */
bool job;
/* Only in the model, not in the code. */
byte looks = 2; /* looks that find a timer late, and no thread: the first should suffice */
byte owned;                  /* processors that a thread has, or is about to give away */

#define IDLE idle[0]
#define ENOUGH (count >= MOST + leaving)
#define MAY_BE_STARTED (!ENOUGH && !none_before)
#define MISSING (threadless && list == 0)
#ifdef TIMERS_SLEEP
#	define SERVES_TIMERS false
#else
#	define SERVES_TIMERS timer
#endif
#ifdef RETRY_SLEEPS
#	define TRIES_AGAIN false
#else
	/* sn_threads_may_be_started() reads the time; no look comes before RETRY_NS is over. */
#	define TRIES_AGAIN (q > 0 && !ENOUGH)
#endif
#define ONLY_MONITOR (MISSING && !polling && (SERVES_TIMERS || TRIES_AGAIN))

/* ---- all inside d_step ---- */

inline idle_put(p)
{
	assert(!(IDLE & (1 << p)) && !(asked & (1 << p)));
	IDLE = IDLE | (1 << p);
	idle_count++;
	owned--
}

/* Takes an idle processor into p; NONE if there is none. */
inline idle_get(p)
{
	p = (IDLE & 1 -> 0 : (IDLE & 2 -> 1 : NONE));
	if
	:: p != NONE -> IDLE = IDLE & ~(1 << p); idle_count--; owned++; changed = changed | deep; deep = 0
	:: else
	fi
}

inline assign(t, p, s)
{
	assert(processor[t] == NONE);
	processor[t] = p;
	counted[t] = s
}

/* Hands p to a thread in the list, if there is one. p is NONE afterwards. */
inline hand_to_sleeper(p, s, t)
{
	t = 0;
	do
	:: t < THREADS && !(list & (1 << t)) -> t++
	:: else -> break
	od;
	if
	:: t < THREADS -> list = list & ~(1 << t); assign(t, p, s); parker[t] = 1; p = NONE
	:: else
	fi;
	t = 0
}

inline uncount()
{
	assert(spinning > 0);
	spinning--
}

inline ask(p, s)
{
	asked = asked | (1 << p);
	spins[p] = s;
	owned--
}

/* The lock is held. Takes a processor for which a thread was asked into p, and s from the request;
 * p is NONE if there is none. */
inline take_asked(p, s)
{
	p = (asked & 1 -> 0 : (asked & 2 -> 1 : NONE));
	if
	:: p != NONE ->
		asked = asked & ~(1 << p);
		owned++;
#ifdef SPINS_LOST
		s = 0;
#else
		s = spins[p];
#endif
		spins[p] = 0
	:: else
	fi
}

/* ---- starting: p is the caller's, and NONE afterwards; s: the thread counts as spinning; u, r:
 * variables of the caller that are 0 ---- */

/* There is no thread for the processor: takes the second look under the lock. */
inline put_back(p, s, u)
{
	d_step {
#ifndef REFUSED_BLIND
		hand_to_sleeper(p, s, u);
#endif
		if
		:: p != NONE ->
			threadless = 1;
			idle_put(p);
			poller_woken = 1;
			if
			:: s -> uncount()
			:: else
			fi;
			p = NONE
		:: else
		fi
	}
}

/* sn_processor_start() by a thread that may start others: calls sn_thread_start() */
inline start_here(p, s, r, u)
{
	d_step {
		hand_to_sleeper(p, s, u);
		r = (p != NONE && MAY_BE_STARTED)
	}
	if
	:: r ->
		r = 0;
		/* thread_admit() or the system may refuse */
		if
		:: d_step { MAY_BE_STARTED && unborn != 0 ->
			count++;
			u = (unborn & 1 -> 0 : (unborn & 2 -> 1 : 2));
			unborn = unborn & ~(1 << u);
			assign(u, p, s);
			born[u] = 1;
			p = NONE;
			u = 0 }
		:: d_step { MAY_BE_STARTED && refusals > 0 -> refusals--; none_before = 1 }
		:: !MAY_BE_STARTED
		fi
	:: else
	fi;
	if
	:: p != NONE -> put_back(p, s, u)
	:: else
	fi
}

/* sn_processor_start() by a thread that has to ask. */
inline start_asking(p, s, u)
{
#ifdef WAKE_FIRST
	changed = 1;
#endif
	d_step {
		hand_to_sleeper(p, s, u);
		if
		:: p != NONE && MAY_BE_STARTED ->
			ask(p, s);
			p = NONE;
#if !defined(NO_WAKE) && !defined(WAKE_FIRST)
			changed = 1
#endif
		:: else
		fi
	}
	if
	:: p != NONE -> put_back(p, s, u)
	:: else
	fi
}

/* ---- waking: p is NONE ---- */

inline get_to_wake(p)
{
	d_step {
		idle_get(p);
		if
		:: p == NONE -> uncount()
		:: else
		fi
	}
}

inline wake_one_here(p, r, u)
{
	if
	:: d_step { spinning == 0 -> spinning = 1 };
		get_to_wake(p);
		if
		:: p != NONE -> start_here(p, 1, r, u)
		:: else
		fi
	:: spinning > 0
	fi
}

inline wake_one_asking(p, u)
{
	if
	:: d_step { spinning == 0 -> spinning = 1 };
		get_to_wake(p);
		if
		:: p != NONE -> start_asking(p, 1, u)
		:: else
		fi
	:: spinning > 0
	fi
}

/* ---- sn_processor_give(): p is the caller's, and NONE afterwards ---- */

inline give_here(p, r, u)
{
	if
	:: q > 0 -> start_here(p, 0, r, u)
	:: else ->
		d_step { idle_put(p); p = NONE };
		if
		:: q > 0 || !polling -> wake_one_here(p, r, u)
		:: else
		fi
	fi
}

inline give_asking(p, u)
{
	if
	:: q > 0 -> start_asking(p, 0, u)
	:: else ->
		d_step { idle_put(p); p = NONE };
		if
		:: q > 0 || !polling -> wake_one_asking(p, u)
		:: else
		fi
	fi
}

/* ---- threads ---- */

proctype thread(byte t)
{
	byte p = NONE, u;
	bool r, s, last;

	if
	:: t == 0 -> goto loop
	:: t > 0
	fi;
end_unborn:
	atomic { born[t] -> born[t] = 0 };

loop:	skip;
	/* the timer, or a task */
	if
	:: d_step { timer && late -> timer = 0; late = 0; q++ }
	:: !(timer && late)
	fi;
	if
	:: d_step { q > 0 -> q-- };
		d_step { if :: counted[t] -> counted[t] = 0; uncount(); last = (spinning == 0) :: else fi }
		if
		:: last && idle_count > 0 && (q > 0 || !polling) -> last = 0; wake_one_here(p, r, u)
		:: else -> last = 0
		fi;
		goto running
	:: q == 0 -> goto become_idle
	fi;

running: skip;
	if
	:: goto loop /* the task ends */
	:: d_step { outside[t] = 1 } -> goto gone
	:: true -> /* the task is pinned, and parks forever */
		d_step { p = processor[t]; processor[t] = NONE };
		give_asking(p, u);
		goto gone
	:: true -> /* the task is pinned, and ends */
#ifndef LEAVES_COUNTED
		leaving++;
#endif
		d_step { p = processor[t]; processor[t] = NONE };
		give_asking(p, u);
		d_step {
#if !defined(LEAVES_COUNTED) && !defined(LEAVES_UNCOUNTED)
			leaving--;
#endif
			count--;
			unborn = unborn | (1 << t)
		}
		goto end_unborn
	fi;

become_idle: skip;
	d_step {
		p = processor[t];
		processor[t] = NONE;
		idle_put(p);
		p = NONE
	}
	d_step { if :: counted[t] -> counted[t] = 0; uncount() :: else fi }
	if
	:: q > 0 ->
		d_step { idle_get(p); if :: p != NONE -> assign(t, p, 1); spinning++; p = NONE :: else fi }
		if
		:: processor[t] != NONE -> goto loop
		:: else
		fi
	:: else
	fi;
	/* the poller */
	if
	:: d_step { !polling -> polling = 1 } ->
end_poller:	if
		:: d_step { poller_woken -> poller_woken = 0 }
		:: timer && late
		fi;
		polling = 0;
		d_step { idle_get(p); if :: p != NONE -> assign(t, p, 1); spinning++; p = NONE :: else fi }
		if
		:: processor[t] != NONE -> goto loop
		:: else
		fi
	:: polling
	fi;
	/* sleep_in_parker() */
	d_step {
		take_asked(p, s);
		if
		:: p != NONE -> assign(t, p, s); p = NONE; s = 0
		:: else ->
#ifndef SLEEP_BLIND
			if
			:: threadless ->
				if
				:: q > 0 || !polling -> idle_get(p)
				:: else
				fi;
				threadless = (p != NONE && idle_count > 0)
			:: else
			fi;
#endif
			if
			:: p != NONE -> assign(t, p, 1); spinning++; p = NONE
			:: else -> list = list | (1 << t)
			fi
		fi
	}
	if
	:: processor[t] != NONE && !(list & (1 << t)) && !parker[t] -> goto loop
	:: else
	fi;
end_parker:
	atomic { parker[t] -> parker[t] = 0 };
	goto loop;

gone:	skip
}

/* ---- foreign threads ---- */

proctype foreign()
{
	byte p = NONE, u, to_come = FOREIGN;

	do
	:: to_come > 0 ->
		to_come--;
		q++;
		if
		:: idle_count > 0 && spinning == 0 -> wake_one_asking(p, u)
		:: else
		fi
	:: to_come == 0 -> break
	od;
#ifdef JOBS
	to_come = 2;
	do
	:: to_come > 0 ->
		to_come--;
		helpers++;
		to_start++;
		/* sn_birth_ask() */
		d_step { if :: !job -> job = 1; changed = 1; deep = 0 :: else fi };
		if
		:: to_come == 1 -> stopping = 1; changed = 1
		:: true
		fi
	:: to_come == 0 -> break
	od
#endif
}

inline begin_jobs()
{
	do
	:: d_step { to_start > 0 -> to_start--; started++ }
	:: to_start == 0 -> break
	od
}

inline births_serve()
{
	do
	:: job ->
#ifdef JOB_CLEARED_LATE
		begin_jobs();
		job = 0
#else
		job = 0;
		begin_jobs()
#endif
	:: !job -> break
	od
}

inline serve(p, s, r, u)
{
	do
	:: asked != 0 ->
		d_step { take_asked(p, s) };
		if
		:: p != NONE -> start_here(p, s, r, u)
		:: else
		fi;
		s = 0
	:: asked == 0 -> break
	od;
	births_serve()
}

#define BLOCKED(t) (outside[t] && processor[t] != NONE)
#ifdef PROMPT
#	define NOTICES false
#else
#	ifdef NO_RETRY
#		define RETRIES false
#	else
#		define RETRIES (q > 0 && MISSING && MAY_BE_STARTED)
#	endif
#	define NOTICES (idle_count > 0 && !polling && ((timer && late && looks > 0) || RETRIES))
#endif

proctype monitor()
{
	byte p = NONE, u, t;
	bool r, s;

	do
	:: stopping -> break
	:: else ->
		/* sn_sysmon_nap() */
nap:
#ifdef LOOK_FIRST
		serve(p, s, r, u);
		changed = 0;
#else
		changed = 0;
		serve(p, s, r, u);
#endif
end_nap:	if
		:: changed || stopping -> if :: stopping -> goto over :: else -> goto nap fi
		:: BLOCKED(0) || BLOCKED(1) || BLOCKED(2) || NOTICES
#ifndef PROMPT
		:: idle_count == PROCESSORS && !changed && !ONLY_MONITOR -> goto sleep
#endif
		fi;
		/* a look */
		d_step {
			t = 0;
			do
			:: t < THREADS && !BLOCKED(t) -> t++
			:: else -> break
			od;
			if
			:: t < THREADS -> p = processor[t]; processor[t] = NONE
			:: else
			fi
		}
		if
		:: p != NONE -> give_here(p, r, u)
		:: else
		fi;
		if
		:: NOTICES ->
			wake_one_here(p, r, u);
			d_step { if :: timer && late && MISSING -> looks-- :: else fi }
#ifndef TIMERS_UNFIRED
			if
			:: d_step { timer && late && MISSING -> timer = 0; late = 0; q++ };
				if
				:: idle_count > 0 && spinning == 0 -> wake_one_here(p, r, u)
				:: else
				fi
			:: else
			fi
#endif
		:: else
		fi;
		goto nap;
sleep:		/* sn_sysmon_sleep() */
		changed = 0;
		d_step {
			deep = (idle_count == PROCESSORS && !stopping
#ifndef JOBS_SLEEP
				&& !job
#endif
				&& !ONLY_MONITOR)
		}
		if
		:: !deep
		:: deep ->
end_sleep:		changed
		fi
	od;
over:	skip
}

init
{
	byte i;

	atomic {
		q = TASKS;
		processor[0] = 0;
		owned = 1;
		i = 1;
		do
		:: i < PROCESSORS -> IDLE = IDLE | (1 << i); idle_count++; i++
		:: else -> break
		od;
		i = 0;
		do
		:: i < THREADS -> run thread(i); i++
		:: else -> break
		od;
		i = 0;
		if
		:: timer = 1
		:: true
		fi;
		run monitor();
		run foreign()
	}
	/* At some time the timer is late, and RETRY_NS is over. */
end_time:
	do
	:: d_step { timer && !late -> late = 1 }
	:: d_step { none_before -> none_before = 0 }
	:: timeout -> break
	od;
#ifdef JOBS
	assert(stopping || to_start == 0);
	/* runtime_destroy() */
#	ifndef JOBS_DROPPED
	births_serve();
#	endif
	assert(started == helpers && to_start == 0)
#else
	assert(asked == 0);
	assert(spinning == 0 && leaving == 0);
	assert(q == 0 || idle_count == 0 || (ENOUGH && list == 0 && !polling));
#	ifdef PROMPT
	assert(!(timer && late) || MISSING || idle_count == 0)
#	else
	assert(!(timer && late) || idle_count == 0)
#	endif
#endif
}
