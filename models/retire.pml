/* SPDX-License-Identifier: MIT */
/*
 * The number of processors changes ("into use and out of it" in src/sched/processor_list.c).
 *
 * What is modelled, by the names of the C code:
 *   thread()    sn_next_task() with sn_processor_is_surplus(), give_up_surplus(), release(),
 *               bequeath(); the timers of sn_find_work() and steal(); become_idle(),
 *               sleep_in_poller() with time_to_sleep(), sleep_in_parker(); a task that makes others
 *               runnable (sn_ready(), with its shortcut for a single processor) and starts timers
 *               (sn_timer_start(), sn_poller_expect())
 *   monitor()   sn_processors_adjust(), and sn_processor_give() after a revocation
 *   cpu()       with STORES, the store buffers, as in idle.pml: that of the run queue's tail
 *
 * Abstracted:
 *   - As in idle.pml: queues are counters, what the lock guards is one step, there is always a
 *     thread to start except with CAP, a processor is handed over in one step, something always
 *     waits for the poller, and everything comes to rest, where it is checked. No naps, no network.
 *   - bequeath() pops the tasks one by one, and sn_timers_move() moves timers in chunks. Here each
 *     is one step, because the others only ever see a processor that has fewer of them.
 *   - A timer is an ordinary one that makes a task runnable. All are for the same moment, SOON.
 *     Time stands still: either SOON has passed from the beginning, or it does not come.
 *   - With NO_MEMORY timers cannot be moved.
 *   - sn_processor_is_surplus() reads wanted without the lock. It changes under the lock, so a
 *     thread that has just held the lock reads no older value, and all that rely on it check again
 *     under the lock.
 *
 * Safety (assertions): a processor that retires has no task and no timer, no thread has it, and it
 * is in no list; processor 0 does not retire; no thread has a processor that another thread has. At
 * rest: no task is queued and no timer is late while a processor is idle; then a thread is in the
 * poller, too, and not for longer than until the first timer; no thread counts as spinning; the
 * processors in use are those that are wanted, except where a thread stays outside with one; none
 * is in limbo. With CAP the same, except for processors that are idle while no thread is left, and
 * surplus ones among these, which the next recount retires.
 *
 * Liveness, under weak fairness (LIVE): the processors in use become those that are wanted
 * (converges), and do not keep passing between threads without running a task (settles); however
 * often tasks yield (YIELDS), timers that are due fire (fires).
 *
 * Variants: CAP (no thread can be started), NO_MEMORY, STORES, LIVE, YIELDS; PROCESSORS, TASKS,
 * TIMERS, CHANGES, REVOCATIONS.
 *
 * Mutants, each of which must be caught:
 *   GIVE_COUNTS         the surplus is only a count, and every thread that sees it gives its own
 *                       processor away as if it were in use: to another thread while there is work
 *   TIMERS_STAY         bequeath() leaves the timers where they are
 *   NEXT_FORGOTTEN      bequeath() hands over the ring only
 *   TASKS_STAY          bequeath() hands over only timers
 *   RELEASE_SILENT      no thread is woken for the tasks that were released
 *   MOVE_SILENT         the poller does not learn of the timers that have moved, neither from
 *                       sn_timers_move() nor from the thread that has released the processor
 *   RELEASE_BLIND       release() does not check again, under the lock, whether the processor is
 *                       surplus
 *   IDLE_BLIND          become_idle() does not check, under the lock, whether it is surplus
 *   GIVE_BLIND          sn_processor_give() does not check, under the lock, whether it is surplus
 *   SPINNING_KEPT       a thread that gives up a surplus processor still counts as spinning
 *   EXTRACT_UNLOCKED    adjust() takes idle processors that it has seen before it took the lock
 *   EXTRACT_NOTHING     adjust() leaves the idle ones alone
 *   UNRETIRE_SILENT     adjust() wakes no thread
 *   NO_BARRIER          with STORES: adjust() without its barrier
 *   STILL_SURPLUS       with NO_MEMORY: a processor that could not be emptied is surplus again
 *                       immediately
 *   LIMIT_RELEASES      with CAP: sn_processor_start() releases a surplus processor for which there
 *                       is no thread, after it has released the lock under which it saw that
 */
#ifndef PROCESSORS
#	define PROCESSORS 2
#endif
#ifndef TASKS
#	define TASKS 1 /* tasks still to come, besides those that run at first */
#endif
#ifndef TIMERS
#	define TIMERS 1
#endif
#ifndef CHANGES
#	define CHANGES 1
#endif
#ifndef REVOCATIONS
#	define REVOCATIONS 0
#endif
#ifndef THREADS
#	define THREADS (PROCESSORS + 1 + REVOCATIONS)
#endif
#define GLOBAL PROCESSORS
#define NONE 255

/* Values of poll_until, and of the time of a timer. */
#define NOT_POLLING 0
#define SOON 1
#define NEVER 2

byte wanted = PROCESSORS;
byte nprocessors = PROCESSORS;
bool retired[PROCESSORS];
byte q[PROCESSORS + 1];  /* rings, and the global queue */
bool next[PROCESSORS];
byte heap[PROCESSORS];
bool idle[PROCESSORS];
byte idle_count;
byte spinning;
bool polling;
byte poll_until = NOT_POLLING;
byte in_poller;
bool woken;
bool due;
byte list;                /* threads in the list of idle ones, one bit each */
byte processor[THREADS] = NONE;
bool counted[THREADS];
bool parker[THREADS];
bool outside[THREADS];    /* forever */
byte born[PROCESSORS];
#ifdef CAP
bool threadless;
#endif
#ifdef STORES
byte pending[THREADS];
#endif
byte to_come = TASKS, to_arm = TIMERS;
byte revocations = REVOCATIONS;
/* Only in the model, not in the code. */
byte limbo; /* processors that no thread has, and that are in no list */

#if PROCESSORS == 2
#	define RINGS (q[0] + q[1] + next[0] + next[1])
#	define ARMED (heap[0] + heap[1])
#else
#	define RINGS (q[0] + q[1] + q[2] + next[0] + next[1] + next[2])
#	define ARMED (heap[0] + heap[1] + heap[2])
#endif
#define WORK_EXISTS (RINGS + q[GLOBAL] > 0)
#define LATE (due && ARMED > 0)

#ifdef GIVE_COUNTS
#	define IS_SURPLUS(p) (nprocessors > wanted)
#else
#	define IS_SURPLUS(p) ((p) >= wanted)
#endif

#ifdef STORES
proctype cpu(byte t)
{
end:	do
	:: d_step { pending[t] > 0 -> q[processor[t]] = q[processor[t]] + pending[t]; pending[t] = 0 }
	od
}

/* Called in d_step. */
inline drain(t)
{
	if
	:: pending[t] > 0 -> q[processor[t]] = q[processor[t]] + pending[t]; pending[t] = 0
	:: else
	fi
}
#	define PUT(t) pending[t]++
#else
#	define PUT(t) q[processor[t]]++
inline drain(t)
{
	skip
}
#endif

/* ---- processors and threads; all inside d_step ---- */

inline nobody_has(p)
{
	assert(!idle[p] && !retired[p] && born[p] == 0);
	assert(processor[0] != p && processor[1] != p);
#if THREADS > 2
	assert(processor[2] != p);
#endif
#if THREADS > 3
	assert(processor[3] != p)
#endif
}

inline idle_put(p)
{
	nobody_has(p);
	q[GLOBAL] = q[GLOBAL] + q[p] + next[p];
	q[p] = 0;
	next[p] = 0;
	idle[p] = 1;
	idle_count++
}

/* The result is in p; NONE if there is none. */
inline idle_get(p)
{
	p = 0;
	do
	:: p < PROCESSORS && !idle[p] -> p++
	:: else -> break
	od;
	if
	:: p == PROCESSORS -> p = NONE
	:: else -> idle[p] = 0; idle_count--
	fi
}

inline retire(p)
{
	nobody_has(p);
	assert(p != 0);
#ifndef LIVE
	assert(q[p] == 0 && !next[p] && heap[p] == 0);
#endif
	retired[p] = 1;
	nprocessors--
}

inline assign(t, p)
{
	nobody_has(p);
	processor[t] = p
}

inline hand(u, p, s)
{
	list = list & ~(1 << u);
	assign(u, p);
	counted[u] = s;
	parker[u] = 1
}

inline uncount()
{
	assert(spinning > 0);
	spinning--
}

inline start_spinning(t)
{
	if
	:: !counted[t] -> counted[t] = 1; spinning++
	:: else
	fi
}

/* p is NONE afterwards. */
inline start_processor(p, s)
{
	if
	:: list & 1 -> hand(0, p, s); p = NONE
	:: else ->
		if
		:: list & 2 -> hand(1, p, s); p = NONE
		:: else ->
#if THREADS > 2
			if
			:: list & 4 -> hand(2, p, s); p = NONE
			:: else ->
#endif
#if THREADS > 3
				if
				:: list & 8 -> hand(3, p, s); p = NONE
				:: else ->
#endif
#ifdef CAP
				/*
				 * No thread is woken for it, because a thread that goes to sleep
				 * under the same lock finds it. This holds for a surplus processor,
				 * too: the thread that takes it next, or the next recount, releases
				 * it.
				 */
				threadless = 1;
#	ifdef LIMIT_RELEASES
				if
				:: IS_SURPLUS(p)
				:: else -> idle_put(p); p = NONE
				fi;
#	else
				idle_put(p);
				p = NONE;
#	endif
				if
				:: s -> uncount()
				:: else
				fi;
				woken = 1
#else
				born[p] = 1 + s;
				p = NONE
#endif
#if THREADS > 3
				fi
#endif
#if THREADS > 2
			fi
#endif
		fi
	fi
}

/* ---- waking ---- */

inline sn_poller_expect()
{
	if
	:: d_step { poll_until > SOON -> woken = 1 }
	:: else
	fi
}

/* Hands over the tasks of a surplus processor in limbo. n is a variable of the caller. */
inline hand_tasks_over(p, n)
{
#ifndef TASKS_STAY
#	ifdef NEXT_FORGOTTEN
	d_step { n = q[p]; q[p] = 0 };
#	else
	d_step { n = q[p] + next[p]; q[p] = 0; next[p] = 0 };
#	endif
	d_step { q[GLOBAL] = q[GLOBAL] + n; n = 0 }
#endif
	skip
}

/* The same for timers. n: whether any timers are left. */
inline hand_timers_over(p, n)
{
#if defined(NO_MEMORY)
	n = (heap[p] > 0)
#elif !defined(TIMERS_STAY)
	d_step { n = heap[p]; heap[0] = heap[0] + n; heap[p] = 0 };
#	ifndef MOVE_SILENT
	if
	:: n > 0 -> n = 0; sn_poller_expect()
	:: else
	fi
#	else
	n = 0
#	endif
#endif
	skip
}

/* p is a variable of the caller that is NONE. */
inline wake_one(p)
{
	if
	:: d_step { spinning == 0 -> spinning = 1 };
		d_step {
			idle_get(p);
			if
			:: p == NONE -> uncount()
			:: else -> limbo++
			fi
		}
		if
		:: p != NONE -> d_step { start_processor(p, 1); if :: p == NONE -> limbo-- :: else fi }
		:: else
		fi
	:: spinning > 0
	fi
}

inline announce(p)
{
	if
	:: idle_count > 0 && spinning == 0 -> wake_one(p)
	:: else
	fi
}

/* Releases p, which is in limbo; p is NONE afterwards. */
inline release(p, n)
{
	do
	:: p != NONE && IS_SURPLUS(p) ->
		hand_tasks_over(p, n);
		hand_timers_over(p, n);
		/* takes the lock */
		d_step {
			if
#ifdef NO_MEMORY
			:: IS_SURPLUS(p) && n > 0 ->
#	ifndef STILL_SURPLUS
				wanted = p + 1;
#	endif
				idle_put(p)
			:: IS_SURPLUS(p) && n == 0 -> retire(p)
#elif defined(RELEASE_BLIND)
			:: true -> retire(p)
#else
			:: IS_SURPLUS(p) -> retire(p)
#endif
			:: else -> idle_put(p)
			fi;
			n = 0;
			limbo--;
			p = NONE
		}
	:: d_step { p != NONE && !IS_SURPLUS(p) -> idle_put(p); p = NONE; limbo-- }
	:: p == NONE -> break
	od
}

#ifdef LIMIT_RELEASES
/* Releases a processor for which there is no thread. Wakes no thread, because that would start the
 * processor again. */
inline release_unstarted(p, n)
{
	if
	:: p != NONE -> release(p, n); woken = 1
	:: else
	fi
}
#else
#	define release_unstarted(p, n) skip
#endif

inline wake_for_released(p, n)
{
#ifndef RELEASE_SILENT
	if
	:: WORK_EXISTS || !polling -> wake_one(p); release_unstarted(p, n)
	:: else ->
#	ifndef MOVE_SILENT
		if
		:: ARMED > 0 -> sn_poller_expect()
		:: else
		fi
#	else
		skip
#	endif
	fi
#else
	skip
#endif
}

inline stop_spinning(t, p, n)
{
	if
	:: counted[t] ->
		d_step { drain(t); counted[t] = 0; uncount(); last = (spinning == 0) }
		if
		:: last ->
			last = 0;
			if
			:: idle_count > 0 ->
				if
				:: WORK_EXISTS || !polling -> wake_one(p); release_unstarted(p, n)
				:: else
				fi
			:: else
			fi
		:: else
		fi
	:: else
	fi
}

/* sn_ready() by a thread with a processor, for a task that was put into its ring or its next
 * slot */
inline submitted_by(t, p, n)
{
	if
	:: nprocessors == 1
	:: nprocessors != 1 ->
		d_step { drain(t) }
		announce(p);
		release_unstarted(p, n)
	fi
}

/* ---- threads ---- */

proctype thread(byte t; bool runs)
{
	byte p = NONE, n, v;
	bool found, last;

	if
	:: runs -> goto running
	:: else -> goto end_parker
	fi;

running: /* runs a task */
	do
	:: d_step { to_come > 0 -> to_come--; PUT(t) };
		submitted_by(t, p, n)
	:: d_step { to_come > 0 && !next[processor[t]] -> to_come--; next[processor[t]] = 1 };
		submitted_by(t, p, n)
	:: d_step { to_arm > 0 -> to_arm--; drain(t); heap[processor[t]]++ };
		sn_poller_expect()
#ifdef YIELDS
	:: d_step { drain(t); q[processor[t]]++ };
		submitted_by(t, p, n);
		break
#endif
#ifndef LIVE
	:: d_step { drain(t); outside[t] = 1 } -> goto gone
#endif
	:: break
	od;

next_task:
	if
	:: IS_SURPLUS(processor[t]) ->
#ifdef GIVE_COUNTS
		d_step { drain(t); v = q[processor[t]] + next[processor[t]]; q[processor[t]] = 0; next[processor[t]] = 0 }
		stop_spinning(t, p, n);
		d_step { p = processor[t]; processor[t] = NONE; limbo++ }
		/* sn_processor_give() as it once was */
		if
		:: q[GLOBAL] > 0 || (due && heap[p] > 0) ->
			d_step { start_processor(p, 0); limbo-- }
		:: else ->
			d_step {
				limbo--;
				if
				:: nprocessors > wanted -> retired[p] = 1; nprocessors--
				:: else -> idle_put(p)
				fi;
				p = NONE
			}
			announce(p)
		fi;
		d_step { q[GLOBAL] = q[GLOBAL] + v; v = 0 }
		announce(p);
#else
#	ifndef SPINNING_KEPT
		stop_spinning(t, p, n);
#	endif
		d_step { drain(t); p = processor[t]; processor[t] = NONE; limbo++ }
		release(p, n);
		wake_for_released(p, n);
#endif
		goto sleep_in_parker
	:: else
	fi;
	/* The processor's own timers, and then the queues. */
	atomic {
		drain(t);
		if
		:: due && heap[processor[t]] > 0 -> heap[processor[t]]--; v = 1
		:: else
		fi
	}
	if
	:: v > 0 ->
		d_step { v = 0; PUT(t) }
		submitted_by(t, p, n)
	:: else
	fi;
	atomic {
		drain(t);
		found = 1;
		if
		:: next[processor[t]] -> next[processor[t]] = 0
		:: else ->
			if
			:: q[processor[t]] > 0 -> q[processor[t]]--
			:: else ->
				if
				:: q[GLOBAL] > 0 -> q[GLOBAL]--
				:: else -> found = 0
				fi
			fi
		fi
	}
	if
	:: found -> found = 0; stop_spinning(t, p, n); goto running
	:: !found && !counted[t] -> goto become_idle /* enough threads are looking */
	:: !found -> d_step { start_spinning(t) }
	fi;
	/* steal(): takes a task or a timer of another processor; there may be none by now */
	d_step {
		v = 0;
		do
		:: v < PROCESSORS && q[v] == 0 && !next[v] && !(due && heap[v] > 0) -> v++
		:: else -> break
		od;
		found = 1;
		if
		:: v == PROCESSORS -> found = 0
		:: else ->
			if
			:: q[v] > 0 -> q[v]--
			:: else ->
				if
				:: next[v] -> next[v] = 0
				:: else -> heap[v]--
				fi
			fi
		fi;
		v = 0
	}
	if
	:: found -> found = 0; stop_spinning(t, p, n); goto running
	:: else
	fi;

become_idle:
	if
#ifndef IDLE_BLIND
	:: IS_SURPLUS(processor[t]) -> goto next_task
	:: d_step { !IS_SURPLUS(processor[t]) && q[GLOBAL] == 0 ->
#else
	:: d_step { q[GLOBAL] == 0 ->
#endif
		n = processor[t]; processor[t] = NONE; idle_put(n); n = 0 }
	:: q[GLOBAL] > 0 -> goto next_task
	fi;
	d_step {
		if
		:: counted[t] -> counted[t] = 0; uncount()
		:: else
		fi
	}
	if
	:: WORK_EXISTS ->
		d_step {
			idle_get(p);
			if
			:: p != NONE -> assign(t, p); start_spinning(t)
			:: else
			fi;
			p = NONE
		}
		if
		:: processor[t] != NONE -> goto next_task
		:: else
		fi
	:: else
	fi;

	/* sleep_in_poller() */
	if
	:: d_step { !polling -> polling = 1; in_poller++; assert(in_poller == 1) }
	:: polling -> goto expect
	fi;
	poll_until = NEVER;
	v = NEVER;
	n = 0;
	do
	:: n < PROCESSORS -> d_step { if :: heap[n] > 0 -> v = SOON :: else fi; n++ }
	:: else -> break
	od;
	n = 0;
	poll_until = v;
end_poller:
	if
	:: d_step { woken -> woken = 0; in_poller-- }
	:: d_step { v == SOON && due -> in_poller-- }
	fi;
	v = 0;
	poll_until = NOT_POLLING;
	polling = 0;
	d_step {
		idle_get(p);
		if
		:: p != NONE -> assign(t, p); start_spinning(t)
		:: else
		fi;
		p = NONE
	}
	if
	:: processor[t] != NONE -> goto next_task
	:: else
	fi;
expect:
	if
	:: ARMED > 0 -> sn_poller_expect()
	:: else
	fi;

sleep_in_parker:
	atomic {
		/* Continues like a thread that starts: the processor is waiting already. */
		v = 0;
		do
		:: v < PROCESSORS && born[v] == 0 -> v++
		:: else -> break
		od;
		if
		:: v < PROCESSORS ->
			n = born[v] - 1; born[v] = 0; hand(t, v, n); n = 0
#ifdef CAP
		:: v == PROCESSORS && threadless && idle_count > 0 && (WORK_EXISTS || !polling) ->
			idle_get(p);
			threadless = (idle_count > 0);
			assign(t, p);
			start_spinning(t);
			p = NONE;
			v = 0;
			goto next_task
		:: v == PROCESSORS && threadless && !(idle_count > 0 && (WORK_EXISTS || !polling)) ->
			threadless = 0;
			list = list | (1 << t)
		:: v == PROCESSORS && !threadless ->
			list = list | (1 << t)
#else
		:: else -> list = list | (1 << t)
#endif
		fi;
		v = 0
	}
end_parker:
	atomic { parker[t] -> parker[t] = 0 }
	goto next_task;

gone:	skip
}

proctype monitor()
{
	byte p = NONE, n, t, extracted, changes = CHANGES;

end:	do
	:: changes > 0 ->
		changes--;
		/* sn_processors_adjust() */
#ifdef EXTRACT_UNLOCKED
		d_step {
			n = (wanted == PROCESSORS -> 1 : PROCESSORS);
			p = 1;
			do
			:: p < PROCESSORS ->
				if
				:: idle[p] && p >= n -> extracted = extracted | (1 << p)
				:: else
				fi;
				p++
			:: else -> break
			od;
			n = 0;
			p = NONE
		}
#endif
		atomic {
#if PROCESSORS == 2
			wanted = (wanted == 2 -> 1 : 2);
#else
			if
			:: wanted != 1 -> wanted = 1
			:: wanted != 2 -> wanted = 2
			:: wanted != 3 -> wanted = 3
			fi;
#endif
			p = 0;
			do
			:: p < PROCESSORS ->
				if
				:: p < wanted && retired[p] -> retired[p] = 0; nprocessors++; idle_put(p)
#ifdef EXTRACT_UNLOCKED
				:: p >= wanted && extracted & (1 << p) -> idle[p] = 0; idle_count--; limbo++
#elif defined(EXTRACT_NOTHING)
#else
				:: p >= wanted && idle[p] ->
					idle[p] = 0; idle_count--; limbo++;
					extracted = extracted | (1 << p)
#endif
				:: else
				fi;
				p++
			:: else -> break
			od;
			p = NONE
		}
		do
		:: extracted & 2 -> extracted = extracted & ~2; p = 1; release(p, n)
#if PROCESSORS > 2
		:: extracted & 4 -> extracted = extracted & ~4; p = 2; release(p, n)
#endif
		:: extracted == 0 -> break
		od;
#if defined(STORES) && !defined(NO_BARRIER)
		skip;
		d_step {
			drain(0);
			drain(1);
#	if THREADS > 2
			drain(2)
#	endif
		}
#endif
#ifndef UNRETIRE_SILENT
		wake_for_released(p, n)
#endif

	:: revocations > 0 ->
		/* sn_lease_revoke(): takes the processor of a thread that is outside */
end_revoke:	if
		:: d_step { outside[0] && processor[0] != NONE -> t = 0 }
		:: d_step { outside[1] && processor[1] != NONE -> t = 1 }
		fi;
		d_step { revocations--; p = processor[t]; processor[t] = NONE; t = 0; limbo++ }
		/* sn_processor_give() */
		if
#ifdef GIVE_BLIND
		:: q[p] + next[p] + q[GLOBAL] == 0 && !(due && heap[p] > 0) ->
			d_step { idle_put(p); p = NONE; limbo-- }
			wake_for_released(p, n)
#endif
		:: !IS_SURPLUS(p) && (q[p] + next[p] + q[GLOBAL] > 0 || due && heap[p] > 0) ->
			d_step { start_processor(p, 0); if :: p == NONE -> limbo-- :: else fi }
			release_unstarted(p, n)
		:: else ->
			release(p, n);
			wake_for_released(p, n)
		fi
	od
}

init
{
	byte i;

	atomic {
		do
		:: i < THREADS ->
			if
			:: i < PROCESSORS -> processor[i] = i
			:: else -> list = list | (1 << i)
			fi;
			run thread(i, i < PROCESSORS);
#ifdef STORES
			run cpu(i);
#endif
			i++
		:: else -> break
		od;
		i = 0;
#ifdef LIVE
		due = 1;
		q[GLOBAL] = 1;
#else
		if
		:: TIMERS > 0 -> due = 1
		:: true
		fi;
#endif
		run monitor()
	}
#ifndef LIVE
	/* At rest. */
	timeout;
#	ifdef CAP
	assert(idle_count == 0 || !WORK_EXISTS && !LATE && polling || list == 0 && !polling);
#	else
	assert(idle_count == 0 || !WORK_EXISTS && !LATE && in_poller);
#	endif
	assert(!in_poller || ARMED == 0 || poll_until == SOON);
	assert(spinning == 0 && limbo == 0);
	i = 0;
	do
	:: i < PROCESSORS ->
		assert(retired[i] == (i >= wanted) || (i >= wanted && !idle[i] &&
			(processor[0] == i && outside[0] || processor[1] == i && outside[1]
#	if THREADS > 2
			 || processor[2] == i && outside[2]
#	endif
			))
#	ifdef CAP
			|| (i >= wanted && idle[i])
#	endif
			);
		i++
	:: else -> break
	od
#endif
}

#ifdef LIVE
ltl converges { <> [] (nprocessors == wanted) }
ltl settles { <> [] (limbo == 0) }
ltl fires { [] (due && ARMED > 0 -> <> (ARMED == 0)) }
#endif
