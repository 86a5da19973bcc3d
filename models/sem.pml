/* SPDX-License-Identifier: MIT */
/*
 * Semaphores under sennit-run: tools/run/library/sem.c.
 *
 * What is modelled, by the names of the C code:
 *   task()     wait_until(), for one permit
 *   thread()   sem_wait() of a thread, in the C library's semaphore
 *   poster()   sem_post() of a task (direct), and of others; with HANDLER, one is a signal handler
 *              that has interrupted the first task, and is taken for the code of a task
 *   server()   serve(), with what serve_list() does while another one has the lock
 * There is one list, of one semaphore, or two (OTHER). That a note is for several lists is not
 * modelled: the server looks at each of them as at this one.
 *
 * Abstracted: the C library's semaphore does what POSIX says. Deadlines pass at any time. What is
 * done under the list's lock is one step, unless others can see parts of it without the lock: the
 * value, the number of waiters, and the permits. A chain is a set, because the order in which
 * permits are given does not matter. Both sides have a fence between their write and their read,
 * and the rest are read-modify-writes, so there are no store buffers.
 *
 * Safety (assertions): a waiter's semaphore, which is on its stack, is not touched after its call
 * has returned; the C library's semaphore is not touched to hand on when every call that waits for
 * it has returned, because it may be destroyed then; permits are neither lost nor doubled. At rest:
 * no task and no thread waits while there is a permit, and each poster has returned.
 *
 * Variants: TASKS, THREADS, POSTS (by tasks) and CALLS (by others, so that the server hands on).
 * TIMED: the first task gives up at its deadline. HANDLER. OTHER: one more task waits for a second
 * semaphore, for which one more post is made by a caller that is no task.
 *
 * Mutants, each of which must be caught:
 *   NO_LOOK          a task that has entered the list does not try the semaphore
 *   COUNT_LATE       it counts itself after it has tried
 *   LOOK_FIRST       sem_post() reads the number of waiters before it increments the semaphore
 *   NOTE_KEPT        the server removes the note when it has looked at the list
 *   NOTE_LATE        sem_post() leaves its note after it has called the server
 *   SEEN_LATE        the server reads the number of calls after it has looked for notes
 *   ONE_FOR_ALL      the server hands on one permit for each note
 *   TIMEOUT_BLINDLY  with TIMED: a task reports its deadline although it has a permit
 *   NO_PERMIT        with TIMED: one that was taken out returns without waiting for its permit
 *   NEXT_LATE        where the chain continues is read after the permit was given
 *   MERELY_WAKES     a waiter is taken out and woken, but gets nothing, and does not try again
 *   TRIES_FIRST      the semaphore of a note is tried before a waiter for it was found
 *   NOTE_OVERWRITES  with OTHER: a note takes the place of that for the other semaphore
 *   STOPS_AT_FIRST   with OTHER: for several semaphores, the server stops at the first waiter for
 *                    whom there is no permit
 *   INSISTS          with HANDLER: sem_post() waits for the list's lock
 *   TRIES_ONCE       the server does not try the lock again once it has said that it is wanted
 *   NOTE_DROPPED     it does not leave the note for its next turn
 *   SILENT_RELEASE   who releases the lock does not call the server although it is wanted
 *   LOOKS_EARLY      who releases the lock looks before that whether the server is wanted
 */
#ifndef TASKS
#	define TASKS 2
#endif
#ifndef THREADS
#	define THREADS 0
#endif
#ifndef POSTS
#	define POSTS 0
#endif
#ifndef CALLS
#	define CALLS 2
#endif
#ifdef HANDLER
#	define HANDLERS 1
#else
#	define HANDLERS 0
#endif
#ifdef OTHER
#	define OTHERS 1
#else
#	define OTHERS 0
#endif
#ifdef TIMED
#	define IS_TIMED(i) ((i) == 0)
#else
#	define IS_TIMED(i) false
#endif

#define SEM_OF(i) ((i) < TASKS -> 0 : 1)

/* Values of posted. */
#define NONE 0
#define ONLY(sem) ((sem) + 1)
#define SEVERAL 3

byte value[2];
byte waiting;         /* the list's length, as sem_post() reads it */
byte posted;
bool called;          /* whether the number of calls has changed since the server read it */
bool wanted;          /* the server, by whoever has the list's lock */
bool asleep;          /* the server, in the futex */
byte incremented[2];  /* how many permits there have ever been */
byte taken[2];        /* how many of them calls have returned with */
byte left[2];         /* tasks and threads that have not returned */

bool list_locked;
byte list[TASKS + OTHERS];
byte length;
bool permit[TASKS + OTHERS];
bool on_stack[TASKS + OTHERS];
bool interrupted;     /* the first task, by the handler */

#define RUNS(me) ((me) != 0 || !interrupted)

/* ---- the list, under its lock; i, j, w and chain are variables of the caller ---- */

/* Takes out the waiter at the place i. */
inline take_out()
{
	length--;
	j = i;
	do
	:: j < length -> list[j] = list[j + 1]; j++
	:: else -> break
	od;
	list[length] = 0;
	j = 0
}

/* sem_trywait(), by whoever hands on. */
inline try_wait(sem, got)
{
	d_step {
		assert(left[sem] > 0);
		got = (value[sem] > 0);
		if
		:: got -> value[sem]--
		:: else
		fi
	}
}

inline call_server()
{
	d_step { called = !asleep; asleep = 0 }
}

/* unlock(), by a party that continues only while a condition holds. */
inline release_list(goes_on)
{
#ifdef LOOKS_EARLY
	if
	:: d_step { goes_on && wanted -> wanted = 0 }; call_server()
	:: goes_on && !wanted
	fi;
#endif
	d_step { goes_on -> list_locked = 0 };
#if !defined(SILENT_RELEASE) && !defined(LOOKS_EARLY)
	if
	:: d_step { goes_on && wanted -> wanted = 0 }; call_server()
	:: goes_on && !wanted
	fi
#endif
}

inline leave_note(left_note)
{
#ifdef NOTE_OVERWRITES
	posted = left_note
#else
	d_step {
		if
		:: posted == NONE || posted == left_note -> posted = left_note
		:: else -> posted = SEVERAL
		fi
	}
#endif
}

/* Releases the list's lock. */
inline hand_on(note)
{
#ifdef TRIES_FIRST
	if
	:: note != SEVERAL ->
		try_wait(note - 1, got);
		d_step {
			if
			:: got -> value[note - 1]++; got = 0
			:: else
			fi
		}
	:: else
	fi;
#endif
	do
	:: i < length && note != SEVERAL && note != ONLY(SEM_OF(list[i])) -> i++
	:: i < length && (note == SEVERAL || note == ONLY(SEM_OF(list[i]))) ->
		w = list[i];
#ifdef MERELY_WAKES
		got = (value[SEM_OF(w)] > 0);
#else
		try_wait(SEM_OF(w), got);
#endif
		if
		:: got ->
			d_step {
				got = 0;
				assert(on_stack[w]);
				take_out();
				waiting--;
				chain = chain | (1 << w)
			}
#ifdef ONE_FOR_ALL
			;
			break
#endif
		:: else ->
#ifdef STOPS_AT_FIRST
			break
#else
			if
			:: note == SEVERAL -> i++
			:: else -> break
			fi
#endif
		fi
	:: i >= length -> break
	od;
	i = 0;
	w = 0;
	release_list(true);
	/* sn_run_wake() */
	do
	:: chain != 0 ->
		i = (chain & 1 -> 0 : (chain & 2 -> 1 : 2));
		d_step {
			assert(on_stack[i]);
			permit[i] = 1;
			chain = chain & ~(1 << i)
		};
#ifdef NEXT_LATE
		assert(on_stack[i]);
#endif
		i = 0
	:: chain == 0 -> break
	od
}

proctype server()
{
	byte i, j, w, chain, note;
	bool got;

again:
#ifndef SEEN_LATE
	called = 0;
#endif
	if
	:: posted != NONE ->
#ifdef NOTE_KEPT
		note = posted;
#else
		d_step { note = posted; posted = NONE };
#endif
		d_step { got = !list_locked; list_locked = 1 };
		if
		:: got
		:: else ->
#ifndef NOTE_DROPPED
			leave_note(note);
#endif
			wanted = 1;
#ifndef TRIES_ONCE
			d_step { got = !list_locked; list_locked = 1 }
#endif
		fi;
		if
		:: got -> got = 0; hand_on(note)
		:: else
		fi;
		note = NONE;
#ifdef NOTE_KEPT
		posted = NONE
#endif
	:: else
	fi;
#ifdef SEEN_LATE
	called = 0;
#endif
	d_step {
		if
		:: !called -> asleep = 1
		:: else -> called = 0
		fi
	};
end:	!asleep;
	goto again
}

proctype poster(byte sem; bool direct; bool is_handler)
{
	byte i, j, w, chain, seen;
	bool got;

	if
	:: is_handler -> interrupted = 1
	:: else
	fi;
#ifdef LOOK_FIRST
	seen = waiting;
#endif
	d_step { value[sem]++; incremented[sem]++ };
#ifndef LOOK_FIRST
	seen = waiting;
#endif
	if
	:: seen == 0 -> goto out
	:: else -> seen = 0
	fi;
	if
	:: direct ->
#ifdef INSISTS
		d_step { !list_locked -> list_locked = 1 };
#else
		d_step {
			got = !list_locked;
			list_locked = 1
		};
		if
		:: !got -> goto note
		:: else -> got = 0
		fi;
#endif
		hand_on(ONLY(sem));
		goto out
	:: else
	fi;
note:	skip;
#ifndef NOTE_LATE
	leave_note(ONLY(sem));
#endif
	call_server();
#ifdef NOTE_LATE
	leave_note(ONLY(sem));
#endif
out:	if
	:: is_handler -> interrupted = 0
	:: else
	fi
}

proctype task(byte me)
{
	byte i, j;
	bool got, over;

	d_step { !list_locked && RUNS(me) -> list_locked = 1 };
	d_step {
		RUNS(me) ->
		on_stack[me] = 1;
		list[length] = me;
		length++
	};
#ifndef COUNT_LATE
	d_step { RUNS(me) -> waiting++ };
#endif
#ifndef NO_LOOK
	d_step {
		RUNS(me) ->
		got = (value[SEM_OF(me)] > 0);
		if
		:: got -> value[SEM_OF(me)]--
		:: else
		fi
	};
#endif
#ifdef COUNT_LATE
	d_step { RUNS(me) -> waiting++ };
#endif
	d_step {
		RUNS(me) ->
		if
		:: got -> i = length - 1; take_out(); i = 0; waiting--; on_stack[me] = 0
		:: else
		fi
	};
	release_list(RUNS(me));
	if
	:: got -> goto out
	:: else
	fi;
end_parked:
	if
	:: permit[me] -> got = 1
	:: IS_TIMED(me) && !permit[me] ->
		over = 1;
		/* The look at the list. */
		d_step {
			!list_locked && RUNS(me) ->
			list_locked = 1;
			do
			:: i < length && list[i] != me -> i++
			:: else -> break
			od;
			got = (i == length);
			if
			:: !got -> take_out(); waiting--
			:: else
			fi;
			i = 0
		};
		release_list(RUNS(me))
#ifndef NO_PERMIT
		;
		if
		:: got -> permit[me]
		:: else
		fi
#endif
	fi;
	d_step { RUNS(me) -> on_stack[me] = 0 };
#ifdef TIMEOUT_BLINDLY
	got = !over;
#endif
	assert(got || over);
out:	skip;
	d_step {
		if
		:: got -> taken[SEM_OF(me)]++
		:: else
		fi;
		left[SEM_OF(me)]--
	}
}

proctype thread()
{
end_waits:
	d_step { value[0] > 0 -> value[0]--; taken[0]++; left[0]-- }
}

init
{
	byte i;

	atomic {
		left[0] = TASKS + THREADS;
		left[1] = OTHERS;
		do
		:: i < TASKS + OTHERS -> run task(i); i++
		:: else -> break
		od;
		i = 0;
		do
		:: i < THREADS -> run thread(); i++
		:: else -> break
		od;
		i = 0;
		do
		:: i < POSTS -> run poster(0, true, false); i++
		:: else -> break
		od;
		i = 0;
		do
		:: i < CALLS -> run poster(0, false, false); i++
		:: else -> break
		od;
		i = 0;
		do
		:: i < HANDLERS -> run poster(0, true, true); i++
		:: else -> break
		od;
		i = 0;
		do
		:: i < OTHERS -> run poster(1, false, false); i++
		:: else -> break
		od;
		run server()
	}
	timeout;
	assert(value[0] + taken[0] == incremented[0]);
	assert(value[1] + taken[1] == incremented[1]);
	assert(value[0] == 0 || left[0] == 0);
	assert(value[1] == 0 || left[1] == 0)
}
