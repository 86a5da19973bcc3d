/* SPDX-License-Identifier: MIT */
/*
 * Waits for descriptors that the program owns: src/io/watch.h.
 *
 * What is modelled, by the names of the C code:
 *   pair(),      wait_once() of src/io/poll.c: sn_watch_add() with arm(), park_shared(),
 *   single()     sn_watch_remove(), again and again at the same place on the stack. Task 0 has a
 *                wait for each of two numbers, with one waiter; task 1 has one wait, for the first
 *                number
 *   poller()     sn_netpoll(), and sn_watch_event() some time later
 *   timers()     deadline_fire() of src/task/waiter.c
 *   program()    the program gives the first number to another descriptor, perhaps after
 *                sn_watch_closing(), perhaps while the first one stays open under another number
 *   world()      descriptors become ready, and stop being ready
 * Descriptors A and B have the first number, one after the other; C has the second one.
 *
 * epoll: an item for each descriptor and number, with the events that it was asked for and a tag.
 * When one of the events is there, epoll reports it once, until it is asked again. When it is
 * asked, it looks for the events. Closing the last number of a descriptor removes the item without
 * notice.
 *
 * Abstracted: all fields of a watch are guarded by its lock, so memory is sequentially consistent;
 * the one access without the lock, to wait->watch, is a release and an acquire. Steps under the
 * lock that no other party can distinguish are one step. So are the claim of a waiter and its
 * result, and the firing of a timer, during which the heap's lock is held. A task does not look
 * with poll() first. The wrapping of the questions' numbers is left out: a new one is just larger
 * than all that are in use. Copies are modelled where the number keeps its descriptor.
 *
 * Safety (assertions): a wait and its waiter are touched only until their task has returned; a wait
 * gets no event of another descriptor, and none that epoll has reported before the wait was in the
 * list; epoll is asked for the events that the waits in the list are for; a task is made runnable
 * only when it is parked, and once for each park. At rest: no task is parked while a descriptor for
 * which it waits is ready, unless that was closed for good; and no copy is open for which no task
 * waits.
 *
 * Variants: NO_TIMERS (no deadlines); NO_REUSE (the number keeps its descriptor); COPIES (and the
 * first one is watched through a copy); ROUNDS (waits of each task); CHANGES (of readiness); POLLERS.
 *
 * Mutants, each of which must be caught:
 *   NO_REARM        epoll is not asked again, after an event, for the waits that are left
 *   OUT_FIRST       a wait is taken out of the list before its waiter is ended
 *   REMOVE_BLINDLY  a task whose waiter was ended does not look whether its waits are out
 *   NO_NUMBERS      a wait takes every answer
 *   ONLY_NEW        a question has a new number only when a descriptor is registered
 *   KEEP_OLDER      the earlier waits stay when the number belongs to another descriptor
 *   LAZY            epoll is not asked for a wait when an earlier one waits for the same event
 *   COPY_FORGOTTEN  a wait that the watch takes out does not say whether there was a copy
 *   COPY_LATE       it says so when it is out of the list
 *   COPY_BLINDLY    its task closes the copy although others wait
 */
#ifndef ROUNDS
#	define ROUNDS 2
#endif
#ifndef CHANGES
#	define CHANGES 2
#endif
#ifndef POLLERS
#	define POLLERS 1
#endif

#define A 0
#define B 1
#define C 2
#define NOTHING 3
#define NUMBER(file) ((file) == C)

#define IN 1
#define OUT 2

/* The waits: 0 and 1 of task 0, 2 of task 1. */
#define TASK(wait) ((wait) == 2)
#define WATCH(wait) ((wait) == 1)

/* The kernel. */
byte is[2];      /* the descriptor that has each number */
bool lives_on;   /* A is still open after it has lost its number */
byte ready[3];
bool known[3];
byte asked_for[3];
byte tag[3];

/* The watches. */
bool lock[2];
bool registered[2];
byte question;   /* set while epoll is asked: the question's number, from one sequence for both
                  * watches */
byte answer[2];  /* the question's number in the event that a poller holds */
byte armed[2];   /* the number of the last question for each watch */

/* The waits, and the waiters. */
bool in[3];
byte wants[3];
byte since[3];
bool claimed[2], parked[2], woken[2], timer[2];

#ifdef COPIES
bool copy;       /* what the first watch has registered is a copy */
bool copied[3];  /* wait->copy */
#endif

/* Only in the model, not in the code. */
bool exists[3];  /* on the stack of a task that has not returned */
byte meant[3];   /* the descriptor that the wait is for */
bool counts[6];  /* whether the event came while the wait was in the list; for each event that a
                  * poller holds */

#define EVENTS(watch) \
	((watch) == 1 -> (in[1] -> wants[1] : 0) \
		      : ((in[0] -> wants[0] : 0) | (in[2] -> wants[2] : 0)))

hidden byte i;

/* The result is the variable question. */
inline new_question()
{
	question = 0;
	for (i : 0 .. 2) {
		question = (since[i] > question -> since[i] : question);
		question = (tag[i] > question -> tag[i] : question)
	}
	for (i : 0 .. 1) {
		question = (answer[i] > question -> answer[i] : question);
		question = (armed[i] > question -> armed[i] : question)
	}
	question++;
	i = 0
}

inline acquire(watch)
{
	d_step { !lock[watch] -> lock[watch] = 1 }
}

inline take_out(wait)
{
	d_step {
		assert(exists[wait] && in[wait]);
		in[wait] = 0;
		since[wait] = 0;
		counts[wait] = 0;
		counts[3 + wait] = 0
	}
}

/* wake is a variable of the caller, and has a bit for each task. The claim and its result are one
 * step: a party that comes between them leaves the waiter alone. */
inline finish(wait)
{
#ifdef OUT_FIRST
	take_out(wait);
#endif
	d_step {
#if defined(COPIES) && !defined(COPY_FORGOTTEN) && !defined(COPY_LATE)
		copied[wait] = copy && WATCH(wait) == 0;
#endif
		assert(exists[wait]);
		if
		:: !claimed[TASK(wait)] ->
			claimed[TASK(wait)] = 1;
			if
			:: parked[TASK(wait)] -> wake = wake | (1 << TASK(wait))
			:: else
			fi
		:: else
		fi
	};
#ifndef OUT_FIRST
	take_out(wait);
#endif
#ifdef COPY_LATE
	d_step { assert(exists[wait]); copied[wait] = copy && WATCH(wait) == 0 }
#endif
	skip
}

inline finish_all(watch, but)
{
	do
	:: in[0] && watch == 0 && but != 0 -> finish(0)
	:: in[1] && watch == 1 && but != 1 -> finish(1)
	:: in[2] && watch == 0 && but != 2 -> finish(2)
	:: else -> break
	od;
	skip
}

/* Wakes the tasks that finish() has put into the queue; called after the lock is released. */
inline wake_all()
{
	d_step {
		if
		:: wake & 1 -> assert(parked[0] && !woken[0]); woken[0] = 1
		:: else
		fi;
		if
		:: wake & 2 -> assert(parked[1] && !woken[1]); woken[1] = 1
		:: else
		fi;
		wake = 0
	}
}

/* epoll_ctl(MOD), for a wait that has come, or, with NOTHING, only for the others. known_here is a
 * variable of the caller. */
inline rearm(watch, wait)
{
	d_step {
		known_here = registered[watch] && is[watch] != NOTHING && known[is[watch]];
		if
		:: known_here ->
			assert(watch == 1 || ((!in[0] || wait == 0 || meant[0] == is[0]) &&
					      (!in[2] || wait == 2 || meant[2] == is[0])));
#ifndef ONLY_NEW
			new_question();
#endif
			asked_for[is[watch]] = EVENTS(watch);
			tag[is[watch]] = question;
			armed[watch] = question;
			if
			:: wait != NOTHING -> meant[wait] = is[watch]; since[wait] = question
			:: else
			fi;
			question = 0
		:: else -> registered[watch] = 0
		fi
	}
}

/* epoll_ctl(ADD) */
inline register_now(watch, wait)
{
	d_step {
		if
		:: is[watch] != NOTHING ->
			assert(!known[is[watch]]);
			new_question();
			known[is[watch]] = 1;
			registered[watch] = 1;
#ifdef COPIES
			copy = copy || watch == 0;
#endif
			asked_for[is[watch]] = wants[wait];
			tag[is[watch]] = question;
			armed[watch] = question;
			meant[wait] = is[watch];
			since[wait] = question;
			question = 0
		:: else
		fi
	}
}

/* Atomic wherever other parties could not see a difference, because they need the lock, too. */
inline sn_watch_add(watch, wait)
{
	atomic {
		!lock[watch] -> lock[watch] = 1;
		in[wait] = 1;
#ifdef LAZY
		if
		:: watch == 0 && in[2 - wait] && wants[2 - wait] == wants[wait] ->
			meant[wait] = is[0];
			since[wait] = since[2 - wait]
		:: else -> rearm(watch, wait)
		fi;
#else
		rearm(watch, wait);
#endif
		known_here = 0;
		if
		:: meant[wait] != NOTHING -> lock[watch] = 0
		:: else
		fi
	}
	if
	:: meant[wait] != NOTHING
	:: else ->
#ifndef KEEP_OLDER
		finish_all(watch, wait);
#endif
		atomic {
			register_now(watch, wait);
			if
			:: meant[wait] == NOTHING -> take_out(wait); failed = 1
			:: else
			fi;
			lock[watch] = 0
		}
		wake_all()
	fi
}

inline sn_watch_remove(watch, wait)
{
#ifdef REMOVE_BLINDLY
	if
	:: d_step { claimed[TASK(wait)] -> in[wait] = 0 }
	:: else
	fi;
#endif
#ifdef COPIES
	if
	:: d_step { !in[wait] && !copied[wait] -> skip }
	:: atomic {
		(in[wait] || copied[wait]) && !lock[watch] ->
		if
		:: in[wait] -> take_out(wait)
		:: else
		fi;
		if
#ifdef COPY_BLINDLY
		:: copy && watch == 0 ->
#else
		:: copy && watch == 0 && !in[0] && !in[2] ->
#endif
			copy = 0;
			registered[0] = 0;
			known[A] = 0;
			asked_for[A] = 0;
			tag[A] = 0
		:: else
		fi
	   }
	fi;
	copied[wait] = 0;
#else
	if
	:: !in[wait]
	:: atomic {
		in[wait] && !lock[watch] ->
		if
		:: in[wait] -> take_out(wait)
		:: else
		fi
	   }
	fi;
#endif
	d_step {
		exists[wait] = 0;
		meant[wait] = NOTHING;
		wants[wait] = 0
	}
}

/* park_shared() */
inline park(t)
{
#ifndef NO_TIMERS
	if
	:: timer[t] = 1
	:: timer[t] = 0
	fi;
#endif
	if
	:: claimed[t]
	:: d_step { !claimed[t] -> parked[t] = 1 };
end_parked:	d_step { woken[t] -> woken[t] = 0; parked[t] = 0; timer[t] = 0 }
	fi;
	timer[t] = 0
}

proctype pair()
{
	byte round, wake;
	bool known_here, failed;

	do
	:: round == ROUNDS -> break
	:: d_step {
		round < ROUNDS ->
		round++;
		claimed[0] = 0;
		exists[0] = 1;
		exists[1] = 1;
		wants[0] = IN;
		wants[1] = IN
	   }
		sn_watch_add(0, 0);
		if
		:: !failed -> sn_watch_add(1, 1); park(0)
		:: else -> failed = 0
		fi;
		sn_watch_remove(0, 0);
		sn_watch_remove(1, 1)
	od
}

proctype single()
{
	byte round, wake;
	bool known_here, failed;

	do
	:: round == ROUNDS -> break
	:: atomic {
		round < ROUNDS ->
		round++;
		claimed[1] = 0;
		exists[2] = 1;
		if
		:: wants[2] = IN
		:: wants[2] = OUT
		fi
	   }
		sn_watch_add(0, 2);
		if
		:: !failed -> park(1)
		:: else -> failed = 0
		fi;
		sn_watch_remove(0, 2)
	od
}

/* Takes an event of the descriptor from epoll. */
#define HARVEST(descriptor) \
	d_step { \
		asked_for[descriptor] & ready[descriptor] -> \
		file = descriptor; \
		what = asked_for[file] & ready[file]; \
		answer[p] = tag[file]; \
		asked_for[file] = 0; \
		tag[file] = 0; \
		counts[p * 3] = in[0] && meant[0] == file; \
		counts[p * 3 + 1] = in[1] && meant[1] == file; \
		counts[p * 3 + 2] = in[2] && meant[2] == file \
	}

#if defined(NO_NUMBERS)
#	define IS_FOR(wait) 1
#elif defined(ONLY_NEW)
#	define IS_FOR(wait) (file != A || !known[B]) /* old only once B is registered */
#else
#	define IS_FOR(wait) (answer[p] >= since[wait])
#endif

#ifdef ONLY_NEW
#	define IS_LAST 1
#else
#	define IS_LAST (answer[p] == armed[NUMBER(file)])
#endif

#define HIT(wait) (in[wait] && (what & wants[wait]) && IS_FOR(wait))

/* sn_watch_event() */
proctype poller(byte p)
{
	byte file, what, wake;
	bool known_here;

end:	do
	:: atomic {
		if
		:: HARVEST(A)
		:: HARVEST(B)
		:: HARVEST(C)
		fi
	   }
		acquire(NUMBER(file));
		do
		:: atomic { file != C && HIT(0) -> assert(counts[p * 3]) } finish(0)
		:: atomic { file == C && HIT(1) -> assert(counts[p * 3 + 1]) } finish(1)
		:: atomic { file != C && HIT(2) -> assert(counts[p * 3 + 2]) } finish(2)
		:: atomic {
			else ->
#ifndef NO_REARM
			if
			:: EVENTS(NUMBER(file)) && IS_LAST -> rearm(NUMBER(file), NOTHING)
			:: else -> known_here = 1
			fi;
#else
			known_here = 1;
#endif
			break
		   }
		od;
		if
		:: known_here
		:: else -> finish_all(NUMBER(file), NOTHING)
		fi;
		d_step {
			lock[NUMBER(file)] = 0;
			known_here = 0;
			file = 0;
			what = 0;
			answer[p] = 0;
			counts[p * 3] = 0;
			counts[p * 3 + 1] = 0;
			counts[p * 3 + 2] = 0
		}
		wake_all()
	od
}

#define FIRE(t) \
	d_step { \
		timer[t] -> \
		timer[t] = 0; \
		if \
		:: !claimed[t] -> claimed[t] = 1; woken[t] = parked[t] \
		:: else \
		fi \
	}

proctype timers()
{
end:	do
	:: FIRE(0)
	:: FIRE(1)
	od
}

/* The first number leaves its descriptor. */
#define CLOSE() \
	d_step { \
		if \
		:: !lives_on -> known[A] = 0; asked_for[A] = 0; tag[A] = 0 \
		:: lives_on \
		fi; \
		is[0] = NOTHING \
	}

proctype program()
{
	byte wake;

	if
	:: lives_on = 1
	:: skip
	fi;
	if
	:: /* sn_watch_closing() */
		acquire(0);
		finish_all(0, NOTHING);
		d_step {
			if
			:: registered[0] -> known[A] = 0; asked_for[A] = 0; tag[A] = 0
			:: else
			fi;
			registered[0] = 0;
			lock[0] = 0
		}
		wake_all()
	:: skip
	fi;
	CLOSE();
	is[0] = B
}

proctype world()
{
	byte n;

	do
	:: n == CHANGES -> break
	:: atomic {
		n < CHANGES ->
		n++;
		if
		:: ready[A] = IN
		:: ready[A] = OUT
		:: ready[A] = 0
		:: ready[B] = IN
		:: ready[B] = OUT
		:: ready[C] = IN
		:: skip
		fi
	   }
	od
}

#define MISSED(wait) \
	(parked[TASK(wait)] && in[wait] && (ready[meant[wait]] & wants[wait]) && \
	 (is[WATCH(wait)] == meant[wait] || (lives_on && meant[wait] == A)))

init
{
	atomic {
		meant[0] = NOTHING;
		meant[1] = NOTHING;
		meant[2] = NOTHING;
		is[0] = A;
		is[1] = C;
		run pair();
		run single();
		run poller(0);
#if POLLERS == 2
		run poller(1);
#endif
#ifndef NO_TIMERS
		run timers();
#endif
#ifndef NO_REUSE
		run program();
#endif
		run world()
	}
	timeout;
	assert(!MISSED(0) && !MISSED(1) && !MISSED(2));
#ifdef COPIES
	assert(!copy || in[0] || in[2]);
#endif
	assert(!(parked[0] && claimed[0]) && !(parked[1] && claimed[1]))
}
