/* SPDX-License-Identifier: MIT */
/*
 * Tied tasks: each runs on only one thread, its home, which runs others while the task waits.
 * src/sched/tie.h.
 *
 * What is modelled, by the names of the C code in src/sched:
 *   thread()    sn_next_task() with its steps for bound tasks, nap(), become_idle(),
 *               sleep_in_poller(), sleep_in_parker(), stand_in_line(), sleep_in_list(), retire();
 *               give_up_thread() with sn_ties_end(), where a pinned task has ended; give_apart()
 *               and give_back(). Threads 0 and 1 are homes; thread 2, and thread 3 if it is born,
 *               only run tasks that any thread may run.
 *   waker()     sn_tie_ready() with rouse() and ready_anywhere(), for the tasks of one home, on a
 *               thread without a processor; or, with REQUEUES, sn_requeue(), which puts a tied task
 *               into the global queue
 *   spawner()   a task that runs apart becomes runnable. It ends, or blocks forever
 *   monitor()   sn_ties_step(): a home that is blocked forever is stuck; sn_threads_reap(). When
 *               the monitor looks, and at what, is in late.pml
 *   births()    with BIRTHS: sn_processors_start_asked(), which starts a thread, or is refused it
 *
 * Abstracted: queues are counters, and the lock of a home's queue is a flag. The runtime's lock is
 * a flag where what it guards is more than one step. The global queue gives out its tasks in any
 * order. Memory order: the words of the handshake are sequentially consistent in the code.
 * sn_submitted() is one step, after the task was queued: idle.pml shows that no wake-up is lost
 * between the two. A thread that naps or polls does so until it is woken.
 *
 * birth.pml models which thread starts another one. With BIRTHS this model has the part that
 * concerns tied tasks: a processor that waits for its thread is neither idle nor owned while homes
 * begin to wait in line, and a thread that goes to sleep takes it. A birth does not touch a tied
 * task in any other way: a new thread is not a home, and looks for work like any other.
 *
 * Safety: a tied task runs on its home (by construction), which has a processor. A home is handed a
 * processor only while it waits for one, and once. No waker touches a home that has retired, or
 * that was freed after its end. A task that runs apart runs on a thread to which no task is tied,
 * unless all sleeping threads are homes, and no other thread can be had. At rest no task waits in
 * any queue, except while its home is blocked and does not count as stuck yet; no processor is
 * lost; homes that have ended are freed.
 *
 * Variants: PROCESSORS; WAKES and OTHERS, for the first and for the second home; REQUEUES, at most
 * so many of them; BLOCKS: how many threads block forever, with a task that is tied or runs apart;
 * NAPS, at most so many; ENDS: how many homes end; APARTS: tasks that run apart; BIRTHS: whether a
 * thread can be started.
 *
 * Mutants, each of which must be caught:
 *   PARK_BLIND      a home that has come into the list does not look into its queue again
 *   LOOK_FIRST      it looks before it announces that it is there
 *   POLL_BLIND      the same in the poller
 *   NAP_BLIND       the same before a nap
 *   REST_FIRST      the waker reads how the home rests before it queues the task
 *   NO_LINE         a waker that finds no processor for a home off the list leaves the task in the
 *                   home's queue
 *   LIST_ANYWAY     a home without a processor goes to the list although it has a task
 *   HAND_ANYWAY     a thread that takes a tied task from the global queue hands its processor to
 *                   the home whether that waits in line or not
 *   RETIRE_OWNED    a home retires although tasks are tied to it
 *   TOUCH_LATE      the waker releases the lock of the queue before it looks into the list
 *   NO_MONITOR      the tasks that wait for a blocked home are left to it
 *   END_UNSEEN      with ENDS: the waker does not look whether the home has ended
 *   END_LEAVES      with ENDS: a home that ends leaves tasks in its queue
 *   END_LATE        with ENDS: it empties its queue before it marks itself as ended
 *   REAP_OWNED      with ENDS: its block is freed although tasks are tied to it
 *   FREED_EARLY     with ENDS: the waker gives up its claim on the block, then the lock in it
 *   APART_HERE      with APARTS: a task that runs apart runs where it was found
 *   APART_ANY       with APARTS: it goes to any thread that sleeps
 *   APART_LISTED    with APARTS: the thread that it goes to stays in the list
 *   APART_FORGOTTEN with APARTS: a home that gave its processor away for it does not look into its
 *                   queue before it sleeps
 *   BACK_SILENT     with APARTS: its thread gives the processor back without a look at the queue
 *   REFUSED_BLIND   with APARTS, BLOCKS and BIRTHS: a processor for which no thread can be started
 *                   is put back without a look at who stands in line
 *   ASKED_BLIND     with BIRTHS: a thread goes to sleep beside a processor that waits for one, and
 *                   the monitor's is refused, without the look at the list
 */
#ifndef PROCESSORS
#	define PROCESSORS 2
#endif
#ifndef WAKES
#	define WAKES 1
#endif
#ifndef OTHERS
#	define OTHERS 1
#endif
#ifndef REQUEUES
#	define REQUEUES 0
#endif
#ifndef BLOCKS
#	define BLOCKS 0
#endif
#ifndef NAPS
#	define NAPS 0
#endif
#ifndef ENDS
#	define ENDS 0
#endif
#ifndef APARTS
#	define APARTS 0
#endif
#ifndef BIRTHS
#	define BIRTHS 0
#endif

#define THREADS (3 + BIRTHS)
#define HOMES 2

/* The values of enum sn_rest. */
#define NONE 0
#define PARKED 1
#define POLLING 2
#define NAPPING 3
#define IN_LINE 4

/* Of each thread. */
byte ready[THREADS];    /* tasks in its queue */
byte rest[THREADS];
byte owned[THREADS];    /* tasks that are tied to it, and have not run yet */
byte line[THREADS];     /* its tasks in the global queue */
byte picked[THREADS];
bool locked[THREADS];   /* the lock of its queue */
bool is_idle[THREADS];  /* in the list */
bool has[THREADS];      /* whether it has a processor */
bool handed[THREADS];
bool gone[THREADS], blocked[THREADS];
bool ended[THREADS], dead[THREADS];
bool given_apart[THREADS]; /* picked: it was given a task that runs apart */

byte plain;             /* tasks in the global queue that anyone may run */
byte apart;             /* tasks in the global queue that run apart */
byte idle;              /* processors */
byte asked;             /* processors for which the monitor is to start a thread */
bool born;              /* whether thread 3 has been started */
bool runtime_lock, polling, nap, eventfd, threadless;
byte who;               /* the result of give_to_sleeper(): only in the model */
byte blocks = BLOCKS, naps = NAPS, ends = ENDS;

#define in_surplus() (is_idle[0] + is_idle[1] + is_idle[2] > PROCESSORS)
#ifdef RETIRE_OWNED
#	define may_retire(t) (t < HOMES && in_surplus())
#else
#	define may_retire(t) (t < HOMES && in_surplus() && owned[t] == 0)
#endif

#define in_global() (plain + apart + line[0] + line[1])
#define in_list() (is_idle[0] || is_idle[1] || is_idle[2])
#define waits_in_line(h) (line[h] > 0 && rest[h] == IN_LINE)

/* sn_submitted(): an idle processor goes to a thread in the list, to one that waits in line, or to
 * a new one. */
inline announce()
{
	atomic {
		!runtime_lock;
		if
		:: idle > 0 -> idle--; start()
		:: idle == 0 -> nap = 0
		fi
	}
}

/* sn_processor_start(), with a processor that no thread has. The runtime's lock is free. */
inline start()
{
	if
	:: in_list() || waits_in_line(0) || waits_in_line(1) -> give_to_sleeper()
#if BIRTHS
	:: !in_list() && !waits_in_line(0) && !waits_in_line(1) && !born -> asked++
	:: !in_list() && !waits_in_line(0) && !waits_in_line(1) && born -> put_back()
#else
	:: !in_list() && !waits_in_line(0) && !waits_in_line(1) -> put_back()
#endif
	fi
}

/* A thread is in the list or in line. */
inline give_to_sleeper()
{
	who = (is_idle[2] -> 2 :
	       (is_idle[0] -> 0 : (is_idle[1] -> 1 : (waits_in_line(0) -> 0 : 1))));
	line[who] = line[who] - !is_idle[who];
	picked[who] = picked[who] + !is_idle[who];
	is_idle[who] = 0;
	rest[who] = NONE;
	assert(!gone[who] && !has[who] && !handed[who]);
	handed[who] = 1;
	who = 0
}

inline put_back()
{
	threadless = 1;
	idle++;
	eventfd = 1
}

/* The home has left the list, or was in line. */
inline hand(h)
{
	d_step {
		assert(!gone[h] && !has[h] && !handed[h]);
		handed[h] = 1
	}
}

/* Called with the lock of the home's queue, which is not empty. */
inline rouse(h)
{
	atomic {
		!runtime_lock;
		if
		:: is_idle[h] ->
			assert(!gone[h]);
			is_idle[h] = 0;
			rest[h] = NONE;
			if
			:: idle > 0 -> idle--; given = 1
			:: idle == 0 ->
#ifndef NO_LINE
				assert(ready[h] > 0);
				ready[h]--;
				rest[h] = IN_LINE;
				line[h]++;
#endif
				in_line = 1
			fi
		:: !is_idle[h] -> assert(!gone[h])
		fi
	}
}

/* The home has ended, and the lock of its queue is held. */
inline ready_anywhere(h)
{
#ifdef FREED_EARLY
	d_step { assert(!gone[h]); owned[h]-- };
	d_step { assert(!gone[h]); locked[h] = 0 };
#else
	d_step { assert(!gone[h]); locked[h] = 0 };
	d_step { assert(!gone[h]); owned[h]-- };
#endif
	atomic { !runtime_lock -> plain++ };
	announce()
}

/* The lock of the home's queue is held. */
inline ready_at_home(h)
{
#ifdef REST_FIRST
	how = rest[h];
	ready[h]++;
#else
	ready[h]++;
	how = rest[h];
#endif
#ifdef TOUCH_LATE
	locked[h] = 0;
#endif
	if
	:: how == PARKED -> rouse(h)
	:: how != PARKED
	fi;
#ifndef TOUCH_LATE
	locked[h] = 0;
#endif
	if
	:: given -> hand(h)
	:: in_line -> announce()
	:: how == POLLING -> eventfd = 1
	:: how == NAPPING -> nap = 0
	:: !given && !in_line && (how == NONE || how == PARKED || how == IN_LINE)
	fi;
	d_step { given = 0; in_line = 0; how = 0 }
}

inline sn_tie_ready(h)
{
	atomic { !locked[h] -> assert(!gone[h]); locked[h] = 1 };
#ifdef END_UNSEEN
	ready_at_home(h)
#else
	if
	:: ended[h] -> ready_anywhere(h)
	:: !ended[h] -> ready_at_home(h)
	fi
#endif
}

/* Unties the tasks that wait for a home that is about to end, or is blocked. */
inline untie_waiting(h, n)
{
	atomic {
		!locked[h] ->
		n = ready[h];
		ready[h] = 0;
		owned[h] = owned[h] - n
	};
	if
	:: n > 0 ->
		d_step { !runtime_lock -> plain = plain + n; n = 0 };
		announce()
	:: n == 0
	fi
}

/* Gives the thread's processor to no particular thread. */
inline give_processor(t)
{
	d_step { !runtime_lock -> has[t] = 0; idle++ };
	if
	:: in_global() > 0 -> announce()
	:: in_global() == 0
	fi
}

proctype thread(byte t)
{
	byte h, how, n;
	bool given, in_line;
	bool is_apart; /* the thread got its processor for a task that runs apart */
	bool no_other; /* the thread has looked in vain for another one for such a task */

	if
	:: t < 3 && has[t]
	:: t < 3 && !has[t] -> goto parker
#if BIRTHS
	:: t == 3 ->
endborn:	has[t]
#endif
	fi;

look:
#if APARTS
	if
	:: given_apart[t] -> d_step { assert(has[t]); given_apart[t] = 0; is_apart = 1 };
		goto execute_apart
	:: !given_apart[t]
	fi;
#endif
#if ENDS
	/* a pinned task has ended */
	if
	:: true
	:: d_step { t < HOMES && ends > 0 && picked[t] == 0 -> ends-- }; goto give_up_thread
	fi;
#endif
	if
	:: picked[t] > 0 -> d_step { assert(has[t]); picked[t]-- }; goto execute
	:: picked[t] == 0
	fi;
	if
	:: atomic { ready[t] > 0 && !locked[t] -> ready[t]-- }; goto execute
	:: atomic { !runtime_lock && plain > 0 -> plain-- }; goto look
#if APARTS
	:: atomic { !runtime_lock && apart > 0 -> apart-- }; goto give_apart
#endif
	:: atomic { !runtime_lock && line[0] > 0 -> line[0]--; h = 0 }
	:: atomic { !runtime_lock && line[1] > 0 -> line[1]--; h = 1 }
	:: ready[t] == 0 && in_global() == 0 -> goto nothing
	fi;

	/* takes a tied task from the global queue */
	if
	:: h == t -> goto execute
	:: h != t
	fi;
	if
#ifdef HAND_ANYWAY
	:: d_step { true -> rest[h] = NONE; picked[h]++; has[t] = 0 }; hand(h); goto parker
#else
	:: d_step { rest[h] == IN_LINE -> rest[h] = NONE; picked[h]++; has[t] = 0 };
		hand(h);
		goto parker
	:: rest[h] != IN_LINE -> sn_tie_ready(h); goto look
#endif
	fi;

execute:
	assert(has[t] && owned[t] > 0);
	owned[t]--;
	if
	:: goto look
#if BLOCKS
	:: d_step { blocks > 0 -> blocks--; blocked[t] = 1 };
		give_processor(t);
		goto stop
#endif
	fi;

#if ENDS
give_up_thread:
	skip;
#	ifndef END_LATE
	atomic { !locked[t] -> ended[t] = 1 };
#	endif
#	ifndef END_LEAVES
	untie_waiting(t, n);
#	endif
#	ifdef END_LATE
	atomic { !locked[t] -> ended[t] = 1 };
#	endif
	give_processor(t);
	dead[t] = 1;
	goto stop;
#endif

#if APARTS
give_apart:
	if
#	ifndef APART_HERE
	:: owned[t] > 0 -> goto find_other
	:: owned[t] == 0
#	else
	:: true
#	endif
	fi;

execute_apart:
	assert(has[t] && (owned[t] == 0 || no_other));
	if
	:: d_step { blocks > 0 -> blocks--; blocked[t] = 1 };
		give_processor(t);
		goto stop
	:: is_apart ->
		/* give_back() */
		is_apart = 0;
		if
		:: !runtime_lock && in_list() ->
#	ifdef BACK_SILENT
			d_step { has[t] = 0; idle++ };
#	else
			give_processor(t);
#	endif
			goto parker
		:: !runtime_lock && !in_list() -> goto look
		fi
	:: !is_apart -> no_other = 0; goto look
	fi;

#	ifdef APART_ANY
#		define may_have_it(u) is_idle[u]
#	else
#		define may_have_it(u) (is_idle[u] && owned[u] == 0)
#	endif
find_other:
	atomic {
		!runtime_lock;
		if
		:: may_have_it(2) -> h = 2
		:: !may_have_it(2) && may_have_it(0) -> h = 0
		:: !may_have_it(2) && !may_have_it(0) && may_have_it(1) -> h = 1
		:: !may_have_it(2) && !may_have_it(0) && !may_have_it(1) ->
#	if BIRTHS
			if
			:: !born ->
				born = 1;
				has[t] = 0;
				given_apart[3] = 1;
				has[3] = 1;
				goto parker
			:: no_other = 1; goto execute_apart
			fi
#	else
			no_other = 1;
			goto execute_apart
#	endif
		fi;
#	ifndef APART_LISTED
		is_idle[h] = 0;
		rest[h] = NONE;
#	endif
		has[t] = 0
	};
	given_apart[h] = 1;
	hand(h);
#	ifdef APART_FORGOTTEN
	atomic { !runtime_lock -> is_idle[t] = 1; rest[t] = PARKED };
	goto await;
#	else
	goto parker;
#	endif
#endif

nothing:
	if
	:: true
	:: d_step { naps > 0 && !nap && idle + 1 < PROCESSORS -> naps--; nap = 1 };
		rest[t] = NAPPING;
		if
#ifndef NAP_BLIND
		:: ready[t] > 0 || in_global() > 0
		:: ready[t] == 0 && in_global() == 0 ->
#else
		:: true ->
#endif
endnap:			!nap
		fi;
		rest[t] = NONE;
		nap = 0;
		goto look
	fi;

	/* become_idle() */
	atomic {
		!runtime_lock;
		if
		:: in_global() > 0 || ready[t] > 0 -> goto look
		:: else -> has[t] = 0; idle++
		fi
	};
	atomic {
		!runtime_lock;
		if
		:: (in_global() > 0 || ready[t] > 0) && idle > 0 -> idle--; has[t] = 1; goto look
		:: else
		fi
	};
	if
	:: d_step { !polling -> polling = 1 }
	:: polling -> goto parker
	fi;
	rest[t] = POLLING;
	if
#ifndef POLL_BLIND
	:: ready[t] > 0
	:: ready[t] == 0 ->
#else
	:: true ->
#endif
endpoll:	d_step { eventfd -> eventfd = 0 }
	fi;
	rest[t] = NONE;
	polling = 0;
	atomic {
		!runtime_lock;
		if
		:: idle > 0 -> idle--; has[t] = 1; goto look
		:: idle == 0
		fi
	};

parker:
	if
#ifndef LIST_ANYWAY
	:: atomic { ready[t] > 0 && !locked[t] -> ready[t]-- };
		/* stand_in_line() */
		atomic {
			!runtime_lock;
			if
			:: idle > 0 -> idle--; has[t] = 1; picked[t]++; goto look
			:: idle == 0 -> rest[t] = IN_LINE; line[t]++
			fi
		};
		announce();
		goto await
#endif
	:: ready[t] == 0
#ifdef LIST_ANYWAY
	:: ready[t] > 0
#endif
	fi;
	/* sleep_in_list() */
	atomic { !runtime_lock -> runtime_lock = 1 };
#if BIRTHS && !defined(ASKED_BLIND)
	if
	:: asked > 0 -> d_step { asked--; has[t] = 1; runtime_lock = 0 }; goto look
	:: asked == 0
	fi;
#endif
	if
	:: threadless && in_global() > 0 && idle > 0 ->
		d_step { idle--; threadless = (idle > 0); has[t] = 1; runtime_lock = 0 };
		goto look
	:: threadless && (in_global() == 0 || idle == 0) -> threadless = 0
	:: !threadless
	fi;
#ifdef LOOK_FIRST
	if
	:: ready[t] > 0 -> runtime_lock = 0; goto parker
	:: ready[t] == 0
	fi;
#endif
	is_idle[t] = 1;
	rest[t] = PARKED;
#if !defined(PARK_BLIND) && !defined(LOOK_FIRST) && !defined(LIST_ANYWAY)
	if
	:: ready[t] > 0 ->
		d_step { is_idle[t] = 0; rest[t] = NONE; runtime_lock = 0 };
		goto parker
	:: ready[t] == 0
	fi;
#endif
	runtime_lock = 0;

await:
endwait: if
	:: atomic { handed[t] -> handed[t] = 0; has[t] = 1 }; goto look
	/* retire() */
	:: d_step { !runtime_lock && is_idle[t] && may_retire(t) ->
		is_idle[t] = 0; rest[t] = NONE; gone[t] = 1 }
	fi;
stop:	skip
}

proctype waker(byte h, n)
{
	byte how, requeues = REQUEUES;
	bool given, in_line;

	do
	:: n > 0 -> n--; sn_tie_ready(h)
	:: n > 0 && requeues > 0 ->
		atomic { !runtime_lock -> n--; requeues--; line[h]++ };
		announce()
	:: n == 0 -> break
	od
}

#if APARTS
proctype spawner()
{
	byte n = APARTS;

	do
	:: n > 0 -> n--; atomic { !runtime_lock -> apart++ }; announce()
	:: n == 0 -> break
	od
}
#endif

#ifdef REAP_OWNED
#	define may_reap(h) (dead[h] && !gone[h])
#else
#	define may_reap(h) (dead[h] && !gone[h] && owned[h] == 0)
#endif

#ifndef NO_MONITOR
proctype monitor()
{
	byte n;

endlook: do
	:: blocked[0] && ready[0] > 0 -> untie_waiting(0, n)
	:: blocked[1] && ready[1] > 0 -> untie_waiting(1, n)
#if ENDS
	:: d_step { may_reap(0) -> gone[0] = 1 }
	:: d_step { may_reap(1) -> gone[1] = 1 }
#endif
	od
}
#endif

#if BIRTHS
proctype births()
{
endasked: do
	:: atomic { asked > 0 && !runtime_lock -> asked-- };
		if
		:: atomic { !born -> born = 1; has[3] = 1 }
		/* the start is refused: the second look */
		:: atomic {
			!runtime_lock;
			if
#ifdef REFUSED_BLIND
			:: in_list() -> give_to_sleeper()
			:: !in_list() -> put_back()
#elif defined(ASKED_BLIND)
			:: put_back()
#else
			:: in_list() || waits_in_line(0) || waits_in_line(1) -> give_to_sleeper()
			:: !in_list() && !waits_in_line(0) && !waits_in_line(1) -> put_back()
#endif
			fi }
		fi
	od
}
#endif

/* The thread runs no more tasks. If all threads are like this, and none can be started, work waits
 * until one can. */
#define leaves(t) (blocked[t] || gone[t] || dead[t])

init
{
	atomic {
		owned[0] = WAKES;
		owned[1] = OTHERS;
		has[0] = 1;
		has[1] = PROCESSORS > 1;
		run thread(0);
		run thread(1);
		run thread(2);
#if BIRTHS
		run thread(3);
		run births();
#endif
#if APARTS
		run spawner();
#endif
		run waker(0, WAKES);
		run waker(1, OTHERS)
#ifndef NO_MONITOR
		;
		run monitor()
#endif
	}
	timeout;
	assert(in_global() == 0 || (leaves(0) && leaves(1) && leaves(2) && !born));
	assert(ready[0] == 0 && ready[1] == 0 && owned[0] + owned[1] == 0);
	assert(picked[0] + picked[1] + picked[2] == 0);
	assert(dead[0] == 0 || gone[0]);
	assert(dead[1] == 0 || gone[1]);
	assert(asked == 0);
#if BIRTHS
	assert(!given_apart[0] && !given_apart[1] && !given_apart[2] && !given_apart[3]);
	idle = idle + has[3];
#else
	assert(!given_apart[0] && !given_apart[1] && !given_apart[2]);
#endif
	assert(idle + has[0] + has[1] + has[2] + handed[0] + handed[1] + handed[2] == PROCESSORS)
}
