/* SPDX-License-Identifier: MIT */
/*
 * Tied tasks: each runs on one thread only, its home, which runs others meanwhile. src/sched/tie.h.
 *
 * What is modelled, by the names of the C code in src/sched:
 *   thread()    sn_next_task() with what it does for bound tasks, nap(), become_idle(),
 *               sleep_in_poller(), sleep_in_parker(), stand_in_line(), sleep_in_list(), retire().
 *               Threads 0 and 1 are homes; thread 2 only runs what anyone may run.
 *   waker()     sn_tie_ready() with rouse(), for the tasks of one home, on a thread without a
 *               processor; or, with REQUEUES, sn_requeue(), which puts a tied task into the global
 *               queue
 *   monitor()   sn_ties_step(): a home that is blocked forever is stuck
 *
 * Abstracted: queues are counters, and the lock of a home's queue is a flag. The runtime's lock is
 * a flag where what it guards is more than one step. The global queue gives out its tasks in any
 * order. Memory order: the words of the handshake are sequentially consistent in the code. What
 * sn_submitted() does is one step, after the task was queued: idle.pml shows that nothing is missed
 * between the two. A thread that naps or polls does so until it is woken.
 *
 * Safety: a tied task runs on its home (by construction), which has a processor. A home is handed a
 * processor only while it waits for one, and once. No waker touches a home that has retired. At
 * rest no task waits, in any queue, except while its home is blocked and not taken for stuck yet;
 * no processor is lost.
 *
 * Variants: PROCESSORS; WAKES and OTHERS, for the first and for the second home; REQUEUES, at most
 * so many of them; BLOCKS: how many homes block forever, with a task; NAPS, at most so many.
 *
 * Mutants, each of which must be caught:
 *   PARK_BLIND      a home that has come into the list does not look into its queue again
 *   LOOK_FIRST      it looks before it says that it is there
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
 *   NO_MONITOR      what waits for a blocked home is left to it
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

#define THREADS 3
#define HOMES 2

/* enum sn_rest */
#define NONE 0
#define PARKED 1
#define POLLING 2
#define NAPPING 3
#define IN_LINE 4

/* Of each thread. */
byte ready[THREADS];    /* in its queue */
byte rest[THREADS];
byte owned[THREADS];    /* tied to it, and not run yet */
byte line[THREADS];     /* its tasks in the global queue */
byte picked[THREADS];
bool locked[THREADS];   /* its queue */
bool is_idle[THREADS];  /* in the list */
bool has[THREADS];      /* a processor */
bool handed[THREADS];
bool gone[THREADS], blocked[THREADS];

byte plain;             /* tasks in the global queue that anyone may run */
byte idle;              /* processors */
bool runtime_lock, polling, nap, eventfd;
byte blocks = BLOCKS, naps = NAPS;

#ifdef RETIRE_OWNED
#	define may_retire(t) (t < HOMES)
#else
#	define may_retire(t) (t < HOMES && owned[t] == 0)
#endif

#define in_global() (plain + line[0] + line[1])

/* sn_submitted(): an idle processor goes to a thread in the list. */
inline announce()
{
	atomic {
		!runtime_lock;
		if
		:: idle > 0 && is_idle[2] -> give_idle(2)
		:: idle > 0 && !is_idle[2] && is_idle[0] -> give_idle(0)
		:: idle > 0 && !is_idle[2] && !is_idle[0] && is_idle[1] -> give_idle(1)
		:: idle > 0 && !is_idle[2] && !is_idle[0] && !is_idle[1] -> eventfd = 1
		:: idle == 0 -> nap = 0
		fi
	}
}

inline give_idle(u)
{
	idle--;
	is_idle[u] = 0;
	rest[u] = NONE;
	assert(!handed[u] && !has[u] && !gone[u]);
	handed[u] = 1
}

/* The home is off the list, or was in line. */
inline hand(h)
{
	d_step {
		assert(!gone[h] && !has[h] && !handed[h]);
		handed[h] = 1
	}
}

/* With the lock of its queue held, which is not empty. */
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

inline sn_tie_ready(h)
{
	atomic { !locked[h] -> assert(!gone[h]); locked[h] = 1 };
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

proctype thread(byte t)
{
	byte h, how;
	bool given, in_line;

	if
	:: has[t]
	:: !has[t] -> goto parker
	fi;

look:	if
	:: picked[t] > 0 -> d_step { assert(has[t]); picked[t]-- }; goto execute
	:: picked[t] == 0
	fi;
	if
	:: atomic { ready[t] > 0 && !locked[t] -> ready[t]-- }; goto execute
	:: atomic { !runtime_lock && plain > 0 -> plain-- }; goto look
	:: atomic { !runtime_lock && line[0] > 0 -> line[0]--; h = 0 }
	:: atomic { !runtime_lock && line[1] > 0 -> line[1]--; h = 1 }
	:: ready[t] == 0 && in_global() == 0 -> goto nothing
	fi;

	/* a tied task from the global queue */
	if
	:: h == t -> goto execute
	:: h != t
	fi;
	if
#ifdef HAND_ANYWAY
	:: d_step { true -> rest[h] = NONE; picked[h]++; has[t] = 0 }; hand(h); goto parker
#else
	:: d_step { rest[h] == IN_LINE -> rest[h] = NONE; picked[h]++; has[t] = 0 }; hand(h); goto parker
	:: rest[h] != IN_LINE -> sn_tie_ready(h); goto look
#endif
	fi;

execute:
	assert(has[t] && owned[t] > 0);
	owned[t]--;
	if
	:: goto look
	:: atomic { blocks > 0 && !runtime_lock -> blocks--; blocked[t] = 1; has[t] = 0; idle++ };
		if
		:: in_global() > 0 -> announce()
		:: in_global() == 0
		fi;
		goto stop
	fi;

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
	if
	:: in_global() > 0 && idle > 0 ->
		d_step { idle--; has[t] = 1; runtime_lock = 0 };
		goto look
	:: in_global() == 0 || idle == 0
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

#ifndef NO_MONITOR
proctype monitor()
{
	byte h = 0;

endlook: do
	:: atomic { blocked[h] && ready[h] > 0 && !locked[h] && !runtime_lock ->
		plain = plain + ready[h]; owned[h] = owned[h] - ready[h]; ready[h] = 0 };
		announce()
	:: d_step { blocked[1 - h] && ready[1 - h] > 0 -> h = 1 - h }
	od
}
#endif

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
		run waker(0, WAKES);
		run waker(1, OTHERS)
#ifndef NO_MONITOR
		;
		run monitor()
#endif
	}
	timeout;
	assert(in_global() == 0);
	assert(ready[0] == 0 && ready[1] == 0 && owned[0] + owned[1] == 0);
	assert(picked[0] + picked[1] + picked[2] == 0);
	assert(idle + has[0] + has[1] + has[2] + handed[0] + handed[1] + handed[2] == PROCESSORS)
}
