/* SPDX-License-Identifier: MIT */
/*
 * Condition variables under sennit-run: tools/run/library/cond.c.
 *
 * What is modelled, by the names of the C code:
 *   task()        park(), for a task that takes an item, in a loop until there is one: the link, the
 *                 mutex, the state, the semaphore, the look after a deadline, the mutex again
 *   thread()      the same of a thread, or of a task that may not park, which waits in the C
 *                 library's variable
 *   producer()    puts an item; then pthread_cond_signal(), with the mutex or after it
 *   opener()      lets all go on; then pthread_cond_broadcast(), with the mutex or after it
 *   wake()        the function of this name
 * There is one list, for two variables whose addresses have the same hash. Each has a mutex.
 *
 * Abstracted: the C library's variable does what POSIX says: it releases the mutex and waits in one
 * step, a signal wakes any one thread that waits, and nothing wakes without a cause. Deadlines pass
 * at any time. What is done under the list's lock is one step, unless others can see parts of it
 * without the lock: the length that a waker reads, the states, the mutex, and the permits. A chain is a set,
 * because the order in which permits are given does not matter. Every access is sequentially
 * consistent or under a lock in the code, so there are no store buffers.
 *
 * Safety (assertions): a waiter is in the list at most once, and is taken out only while it is
 * there; what it has on its stack is not touched after its call has returned; the call returns with
 * the mutex, and before its deadline only if its own variable was signalled; nobody uses a variable
 * that has been destroyed. At rest: no task or thread waits while there is an item, or after all
 * were let go on.
 *
 * Variants: TASKS, THREADS, ITEMS (producers) and OPENERS of the first variable. TIMED: the first
 * task and the first thread give up at their deadlines, without another look at the items.
 * UNLOCKED: wakers call after they have released the mutex. OTHER: a task and a producer of the
 * second variable. REFUSED: one more task calls for the first variable, whose mutex it does not own.
 * DESTROY: the openers begin when all wait, and the last that returns destroys the
 * variable, while the waker may still be in its call. With TIMED at least one must have no
 * deadline. SIGNALS: an opener signals, after it has released the mutex; for one waiter.
 *
 * Mutants, each of which must be caught:
 *   LINKS_LATE       a waiter enters the list after it has released the mutex
 *   WAITS_EARLY      with REFUSED: it waits as soon as it is in the list
 *   ENTERS_BLINDLY   it does not look whether it has missed a signal
 *   NO_MISS          with OPENERS: waiters that enter do not miss a broadcast that has woken a task
 *   ALL_MISS         with OTHER: waiters that enter miss the signals of other variables, too
 *   LOOK_UNLOCKED    with TIMED: it looks without the lock whether it is still in the list
 *   TIMEOUT_BLINDLY  with TIMED: it reports its deadline although it was woken
 *   STAYS_IN_LIST    with TIMED: it does not take itself out
 *   UNLOCKED_RETURN  with TIMED: it does not take the mutex after its deadline
 *   NO_PERMIT        with TIMED: one that was taken out returns without waiting for its permit
 *   PERMIT_EARLY     the waker gives the permit before it has taken the waiter out
 *   NEXT_LATE        the waker reads where the chain continues after it has given the permit
 *   NOT_TAKEN_OUT    the waker leaves the waiter in the list
 *   ANY_VARIABLE     with OTHER: the waker takes the first waiter of the list
 *   STOPS_AT_OTHER   with OTHER: a broadcast ends at the first waiter of another variable
 *   SIGNAL_LATE      with SIGNALS: a signal that finds no task goes to the threads without the lock
 *   LENGTH_DECIDES   with OTHER: a signal goes to the threads only if the list is empty
 *   TASKS_ONLY       a broadcast reaches the threads only if it has woken no task
 *   TASKS_FIRST      with DESTROY: a broadcast wakes the tasks before the threads
 */
#ifndef TASKS
#	define TASKS 2
#endif
#ifndef THREADS
#	define THREADS 1
#endif
#ifndef ITEMS
#	define ITEMS 2
#endif
#ifndef OPENERS
#	define OPENERS 0
#endif
#ifdef TIMED
#	define IS_TIMED 1
#else
#	define IS_TIMED 0
#endif
#ifdef DESTROY
#	define IS_DESTROYED 1
#else
#	define IS_DESTROYED 0
#endif

/* Waiters: tasks, then threads, then the task of the second variable, or the one without the
 * mutex. */
#define OTHER_TASK (TASKS + THREADS)
#define REFUSED_TASK (TASKS + THREADS)
#define WAITERS (TASKS + THREADS + 1)
#define WAKER 100
#define NOBODY 255

/* Of a task in the list. */
#define ENTERS 0
#define WAITS 1
#define MISSED 2

byte owner[2] = NOBODY; /* of the mutexes */
byte items[2];          /* under the mutex */
bool open;              /* the same */
byte waited;            /* how many have begun to wait for the first variable; the same */
byte returned;          /* how many will not use it any more */
bool destroyed;

bool list_locked;
byte list[WAITERS];
byte linked;              /* how many are in the list */
byte length;              /* as wakers read it without the lock */
byte state[WAITERS];
bool signalled[2];        /* only in the model: a waker of the variable has begun */
byte variable[WAITERS];
bool permit[WAITERS];
bool on_stack[WAITERS];   /* its structure is valid */
bool in_library[WAITERS]; /* it waits in the C library's variable */

#define USED(v) assert((v) != 0 || !destroyed)
#define MUST_WAIT(v) (items[v] == 0 && !((v) == 0 && open))

inline lock_mutex(v, me)
{
	d_step { owner[v] == NOBODY -> owner[v] = me }
}

inline unlock_mutex(v, me)
{
	d_step { assert(owner[v] == me); owner[v] = NOBODY }
}

/* ---- the list, under its lock; i and j are the caller's variables, and 0 between the steps */

inline lock_list()
{
	d_step { !list_locked -> list_locked = 1 }
}

/* Sets i to the place of the waiter, or to linked. */
inline find(me)
{
	do
	:: i < linked && list[i] != me -> i++
	:: else -> break
	od
}

inline link_waiter(me)
{
	d_step {
		!list_locked ->
		find(me);
		assert(i == linked);
		on_stack[me] = 1;
		permit[me] = 0;
#ifdef WAITS_EARLY
		state[me] = WAITS;
#endif
		list[linked] = me;
		linked++;
		length++;
		i = 0
	}
}

/* One that does not wait takes itself out. */
inline unlink_waiter(me)
{
	d_step {
		!list_locked ->
		find(me);
		assert(i < linked);
		take_out();
		i = 0
	}
}

/* Takes out the waiter at the place i. */
inline take_out()
{
	state[list[i]] = ENTERS;
	linked--;
	length--;
	j = i;
	do
	:: j < linked -> list[j] = list[j + 1]; j++
	:: else -> break
	od;
	list[linked] = 0;
	j = 0
}

/* The look after the deadline: sets in_time if the waiter has been taken out. */
inline look(me)
{
#ifdef LOOK_UNLOCKED
	d_step { find(me); in_time = (i == linked); i = 0 };
	if
	:: !in_time -> d_step { !list_locked -> find(me); assert(i < linked); take_out(); i = 0 }
	:: else
	fi
#else
	d_step {
		!list_locked ->
		find(me);
		in_time = (i == linked);
#	ifndef STAYS_IN_LIST
		if
		:: !in_time -> take_out()
		:: else
		fi;
#	endif
		i = 0
	}
#endif
}

/* ---- waking; chain, w, seen, i and j are variables of the caller ---- */

/* Permits for the chain: the last access to a waiter. */
inline give_permits()
{
	do
	:: i < WAITERS && (chain & (1 << i)) ->
		assert(on_stack[i]);
		permit[i] = 1;
#ifdef NEXT_LATE
		assert(on_stack[i]);
#endif
		i++
	:: i < WAITERS && !(chain & (1 << i)) -> i++
	:: i >= WAITERS -> break
	od;
	i = 0
}

inline library_signal(v)
{
	USED(v);
	atomic {
		if
		:: v == 0 && in_library[TASKS] -> in_library[TASKS] = 0
#if THREADS > 1
		:: v == 0 && in_library[TASKS + 1] -> in_library[TASKS + 1] = 0
#endif
		:: else
		fi
	}
}

#ifdef ANY_VARIABLE
#	define IS_FOR(v) true
#else
#	define IS_FOR(v) (variable[w] == v)
#endif
#ifdef ALL_MISS
#	define MISSES(v) true
#else
#	define MISSES(v) IS_FOR(v)
#endif

/* Sets takes if the waiter w, at the place i, is to be taken out: it waits. If it enters, and
 * misses is set, it has missed the signal. */
inline look_at(v, misses)
{
	w = list[i];
	takes = (IS_FOR(v) && state[w] == WAITS);
	if
	:: misses && MISSES(v) && state[w] == ENTERS -> state[w] = MISSED
	:: else
	fi
}

inline use()
{
	if
	:: takes ->
		assert(on_stack[w]);
		chain = chain | (1 << w);
#ifdef NOT_TAKEN_OUT
		i++
#else
		take_out()
#endif
	:: else -> i++
	fi;
	w = 0;
	takes = 0
}

/* take_out() of the code: the first waiter of the variable, or all; adds them to chain. */
inline take_out_of(v, all, misses)
{
	do
	:: i < linked && (all || chain == 0) ->
#ifdef STOPS_AT_OTHER
		if
		:: variable[list[i]] != v -> break
		:: else
		fi;
#endif
#ifdef PERMIT_EARLY
		d_step { look_at(v, misses); permit[w] = permit[w] || takes };
		d_step { use() }
#else
		d_step { look_at(v, misses); use() }
#endif
	:: else -> break
	od;
	i = 0
}

/* Sets chain to the tasks that were woken, and reported if a signal has gone to a thread. */
inline wake(v, all)
{
	chain = 0;
	reported = 0;
	signalled[v] = 1;
	if
	:: length == 0
	:: else ->
		lock_list();
		if
#ifdef NO_MISS
		:: true -> take_out_of(v, all, false)
#else
		:: !all -> take_out_of(v, false, false)
		:: all
#endif
		fi;
		if
		:: chain == 0 -> take_out_of(v, all, true)
		:: else
		fi;
#ifndef SIGNAL_LATE
		if
		:: !all && chain == 0 && seen == 0 ->
			library_signal(v);
			reported = 1
		:: else
		fi;
#endif
		list_locked = 0;
#ifndef PERMIT_EARLY
		give_permits()
#endif
	fi
}

inline library_broadcast()
{
	USED(0);
	d_step {
		do
		:: i < WAITERS -> in_library[i] = 0; i++
		:: else -> break
		od;
		i = 0
	}
}

inline signal(v)
{
#ifdef LENGTH_DECIDES
	seen = length;
#endif
	wake(v, false);
	if
	:: chain == 0 && seen == 0 && !reported -> library_signal(v)
	:: else -> chain = 0
	fi
}

inline broadcast()
{
#if defined(TASKS_ONLY)
	wake(0, true);
	if
	:: chain == 0 -> library_broadcast()
	:: else
	fi;
#elif defined(TASKS_FIRST)
	wake(0, true);
	library_broadcast();
#else
	library_broadcast();
	wake(0, true);
#endif
	chain = 0
}

proctype producer(byte v)
{
	byte chain, w, seen, i, j;
	bool reported, takes;

	lock_mutex(v, WAKER);
	items[v]++;
#ifdef UNLOCKED
	unlock_mutex(v, WAKER);
	signal(v)
#else
	signal(v);
	unlock_mutex(v, WAKER)
#endif
}

proctype opener()
{
	byte chain, w, seen, i, j;
	bool reported, takes;

#ifdef DESTROY
	waited == TASKS + THREADS;
#endif
	lock_mutex(0, WAKER);
	open = 1;
#ifdef SIGNALS
	unlock_mutex(0, WAKER);
	signal(0)
#elif defined(UNLOCKED)
	unlock_mutex(0, WAKER);
	broadcast()
#else
	broadcast();
	unlock_mutex(0, WAKER)
#endif
}

/* ---- waiting ---- */

inline take_item(v)
{
	d_step {
		if
		:: items[v] > 0 -> items[v]--
		:: else
		fi
	}
}

inline leave()
{
	d_step {
		returned++;
		destroyed = (IS_DESTROYED && open && returned == TASKS + THREADS)
	}
}

/* The call of a task that does not own the mutex. */
inline fail_to_wait(me)
{
	link_waiter(me);
#ifdef WAITS_EARLY
	look(me);
	if
	:: in_time -> permit[me]
	:: else
	fi;
#else
	unlink_waiter(me);
#endif
	on_stack[me] = 0
}

#if defined(REFUSED)
proctype refused(byte me)
{
	byte i, j;
	bool in_time;

	fail_to_wait(me)
}
#endif

proctype task(byte me; byte v; bool timed)
{
	byte i, j;
	bool in_time, over;

	lock_mutex(v, me);
	do
	:: MUST_WAIT(v) ->
		USED(v);
#ifndef LINKS_LATE
		link_waiter(me);
#endif
		d_step { assert(owner[v] == me); owner[v] = NOBODY; waited++ };
#ifdef LINKS_LATE
		link_waiter(me);
#endif
#ifdef ENTERS_BLINDLY
		state[me] = WAITS;
#else
		d_step {
			if
			:: state[me] == ENTERS -> state[me] = WAITS
			:: else
			fi
		};
		if
		:: state[me] == MISSED ->
			unlink_waiter(me);
			in_time = 1;
			goto woken
		:: else
		fi;
#endif
end_parked:	if
		:: permit[me] -> in_time = 1
		:: timed && !permit[me] ->
			over = 1;
			look(me);
#ifndef NO_PERMIT
			if
			:: in_time -> permit[me]
			:: else
			fi
#endif
		fi;
#ifdef TIMEOUT_BLINDLY
		in_time = !over;
#endif
woken:		on_stack[me] = 0;
#ifdef UNLOCKED_RETURN
		if
		:: !over -> lock_mutex(v, me)
		:: else
		fi;
#else
		lock_mutex(v, me);
#endif
		/* pthread_cond_wait() returns */
		assert(owner[v] == me);
		assert(over || signalled[v]);
		if
		:: timed && !in_time -> goto out
		:: else -> in_time = 0; over = 0
		fi
	:: else -> break
	od;
	take_item(v);
out:	unlock_mutex(v, me);
	leave()
}

proctype thread(byte me; bool timed)
{
	bool over;

	lock_mutex(0, me);
	do
	:: MUST_WAIT(0) ->
		USED(0);
		d_step {
			assert(owner[0] == me);
			owner[0] = NOBODY;
			in_library[me] = 1;
			waited++
		};
end_waits:	if
		:: !in_library[me]
		:: d_step { timed && in_library[me] -> in_library[me] = 0; over = 1 }
		fi;
		lock_mutex(0, me);
		if
		:: over -> goto out
		:: else
		fi
	:: else -> break
	od;
	take_item(0);
out:	unlock_mutex(0, me);
	leave()
}

init
{
	byte i;

	atomic {
		do
		:: i < TASKS -> run task(i, 0, IS_TIMED && i == 0); i++
		:: i >= TASKS && i < TASKS + THREADS ->
			run thread(i, IS_TIMED && i == TASKS);
			i++
		:: i == TASKS + THREADS -> break
		od;
		i = 0;
		do
		:: i < ITEMS -> run producer(0); i++
		:: else -> break
		od;
		i = 0;
		do
		:: i < OPENERS -> run opener(); i++
		:: else -> break
		od;
		i = 0;
#ifdef OTHER
		variable[OTHER_TASK] = 1;
		run task(OTHER_TASK, 1, false);
		run producer(1);
#endif
#ifdef REFUSED
		run refused(REFUSED_TASK);
#endif
	}
	timeout;
	do
	:: i < WAITERS -> assert(!(on_stack[i] || in_library[i]) || MUST_WAIT(variable[i])); i++
	:: else -> break
	od
}
