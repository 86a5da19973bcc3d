/* SPDX-License-Identifier: MIT */
/*
 * Lookups of names that tasks share and may leave: src/names/lookup.c.
 *
 * What is modelled, by the names of the C code:
 *   task()     sn_lookup(): join(), wait_once(), leave(). All ask the same question. Some have a
 *              deadline, which may end their wait at any time; these then leave
 *   helper()   helper_main(), finish(), and start_helper(), which may fail once
 * Each task brings a lookup, and uses either that or the one in progress for the same question. At
 * most one helper is started while another one lives (SN_LOOKUP_THREADS is 1).
 *
 * Abstracted: the waiter's claim is an atomic step (waiter.pml); runs and their end; lookups that
 * are due.
 *
 * Safety (assertions): a lookup is not touched after it was freed, and freed once; a wait is ended
 * only while its task is in it; an answer is there when a task takes it. At the end each task has
 * an answer, has reached its deadline, or is instructed to ask without a helper; no lookup and no
 * helper is left.
 *
 * Mutants, each of which must be caught:
 *   LATE_COUNT      a helper that finds nothing is counted as one until it has left the lock
 *   JOINS_DONE      a lookup that is done is still found
 *   LAST_FREES      the last task frees the lookup also while a helper works on it
 *   HELPER_KEEPS    the helper does not free a lookup that all have left
 *   FAILS_SILENTLY  when no helper can be started, the tasks that wait for one are not notified
 *   NO_CLAIM        the helper wakes a task whose deadline has come
 */
#define TASKS 3
#define NONE 255

/* How many of the tasks have a deadline. */
#ifndef DEADLINES
#	define DEADLINES 1
#endif

#define QUEUED 1
#define UNDER_WAY 2
#define DONE 3

byte state[TASKS], users[TASKS];
bool live[TASKS], freed[TASKS], no_helper[TASKS];
byte chained = NONE; /* the lookup that others find */
byte joined[TASKS] = NONE;
bool listed[TASKS], claimed[TASKS], woken[TASKS]; /* each task's wait */
byte helpers, running;                            /* helpers that are counted; threads that exist */
bool locked, failed;
byte over;

#define USED(l) assert(live[l] && !freed[l])

inline lock()
{
	atomic { !locked -> locked = 1 }
}
inline unlock()
{
	locked = 0
}

inline free_lookup(l)
{
	d_step { USED(l); freed[l] = 1 }
}

/* Ends the waits of a lookup that is done. The lock is held, and the tasks whose waits are claimed
 * are woken immediately. */
inline end_waits(l)
{
	d_step {
		i = 0;
		do
		:: i < TASKS ->
			if
			:: listed[i] && joined[i] == l ->
				listed[i] = 0;
				if
#ifdef NO_CLAIM
				:: 1 -> assert(!claimed[i]); woken[i] = 1
#else
				:: !claimed[i] -> claimed[i] = 1; woken[i] = 1
				:: else
#endif
				fi
			:: else
			fi;
			i++
		:: else -> break
		od;
		i = 0
	}
}

inline first_queued()
{
	d_step {
		l = 0;
		do
		:: l < TASKS && !(live[l] && !freed[l] && state[l] == QUEUED) -> l++
		:: else -> break
		od;
		if
		:: l == TASKS -> l = NONE
		:: else
		fi
	}
}

/* Fails at most once. The helper has been counted. */
inline start_helper()
{
	if
	:: running++
	:: !failed ->
		failed = 1;
		lock();
		helpers--;
#ifndef FAILS_SILENTLY
		first_queued();
		if
		:: helpers == 0 && l != NONE ->
			USED(l);
			chained = NONE;
			no_helper[l] = 1;
			state[l] = DONE;
			end_waits(l)
		:: else
		fi;
#endif
		unlock()
	fi
}

proctype task(byte me)
{
	byte l, mine, i;
	bool start;

	lock();
	if
	:: chained != NONE -> mine = chained
	:: else ->
		mine = me;
		d_step { live[me] = 1; state[me] = QUEUED; chained = me };
		if
		:: helpers < 1 -> helpers++; start = 1
		:: else
		fi
	fi;
	USED(mine);
	users[mine]++;
	joined[me] = mine;
	unlock();
	if
	:: start -> start_helper()
	:: else
	fi;
	lock();
	if
	:: state[mine] == DONE -> unlock()
	:: else ->
		listed[me] = 1;
		unlock();
		if
		:: woken[me]
		:: d_step { me < DEADLINES && !claimed[me] -> claimed[me] = 1 } /* the deadline */
		fi;
		lock();
		listed[me] = 0;
		unlock()
	fi;
	if
	:: woken[me] -> USED(mine); assert(state[mine] == DONE)
	:: else
	fi;
	lock();
	USED(mine);
	users[mine]--;
	if
#ifdef LAST_FREES
	:: users[mine] == 0 ->
#else
	:: users[mine] == 0 && state[mine] != UNDER_WAY ->
#endif
		if
		:: state[mine] == QUEUED -> chained = NONE
		:: else
		fi;
		free_lookup(mine)
	:: else
	fi;
	unlock();
	over++
}

/* Stands for each thread that is started, one after the other or at the same time. */
proctype helper()
{
	byte l, i;
end:
	do
	:: atomic { running > 0 -> running-- };
serve:
		lock();
		first_queued();
		if
		:: l == NONE ->
#ifdef LATE_COUNT
			unlock();
			helpers--
#else
			helpers--;
			unlock()
#endif
		:: else ->
			state[l] = UNDER_WAY;
			unlock();
			USED(l); /* asks the name service */
			lock();
			USED(l);
#ifndef JOINS_DONE
			chained = NONE;
#endif
			if
#ifndef HELPER_KEEPS
			:: users[l] == 0 -> free_lookup(l)
#endif
			:: else -> state[l] = DONE; end_waits(l)
			fi;
			unlock();
			goto serve
		fi
	od
}

init
{
	byte n;

	atomic {
		for (n : 0 .. TASKS - 1) {
			run task(n)
		}
		run helper();
		run helper()
	}
	timeout;
	assert(over == TASKS && helpers == 0 && chained == NONE);
	for (n : 0 .. TASKS - 1) {
		assert(live[n] == freed[n])
	}
}
