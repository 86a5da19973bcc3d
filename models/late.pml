/* SPDX-License-Identifier: MIT */
/*
 * Late homes: a tied task whose home is stuck is untied by the monitor within the bound of
 * SENNIT_HOOKS_STAY: src/sched/tie.c. What else happens to tied tasks is in tie.pml, in which the
 * monitor looks all the time.
 *
 * What is modelled, by the names of the C code:
 *   waker()     sn_tie_ready() for the second home, with ask(). The home does not rest
 *               (SN_REST_NONE). The waker may be a task of it: it then has taken an idle processor,
 *               which wakes the monitor. The first home has one task from the beginning
 *   home()      a thread with its queue. It takes its tasks (sn_tie_take()). At some moment the
 *               second home may get stuck, forever. The first one, which each look finds first, may
 *               be slow, for a while or forever: the OS does not run it, but it is not stuck
 *   monitor()   sn_ties_step() with is_late(), is_stuck() and untie_waiting(); sn_sysmon_sleep()
 *               with everything_is_idle(), which asks sn_ties_are_asked()
 *
 * Abstracted: queues are counters. Time is the number of looks: a home is late at the second look
 * that finds it with tasks and without progress. MOST_LATE is 1. The runtime's lock is a flag; the
 * lock of a queue is held for one step. The monitor's other chores are left out.
 *
 * Safety (assertions): a home is late only after two looks in a row that find tasks in its queue,
 * between which it has taken none. No task is lost when the monitor empties a queue.
 * Liveness, under weak fairness (the claim `served`): no task waits forever for a stuck home.
 *
 * Variants: WAKES: how many; LIVE, for the claim.
 *
 * Mutants, each of which must be caught:
 *   ASK_FIRST        the waker asks for a look before it queues the task
 *   ASK_SILENT       the waker does not wake the monitor that sleeps
 *   CLEARED_LATE     the monitor clears `asked` after the look
 *   ASKED_ONCE       the monitor does not ask itself again while some tasks wait
 *   SLEEP_BLIND      the monitor goes to sleep without a look at `asked`
 *   SLEEP_UNLOCKED   it looks before it takes the runtime's lock
 *   NO_PASS          late homes that are not stuck come first at each look
 *   PASS_FOREVER     the looks that have passed homes never begin again at the first
 *   TAKEN_UNSEEN     is_late() does not look whether the home has taken tasks
 *   UNTIE_UNLOCKED   the monitor reads the queue before it takes its lock
 */
#ifndef WAKES
#	define WAKES 2
#endif

#define HOMES 2
#define FIRST 0
#define OTHER 1

#define WORKS 0
#define SLOW 1
#define STUCK 2

/* Of each home. */
byte state[HOMES];
byte ready[HOMES];      /* tasks in its queue */
byte taken[HOMES];
bool seen[HOMES];       /* seen_since is not 0 */
byte seen_taken[HOMES];

bool asked, asleep, locked;
bool busy;              /* a processor is not idle */

/* Only in the model, not in the code: looks in a row that have found the home without progress. */
byte looks[HOMES];

#ifdef LIVE
ltl served { [] <> !(state[OTHER] == STUCK && ready[OTHER] > 0) }
#endif

inline ask()
{
	if
	:: asked
	:: !asked ->
		atomic { was = asked; asked = 1 };
		if
#ifdef ASK_SILENT
		:: true
#else
		:: was || here
		:: !was && !here -> atomic { !locked -> asleep = 0 }
#endif
		fi
	fi
}

proctype waker()
{
	byte n = WAKES;
	bool was, here;

	do
	:: n > 0 ->
		n--;
		if
		:: atomic { !locked -> busy = 1; asleep = 0; here = 1 }
		:: true
		fi;
#ifdef ASK_FIRST
		ask();
		ready[OTHER]++;
#else
		ready[OTHER]++;
		ask();
#endif
		atomic { busy = (busy && !here); here = 0; was = 0 }
	:: n == 0 -> break
	od
}

proctype home(byte h)
{
	do
	:: atomic { ready[h] > 0 -> ready[h]-- };
		atomic { taken[h]++; looks[h] = 0 }
	:: atomic { h == OTHER -> state[h] = STUCK }; break
	:: atomic { h == FIRST -> state[h] = SLOW };
		if
		:: atomic { state[h] = WORKS; break }
		:: break
		fi
	od;
endwork: do
	:: atomic { state[h] == WORKS && ready[h] > 0 -> ready[h]-- };
		atomic { taken[h]++; looks[h] = 0 }
	od
}

/* Called for a home with tasks. */
inline look_at(h)
{
	atomic {
		looks[h] = (looks[h] < 2 -> looks[h] + 1 : 2);
		if
#ifdef TAKEN_UNSEEN
		:: !seen[h] ->
#else
		:: !seen[h] || seen_taken[h] != taken[h] ->
#endif
			seen[h] = 1;
			seen_taken[h] = taken[h]
		:: else ->
			assert(looks[h] == 2);
			pass--;
			if
			:: pass < 0 && !some_late -> some_late = 1; late = h
			:: else
			fi
		fi;
		h++
	}
}

inline untie_waiting(h)
{
#ifdef UNTIE_UNLOCKED
	n = ready[h];
	atomic { assert(n == ready[h]); ready[h] = 0 }
#else
	atomic { n = ready[h]; ready[h] = 0 }
#endif
}

inline step()
{
#ifndef CLEARED_LATE
	asked = 0;
#endif
	atomic { !locked -> locked = 1; pass = passed; h = 0 };
	do
	:: atomic { h < HOMES && ready[h] == 0 -> seen[h] = 0; looks[h] = 0; h++ }
	:: atomic { h < HOMES && ready[h] > 0 -> some = 1 }; look_at(h)
	:: h == HOMES -> break
	od;
	atomic { locked = 0; h = 0; pass = 0 };
#ifdef CLEARED_LATE
	asked = 0;
#endif
#ifndef ASKED_ONCE
	if
	:: some -> asked = 1
	:: !some
	fi;
#endif
	if
	:: some_late ->
		n = 0;
		if
		:: state[late] == STUCK -> untie_waiting(late)
		:: state[late] != STUCK
		fi;
#ifndef NO_PASS
		passed = passed + (n == 0)
#else
		skip
#endif
	:: !some_late ->
#ifndef PASS_FOREVER
		passed = 0
#else
		skip
#endif
	fi;
	d_step { some = 0; some_late = 0; late = 0; n = 0 }
}

proctype monitor()
{
	byte h, late, n;
	short pass, passed;
	bool some, some_late;

	do
	:: asked -> step()
	:: !asked ->
#ifdef SLEEP_UNLOCKED
		some = (!busy && !asked);
#endif
		atomic { !locked -> locked = 1 };
#ifdef SLEEP_BLIND
		some = !busy;
#elif !defined(SLEEP_UNLOCKED)
		some = !busy;
		some = (some && !asked);
#endif
		asleep = some;
		atomic { locked = 0; some = 0 };
endsleep:	!asleep
	od
}

init {
	atomic {
		run home(0);
		run home(1);
		ready[FIRST] = 1;
		asked = 1;
		run waker();
		run monitor()
	}
}
