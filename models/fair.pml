/* SPDX-License-Identifier: MIT */
/*
 * Which task runs next: the order of src/sched/find_work.c and turn.h, and the proof that every
 * wait has a bound ("How late things can be" in docs/design.md).
 *
 * What is modelled, by the names of the C code: one processor, all of whose tasks may behave in any
 * way:
 *   leave_task(), pick_local(), sn_take_local(), sn_take_any_local(), sn_next_task(),
 *   sn_find_work(), be_fair(), sn_global_get(), older_is_local(), hurry_if_older_is_left(),
 *   local_put(), global_put_spilled(), sn_ready(), make_fair() of src/sched/sysmon.c, with LONG;
 *   sn_global_put_ring(), with REVOKED
 * One decision is one step. Between two of them the running task makes up to WAKES others runnable,
 * here or by a foreign thread, and then parks or yields; timers become due, and events come from
 * the network.
 *
 * Abstracted:
 *   - The figures: FAIR_TICKS is 3, HURRY_TICKS 2, SN_NEXT_RUNS 1, the ring holds 2. next_fair is
 *     counted down, instead of tick up.
 *   - A task's age is its rank among the runnable tasks (rank), so no two have the same age. The
 *     code compares milliseconds; of two tasks of the same millisecond the one in the ring goes
 *     first.
 *   - No thieves: they only ever shorten a queue. Every turn of the network polls.
 *   - The tasks that a poll wakes are treated like those that a foreign thread makes runnable if
 *     the global queue is not empty, and otherwise like those that the running task makes runnable.
 *   - With TIES a decision may skip pick_local(), as it does while tied tasks wait. These are not
 *     modelled themselves (tie.pml).
 *   - With LONG each decision lasts for FAIR_NS or more, and the monitor looks once between any
 *     two.
 *   - With REVOKED the processor may be taken from its thread before any decision, when there is no
 *     other thread for it: its tasks go to the global queue. The decisions that follow are those
 *     for the processor that the thread takes next, whose ring is empty. That processor has counts
 *     of its own until its fair turn; here it continues with those of the first one.
 *
 * Safety (assertions), for all loads: a timer that is due fires, and the network is polled, within
 * FAIR_TICKS decisions, with LONG at the next one; next tasks run at most SN_NEXT_RUNS times while
 * there is something in the ring; task 1 waits for at most 2 * TASKS + FAIR_TICKS turns, where a
 * turn is everything that runs until a decision for something other than a next task; no task is
 * lost. The number holds for these figures: with a larger FAIR_TICKS, or more tasks, the task that
 * a full ring sends to the front with its older half takes some more turns. With REVOKED it is two
 * more. A bound of the right size is enough to recognize an order that starves a task.
 *
 * Variants: LONG, TIES, REVOKED; TASKS, WAKES, FAIR_TICKS, MOST_TURNS.
 *
 * Mutants, each of which must be caught:
 *   GLOBAL_FIRST     a task of the global queue is returned before timers and network are served,
 *                    as it once was
 *   NEXT_UNLIMITED   the next task always comes before the ring
 *   NEXT_SLOW        the limit does not hold in the scheduler's loop, where the next task comes
 *                    first
 *   SPILL_FRONT      the tasks that a full ring sends away go to the front of the global queue,
 *                    whatever their ages
 *   SPILL_BACK       with 6 FAIR_TICKS: they go to the end, whatever their ages
 *   RING_BACK        with REVOKED: the tasks of a revoked processor go to the end, whatever their
 *                    ages
 *   GLOBAL_ALWAYS    with LONG: a fair turn takes from the global queue, also when an older task is
 *                    at hand
 *   NO_FORCE         with LONG: the monitor does nothing
 */
#ifndef TASKS
#	define TASKS 4
#endif
#ifndef WAKES
#	define WAKES 1
#endif
#ifndef FAIR_TICKS
#	define FAIR_TICKS 3
#endif
#define HURRY 2
#define NEXT_RUNS 1
#define CAPACITY 2
#ifndef MOST_TURNS
#	define MOST_TURNS (2 * TASKS + FAIR_TICKS)
#endif

chan ring = [CAPACITY] of { byte };
chan global = [TASKS] of { byte };
byte next;              /* 0: no task */
byte rank[TASKS + 1];   /* 0: not in a queue; 1: the oldest */
byte queued;            /* how many have a rank */
byte to_fair = FAIR_TICKS;
byte next_runs;
byte running = 1;
bool timer_due, news;
/* Only in the model, not in the code. */
byte timer_waits, news_wait, turns, in_row;
hidden byte i, n, size, other, task;

/* ---- all inside d_step ---- */

inline make_runnable(t)
{
	assert(rank[t] == 0);
	queued++;
	rank[t] = queued;
	if
	:: t == 1 -> turns = 0
	:: else
	fi
}

inline taken(t)
{
	i = 1;
	do
	:: i <= TASKS ->
		if
		:: rank[i] > rank[t] -> rank[i]--
		:: else
		fi;
		i++
	:: else -> break
	od;
	rank[t] = 0;
	queued--;
	i = 0
}

/* The first tasks of the global queue go after the others. */
inline rotate(count)
{
	do
	:: count > 0 -> global?i; global!i; count--
	:: else -> break
	od;
	i = 0
}

inline local_put(t)
{
	if
	:: len(ring) < CAPACITY -> ring!t
	:: else ->
		/* global_put_spilled(): the older half, and the task */
		size = len(global);
		n = 0;
		if
		:: size > 0 -> global?<n>; ring?<i>; n = (rank[i] < rank[n])
		:: else
		fi;
#ifdef SPILL_FRONT
		n = 1;
#endif
#ifdef SPILL_BACK
		n = 0;
#endif
		ring?i; global!i;
		global!t;
		/* To the front: the tasks in the queue go after them. */
		if
		:: n > 0 -> rotate(size)
		:: else
		fi;
		n = 0;
		i = 0;
		size = 0
	fi
}

#ifdef REVOKED
inline sn_global_put_ring()
{
	size = len(global);
	n = 0;
	if
	:: size > 0 && len(ring) > 0 -> global?<n>; ring?<i>; n = (rank[i] < rank[n])
	:: size > 0 && len(ring) == 0 && next != 0 -> global?<n>; n = (rank[next] < rank[n])
	:: else
	fi;
#	ifdef RING_BACK
	n = 0;
#	endif
	do
	:: len(ring) > 0 -> ring?i; global!i
	:: else -> break
	od;
	if
	:: next != 0 -> global!next; next = 0
	:: else
	fi;
	if
	:: n > 0 -> rotate(size)
	:: else
	fi;
	n = 0;
	i = 0;
	size = 0;
	in_row = 0
}
#endif

inline hurry_if_older_is_left()
{
	if
	:: len(global) > 0 && len(ring) > 0 ->
		global?<i>;
		ring?<n>;
		if
		:: rank[i] < rank[n] && to_fair > HURRY -> to_fair = HURRY
		:: else
		fi;
		i = 0;
		n = 0
	:: else
	fi
}

/* The result is in task; 0 if there is none. Takes at most half of the ring, which is as many tasks
 * as an empty ring has room for. */
inline global_get(most)
{
	if
	:: len(global) > 0 ->
		global?task;
		n = 1;
		do
		:: n < most && len(global) > 0 -> global?i; ring!i; n++
		:: else -> break
		od;
		n = 0;
		i = 0;
		hurry_if_older_is_left()
	:: else
	fi
}

/* The result is in task. */
inline take_local()
{
	if
#ifdef NEXT_UNLIMITED
	:: next != 0 -> task = next; next = 0; in_row++
#else
	:: next_runs < NEXT_RUNS && next != 0 -> task = next; next = 0; next_runs++; in_row++
#endif
	:: else ->
		next_runs = 0;
		if
		:: len(ring) > 0 -> ring?task; in_row = 0; turns++
		:: else
		fi
	fi
}

inline take_any_local()
{
#ifdef NEXT_SLOW
	if
	:: next != 0 -> task = next; next = 0; in_row++
	:: else -> if :: len(ring) > 0 -> ring?task; in_row = 0; turns++ :: else fi
	fi
#else
	take_local();
	if
	:: task == 0 && next != 0 -> task = next; next = 0
	:: else
	fi
#endif
}

inline be_fair()
{
	to_fair = FAIR_TICKS;
	timer_due = 0;
	timer_waits = 0;
	news = 0;
	news_wait = 0
}

inline sn_tick()
{
	if
	:: to_fair > 0 -> to_fair--
	:: else
	fi
}

bool tied; /* tied tasks wait */

/* The next decision: picks the task that runs. */
inline decide()
{
	task = 0;
	if
	:: timer_due -> timer_waits++
	:: else
	fi;
	if
	:: news -> news_wait++
	:: else
	fi;
	/* pick_local() */
	sn_tick();
	if
	:: to_fair > 0 && !tied -> take_local()
	:: else
	fi;
	if
	:: task == 0 ->
		/* sn_next_task(), sn_find_work() */
		sn_tick();
		if
		:: to_fair == 0 ->
#ifdef GLOBAL_FIRST
			to_fair = FAIR_TICKS;
			global_get(1);
			if
			:: task == 0 -> be_fair()
			:: else -> turns++; in_row = 0
			fi
#else
			be_fair();
#	ifndef GLOBAL_ALWAYS
			/* older_is_local(): the local task goes first */
			size = 1;
			if
			:: len(global) > 0 ->
				global?<i>;
				if
				:: len(ring) > 0 -> ring?<n>; size = (rank[i] < rank[n]); n = 0
				:: else
				fi;
				if
				:: next != 0 && rank[next] < rank[i] -> size = 0
				:: else
				fi;
				i = 0
			:: else
			fi;
			if
			:: size -> size = 0; global_get(1)
			:: else
			fi;
#	else
			global_get(1);
#	endif
			if
			:: task != 0 -> turns++; in_row = 0
			:: else
			fi
#endif
		:: else ->
			timer_due = 0;
			timer_waits = 0
		fi;
		if
		:: task == 0 -> take_any_local()
		:: else
		fi;
		if
		:: task == 0 ->
			global_get(CAPACITY / 2 + 1);
			if
			:: task == 0 ->
				/* Idle: the thread looks everywhere. */
				be_fair(); next_runs = 0; in_row = 0
			:: else -> turns++; in_row = 0
			fi
		:: else
		fi
	:: else
	fi;
	if
	:: task != 0 -> taken(task)
	:: else
	fi;
	running = task;
	task = 0;
	if
	:: rank[1] == 0 -> turns = 0
	:: else
	fi;
	if
	:: len(ring) == 0 -> in_row = 0
	:: else
	fi
}

/* ---- any load ---- */

/* A parked task, or 0 if there is none. It does not matter which one, except for task 1. */
inline any_parked()
{
	other = 2;
	do
	:: other <= TASKS && (rank[other] != 0 || running == other) -> other++
	:: else -> break
	od;
	if
	:: other > TASKS -> other = 0
	:: else
	fi
}

inline wakes(t)
{
	if
	:: d_step { /* next */
		make_runnable(t);
		other = next;
		next = t;
		if
		:: other != 0 -> local_put(other)
		:: else
		fi;
		other = 0
	}
	:: d_step { make_runnable(t); local_put(t) } /* last */
	:: d_step { make_runnable(t); global!t } /* a foreign thread */
	fi
}

init
{
	byte left, t;

	do
	::	left = WAKES;
		do
		:: left > 0 -> left--;
			d_step { any_parked(); t = other; other = 0 }
			if
			:: t != 0 -> wakes(t)
			:: t == 0
			:: rank[1] == 0 && running != 1 -> t = 1; wakes(t)
			fi;
			t = 0
		:: break
		od;
		left = 0;
		if
		:: !timer_due -> timer_due = 1
		:: true
		fi;
		if
		:: !news -> news = 1
		:: true
		fi;
#ifdef LONG
#	ifndef NO_FORCE
		to_fair = 0;
#	endif
#endif
		if
		:: running != 0 -> d_step { t = running; running = 0; make_runnable(t); local_put(t); t = 0 }
		:: running = 0
		fi;
#ifdef REVOKED
		if
		:: d_step { sn_global_put_ring() }
		:: true
		fi;
#endif
#ifdef TIES
		if
		:: tied = 1
		:: tied = 0
		fi;
#endif
		d_step {
			decide();
			tied = 0;
			assert(len(ring) + len(global) + (next != 0) == queued);
#ifdef LONG
			assert(timer_waits == 0 && news_wait == 0);
#else
			assert(timer_waits < FAIR_TICKS && news_wait < FAIR_TICKS);
#endif
			assert(in_row <= NEXT_RUNS);
			assert(turns <= MOST_TURNS)
		}
	od
}
