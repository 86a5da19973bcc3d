/* SPDX-License-Identifier: MIT */
/*
 * Foreign threads inside a call, for which the end of a run waits; and callbacks inside such a
 * call, for which it waits only for a bounded time.
 *
 * What is modelled, by the names of the C code in src/sched/foreign.c:
 *   visitor()   sn_tasks_each() on two threads: sn_foreign_enter(), a look at the run's memory,
 *               then sn_foreign_go_out(), the callback, sn_foreign_come_back(), and another look
 *   runs()      two runs: sn_foreign_begin(), sn_foreign_end(), and then the freeing of the run's
 *               memory
 *
 * A callback looks at the memory of the run (stacks), and it may last until the run has ended. The
 * bounded wait ends at any moment.
 *
 * Abstracted: futexes are conditions, which a thread looks at when they may hold. `guests` has the
 * number of the run and the count, which change in one step.
 *
 * Safety: no thread looks at memory that was freed. If a guest was left behind, the memory of its
 * run is kept. A count never falls below zero, and is zero at rest. Both runs end.
 *
 * Mutants, each of which must be caught:
 *   STAYS         the callback is called without going out
 *   GUESTS_FIRST  the end dismisses the guests before it waits for those inside
 *   COUNT_FIRST   a guest that comes back removes itself from the guests before it enters
 *   NO_RUN        a guest that comes back does not compare the number of the run
 *   NO_KEEP       the memory is freed although a guest was left behind
 */
#define VISITORS 2
#define RUNS 2

bool running;
byte inside;
byte guests, guests_run;     /* one word */
bool freed[RUNS + 2];        /* the memory of each run, by its number */
byte ended;                  /* how many runs have ended */

inline look(which)
{
	assert(!freed[which])
}

inline leave()
{
	atomic { assert(inside > 0); inside-- }
}

proctype visitor()
{
	byte mine;
	bool is_in, lasts;

	/* sn_foreign_enter() */
	inside++;
	if
	:: !running -> leave(); goto over
	:: else
	fi;
	mine = guests_run;
	look(mine);
#ifndef STAYS
	/* sn_foreign_go_out() */
	atomic { mine = guests_run; guests++ };
	leave();
#endif
	/* the callback: it may last until the run has ended, and looks again */
	look(mine);
	if
	:: lasts = true
	:: lasts = false
	fi;
	if
	:: !lasts
	:: lasts && ended >= mine -> look(mine)
	fi;
#ifndef STAYS
	/* sn_foreign_come_back() */
#ifdef COUNT_FIRST
	atomic {
		if
		:: guests_run != mine || guests == 0 -> goto over
		:: else -> guests--
		fi
	};
	inside++;
	if
	:: !running -> leave(); goto over
	:: else
	fi;
#else
	inside++;
	if
	:: running -> is_in = true
	:: else -> leave(); is_in = false
	fi;
	atomic {
		if
#ifdef NO_RUN
		:: guests == 0 ->
#else
		:: guests_run != mine || guests == 0 ->
#endif
			if
			:: is_in -> assert(inside > 0); inside--
			:: else
			fi;
			goto over
		:: else -> guests--
		fi
	};
	if
	:: !is_in -> goto over
	:: else
	fi;
#endif
#endif
	look(mine);
	leave();
over:
	skip
}

inline dismiss_guests()
{
	if
	:: guests == 0
	:: true /* the bounded wait ends */
	fi;
	atomic { behind = guests; guests = 0; guests_run++ }
}

proctype runs()
{
	byte behind, now = 1;

	do
	:: now <= RUNS ->
		/* sn_foreign_begin() */
		running = true;
		/* sn_foreign_end() */
		running = false;
#ifdef GUESTS_FIRST
		dismiss_guests();
		inside == 0;
#else
		inside == 0;
		dismiss_guests();
#endif
#ifdef NO_KEEP
		freed[now] = true;
#else
		if
		:: behind == 0 -> freed[now] = true
		:: else
		fi;
#endif
		ended = now;
		now++
	:: else -> break
	od
}

init
{
	atomic {
		guests_run = 1;
		run runs();
		run visitor();
		run visitor()
	}
	_nr_pr == 1;
	assert(inside == 0 && guests == 0)
}
