/* SPDX-License-Identifier: MIT */
/*
 * The lease protocol (src/sched/lease.h), and the choice of the thread that gets the processor
 * next.
 *
 * What is modelled, by the names of the C code:
 *   thread()   sn_runtime_enter(), sn_runtime_leave() (blocking.h's brackets are the same two),
 *              sn_private_lease_lost(), await_decision(), sn_processor_regain(),
 *              sn_await_processor(), and those parts of the scheduler's loop that hand processors
 *              on: become_idle(), hand_over()
 *   monitor()  sn_lease_revoke(), sn_barrier_everywhere(), decide(), sn_processor_give()
 *   ender()    stop() of src/run/run.c, sn_lease_end()
 *   asker()    sn_lease_ask(), once for each thread (with ASKS)
 *   cpu()      the store buffers: each thread's plain stores wait in one until they drain, at any
 *              time; only a barrier, an atomic read-modify-write and a membarrier must drain it.
 *              TSO (x86) drains them in order. PSO (-DPSO, for ARM) drains stores to different
 *              addresses in any order, but a store-release after all stores before it.
 * The states of the lease word are enum sn_lease.
 *
 * Abstracted:
 *   - What a thread does to its processor is a store without a value. The next thread that touches
 *     the processor must not find another thread's store still in a buffer, because it would not
 *     see that store.
 *   - All runnable tasks are in one queue, first in, first out: 0 is any task, u + 1 one that is
 *     bound to thread u. What the runtime's lock guards is one step; how threads and wakers could
 *     miss each other around it is in idle.pml.
 *   - No thread is ever started: if one is needed and does not exist, SENNIT_MAX_THREADS is
 *     reached.
 *   - Time: the monitor may revoke at any moment while something waits, whatever the thread does.
 *     For liveness a task makes one call without parking, and parks in the next, or stays outside
 *     forever. That an endless row of short calls is not always met inside is left to chance.
 *   - Loads are not reordered. The thread's load of word and its use of the processor need no
 *     order: word leaves REVOKED only by the thread's own store, so a processor whose thread reads
 *     HELD was touched by no other thread. The monitor's load of inside comes after a barrier of
 *     its own.
 *   - Futexes do not wake spuriously: both waits loop.
 *
 * Safety (assertions): a thread inside has a processor that no other thread has; what it finds
 * there is what the previous thread left; no processor and no task is lost (conserved()); a revoked
 * thread has no processor; no deadlock; a thread that was asked and is outside takes the slow path
 * next. Liveness, under weak fairness (-DLIVE): a thread that waits for a processor gets it,
 * although other tasks stay outside forever (served); a thread that sleeps on AWAITED is woken
 * (woken); at the end of the runtime no thread stays asleep (-DENDS).
 *
 * Variants: PSO; FENCED (no membarrier, fences on both sides); REFUSED (now and then no barrier is
 * possible); ENDS (the runtime ends at any time); ASKS; THREADS, TASKS.
 *
 * Mutants, each of which must be caught:
 *   NO_MEMBARRIER     the monitor does not wait for the other CPUs
 *   REFUSED_BELIEVED  with REFUSED: the monitor believes inside although there was no barrier
 *   EARLY_LOAD        no compiler barrier: the thread loads word before it stores inside
 *   EARLY_LOOK        the monitor reads inside before the barrier
 *   NO_FENCE          with FENCED: the slow path without its fence
 *   PLAIN_LEAVE       with PSO: inside is cleared by a plain store
 *   NO_WAKE           decide() wakes no thread
 *   END_NO_WAKE       with ENDS: sn_lease_end() wakes no thread
 *   NO_RECHECK        with ENDS: the thread does not check stopping after it has stored HELD
 *   DECIDE_FORGETS    with ASKS: the party that makes the word HELD again does not check asked
 *   IDLE_AT_CAP       sn_processor_start(), if it can start no thread, does not look for a waiting
 *                     one
 */
#ifndef THREADS
#	define THREADS 2
#endif
#ifndef TASKS
#	define TASKS 3
#endif
#define PROCESSORS 2
#ifndef DEPTH
#	define DEPTH 3 /* of a store buffer: inside is set, data, inside is cleared */
#endif

#define HELD 0
#define REVOKING 1
#define AWAITED 2
#define REVOKED 3
#define FENCED_WORD 4
#define ASKED 5
#ifdef FENCED
#	define LEASE_HELD FENCED_WORD
#else
#	define LEASE_HELD HELD
#endif

/* struct sn_private_lease and struct sn_thread. processor: 0: none; otherwise p + 1. */
bool inside[THREADS];
byte word[THREADS] = LEASE_HELD;
byte processor[THREADS];
byte handed[THREADS];    /* encoded as processor; read when the parker is released */
bool sleeps[THREADS];    /* sleeps in futex_wait on word */
bool parker[THREADS];    /* released */
bool is_idle[THREADS];   /* in the list of idle threads */

#ifdef ASKS
bool asked[THREADS];
bool asking, deciding; /* only in the model: between two steps that belong together */
#endif

/* struct sn_runtime */
bool idle[PROCESSORS];
bool stopping;
chan queue = [TASKS] of { byte };

/* Only in the model: which thread has which task or processor. */
#define NOBODY 253
#define IN_HAND 254
#define MONITOR 255
byte owner[PROCESSORS] = NOBODY;
bool has_task[THREADS];
bool waits[THREADS];    /* its task stands in the queue, bound to it */
#ifdef ENDS
bool told[THREADS];     /* the end of the runtime has marked its word */
#endif

/* ---- memory ---- */

#define INSIDE 0
#define DATA(p) ((p) + 1)
byte buffered[THREADS];
byte buffer_at[THREADS * DEPTH];
bool buffer_value[THREADS * DEPTH];
#ifdef PSO
bool buffer_release[THREADS * DEPTH];
#endif
hidden byte s, from;

/* Entry i of t's buffer reaches memory. */
inline drain_entry(t, i)
{
	if
	:: buffer_at[(t) * DEPTH + i] == INSIDE -> inside[t] = buffer_value[(t) * DEPTH + i]
	:: else
	fi;
	s = i;
	do
	:: s + 1 < buffered[t] ->
		buffer_at[(t) * DEPTH + s] = buffer_at[(t) * DEPTH + s + 1];
		buffer_value[(t) * DEPTH + s] = buffer_value[(t) * DEPTH + s + 1];
#ifdef PSO
		buffer_release[(t) * DEPTH + s] = buffer_release[(t) * DEPTH + s + 1];
#endif
		s++
	:: else -> break
	od;
	buffered[t]--;
	buffer_at[(t) * DEPTH + buffered[t]] = 0;
	buffer_value[(t) * DEPTH + buffered[t]] = 0;
#ifdef PSO
	buffer_release[(t) * DEPTH + buffered[t]] = 0;
#endif
	s = 0
}

inline drain(t)
{
	do
	:: buffered[t] > 0 -> drain_entry(t, 0)
	:: else -> break
	od
}

/* Called in atomic. Blocks while the buffer is full. */
inline store(t, at, value, release)
{
	buffered[t] < DEPTH;
	buffer_at[(t) * DEPTH + buffered[t]] = at;
	buffer_value[(t) * DEPTH + buffered[t]] = value;
#ifdef PSO
	buffer_release[(t) * DEPTH + buffered[t]] = release;
#endif
	buffered[t]++
}

#ifdef PSO
/* Whether an entry may overtake those before it: none of them has the same address, and it is not a
 * release. */
#	define CAN_DRAIN(t, i) (buffered[t] > i && (i == 0 || \
		(!buffer_release[(t) * DEPTH + i] && \
		 buffer_at[(t) * DEPTH + i] != buffer_at[(t) * DEPTH] && \
		 (i == 1 || buffer_at[(t) * DEPTH + i] != buffer_at[(t) * DEPTH + 1]))))
#endif

proctype cpu(byte t)
{
end:	do
	:: d_step { buffered[t] > 0 -> drain_entry(t, 0) }
#ifdef PSO
	:: d_step { CAN_DRAIN(t, 1) -> drain_entry(t, 1) }
#	if DEPTH > 2
	:: d_step { CAN_DRAIN(t, 2) -> drain_entry(t, 2) }
#	endif
#endif
	od
}

/* ---- what must always hold ---- */

hidden byte u;

/* Each task is exactly once in the queue, bound or not, or on a thread. */
#define HAS(i) (has_task[i] && !waits[i])
#if THREADS == 3
#	define ON_THREADS (HAS(0) + HAS(1) + HAS(2))
#else
#	define ON_THREADS (HAS(0) + HAS(1))
#endif
#define IDLE_ONLY(p) (idle[p] == (owner[p] == NOBODY))

inline conserved()
{
	assert(stopping || len(queue) + ON_THREADS == TASKS);
	assert(stopping || (IDLE_ONLY(0) && IDLE_ONLY(1)))
}

/* The thread that had t's processor has all its stores to the processor in memory. */
inline buffer_is_clear(other, t)
{
	u = 0;
	do
	:: u < buffered[other] ->
		assert(other == t || buffer_at[other * DEPTH + u] != DATA(processor[t] - 1));
		u++
	:: else -> break
	od;
	u = 0
}

/* A thread inside reads and writes its processor. Called in atomic, with room in the buffer. */
inline touch(t)
{
	assert(processor[t] != 0 && owner[processor[t] - 1] == t);
	assert(stopping || word[t] != REVOKED);
	buffer_is_clear(0, t);
	buffer_is_clear(1, t);
#if THREADS == 3
	buffer_is_clear(2, t);
#endif
	store(t, DATA(processor[t] - 1), 0, 0)
}

/* ---- processors change hands: all inside atomic, under the runtime's lock ---- */

inline assign(t, p)
{
	assert(processor[t] == 0 && owner[p] != t);
	idle[p] = 0;
	owner[p] = t;
	processor[t] = (p) + 1
}

/* Hands the processor to a thread in its parker, or on its way there. */
inline hand(t, p)
{
	assert(handed[t] == 0);
	idle[p] = 0;
	owner[p] = IN_HAND;
	handed[t] = (p) + 1;
	parker[t] = 1
}

/* sn_await_processor() has found a processor in the mailbox. */
inline take_handed(t)
{
	assert(owner[handed[t] - 1] == IN_HAND && processor[t] == 0);
	owner[handed[t] - 1] = t;
	processor[t] = handed[t];
	handed[t] = 0
}

/* Gives a processor that no thread has to a thread that can use it. */
inline start_processor(p)
{
	if
	:: is_idle[0] -> is_idle[0] = 0; hand(0, p)
	:: else ->
		if
		:: is_idle[1] -> is_idle[1] = 0; hand(1, p)
#if THREADS == 3
		:: !is_idle[1] && is_idle[2] -> is_idle[2] = 0; hand(2, p)
#endif
		:: else ->
			/* At the limit of threads, a thread that waits with its task can use it,
			 * too. */
			if
#ifndef IDLE_AT_CAP
			:: queue??[1] -> queue??1; waits[0] = 0; hand(0, p)
			:: !queue??[1] && queue??[2] ->
				queue??2; waits[1] = 0; hand(1, p)
#	if THREADS == 3
			:: !queue??[1] && !queue??[2] && queue??[3] ->
				queue??3; waits[2] = 0; hand(2, p)
#	endif
#endif
			:: else -> owner[p] = NOBODY; idle[p] = 1
			fi
		fi
	fi
}

/* Called after a task was queued. */
inline submitted()
{
	if
	:: idle[0] -> start_processor(0)
	:: !idle[0] && idle[1] -> start_processor(1)
	:: else
	fi
}

inline sn_processor_give(p)
{
	if
	:: len(queue) > 0 -> start_processor(p)
	:: else -> owner[p] = NOBODY; idle[p] = 1
	fi
}

/* ---- the threads ---- */

proctype thread(byte t)
{
	byte w;
	bool called; /* whether the last call returned without parking */

	goto park;

schedule: /* the loop of sn_schedule(): inside, with a processor */
	atomic {
		if
		:: stopping -> goto ended
		:: else
		fi;
		drain(t); /* the lock */
		touch(t);
		drain(t); /* and again */
		if
		:: queue?[0] ->
			queue?0;
			has_task[t] = 1;
			conserved();
			goto leave
		:: nempty(queue) && !queue?[0] -> /* hand_over() */
			queue?w;
			w = w - 1;
			assert(waits[w] && has_task[w]);
			waits[w] = 0;
			hand(w, processor[t] - 1);
			processor[t] = 0;
			is_idle[t] = 1;
			w = 0;
			conserved()
		:: empty(queue) -> /* become_idle() */
			owner[processor[t] - 1] = NOBODY;
			idle[processor[t] - 1] = 1;
			processor[t] = 0;
			is_idle[t] = 1;
			conserved()
		fi
	}
park:	/* sleep_in_parker(): sleeps until another thread hands over a processor */
	atomic {
		parker[t] -> parker[t] = 0;
		if
		:: stopping -> goto ended
		:: !stopping && handed[t] == 0 -> goto park
		:: else -> take_handed(t); goto schedule
		fi
	}

leave:	atomic {
#ifdef PLAIN_LEAVE
		store(t, INSIDE, 0, 0)
#else
		store(t, INSIDE, 0, 1)
#endif
	}

outside: /* user code, which may block or compute forever */
#ifdef ASKS
	assert(!asked[t] || word[t] != HELD || asking || deciding);
#endif
	if
	:: goto outside
	:: goto enter
	fi;

enter:
#ifdef ENDS
	assert(!told[t] || word[t] == REVOKED);
#endif
#ifdef EARLY_LOAD
	w = word[t];
	atomic { store(t, INSIDE, 1, 0) }
#else
	atomic { store(t, INSIDE, 1, 0) }
	w = word[t];
#endif
	if
	:: w == HELD -> w = 0; goto entered
	:: else -> w = 0
	fi;

	/* sn_private_lease_lost() */
#ifndef NO_FENCE
	d_step { drain(t) }
#endif
await_decision:
	if
	:: word[t] != REVOKING && word[t] != AWAITED
	:: d_step { word[t] == REVOKING -> drain(t); word[t] = AWAITED } /* patience is over */
	fi;
	if
	:: atomic { word[t] == AWAITED -> sleeps[t] = 1 }; !sleeps[t]; goto await_decision
	:: word[t] == REVOKING -> goto await_decision /* the next revocation has begun */
	:: word[t] == LEASE_HELD -> goto serve
#ifdef ASKS
	:: d_step { word[t] == ASKED -> drain(t); word[t] = HELD }; goto serve
#endif
	:: word[t] == REVOKED
	fi;
	if
	:: stopping -> goto abandon
	:: else
	fi;

	/* sn_processor_regain() */
	d_step {
		drain(t);
		if
		:: idle[0] -> assign(t, 0)
		:: !idle[0] && idle[1] -> assign(t, 1)
		:: else
		fi;
		conserved()
	}
	if
	:: processor[t] != 0 -> goto regained
	:: else
	fi;
	atomic {
		queue!t + 1;
		waits[t] = 1;
		submitted();
		conserved()
	}
await_processor:
	atomic {
		parker[t] -> parker[t] = 0;
		if
		:: handed[t] != 0 -> take_handed(t); goto regained
		:: handed[t] == 0 && stopping -> goto abandon
		:: else -> goto await_processor
		fi
	}
regained:
	atomic { drain(t); word[t] = LEASE_HELD }
#ifndef NO_RECHECK
	if
	:: stopping -> goto abandon
	:: else
	fi;
#endif

serve:
#ifdef ASKS
	asked[t] = 0;
#endif

entered: /* runtime code on behalf of the task */
	atomic { buffered[t] < DEPTH -> touch(t) }
	if
#ifdef LIVE
	:: !called -> called = 1; goto leave
#else
	:: goto leave
#endif
	:: called = 0
	fi;
	atomic { /* the task parks, and is runnable immediately, so the queue is never empty for
	          * long */
		drain(t);
		assert(processor[t] != 0 && owner[processor[t] - 1] == t);
		has_task[t] = 0;
		queue!0;
		submitted();
		conserved();
		goto schedule
	}

abandon:
	has_task[t] = 0;
ended:	skip
}

/* ---- the monitor ---- */

inline decide(t, decision)
{
	if
	:: d_step { word[t] == REVOKING -> word[t] = decision }
	:: word[t] != REVOKING ->
		if
		:: d_step { word[t] == AWAITED -> word[t] = decision };
#ifndef NO_WAKE
			sleeps[t] = 0
#endif
		:: word[t] != AWAITED /* the end of the runtime came first */
		fi
	fi
}

proctype monitor()
{
	byte p, t;
	bool within;

look:	if
	:: stopping -> goto ended
	:: else
	fi;
	d_step {
		p = 1 - p;
		t = owner[p];
		if
		:: len(queue) == 0 -> t = NOBODY
		:: else
		fi
	}
	if
	:: t >= THREADS -> t = 0; goto look
	:: else
	fi;
	/* sn_lease_revoke() */
	if
#ifdef ASKS
	:: d_step {
		word[t] == HELD || word[t] == ASKED -> word[t] = REVOKING;
#	ifndef DECIDE_FORGETS
		deciding = 1
#	endif
	}
	:: word[t] != HELD && word[t] != ASKED -> t = 0; goto look
#else
	:: d_step { word[t] == LEASE_HELD -> word[t] = REVOKING }
	:: word[t] != LEASE_HELD -> t = 0; goto look
#endif
	fi;
#ifdef EARLY_LOOK
	within = inside[t];
#endif
#if !defined(NO_MEMBARRIER) && !defined(FENCED)
#	ifdef REFUSED
	if
#		ifdef REFUSED_BELIEVED
	:: goto believed
#		else
	:: within = 1; goto believed /* the barrier failed: assumes that the thread is inside */
#		endif
	:: true
	fi;
#	endif
	d_step {
		drain(0);
		drain(1);
#	if THREADS == 3
		drain(2)
#	endif
	}
#endif
#ifdef REFUSED
believed:
#endif
#ifndef EARLY_LOOK
	within = within || inside[t];
#endif
	if
	:: within || processor[t] != p + 1 ->
		within = 0;
		decide(t, LEASE_HELD);
#if defined(ASKS) && !defined(DECIDE_FORGETS)
		if
		:: asked[t] -> d_step { if :: word[t] == HELD -> word[t] = ASKED :: else fi }
		:: else
		fi;
		deciding = 0;
#endif
		t = 0;
		goto look
	:: else
	fi;
	d_step {
		assert(owner[p] == t);
		processor[t] = 0;
		owner[p] = MONITOR
	}
	decide(t, REVOKED);
#ifdef ASKS
	deciding = 0;
#endif
	t = 0;
	atomic {
		sn_processor_give(p);
		conserved()
	}
	goto look;
ended:	skip
}

#ifdef ASKS
proctype asker()
{
	byte t;

	do
	:: t < THREADS ->
		d_step { asking = 1; asked[t] = 1 };
		d_step { if :: word[t] == HELD -> word[t] = ASKED :: else fi; asking = 0 };
		t++
	:: else -> break
	od
}
#endif

#ifdef ENDS
proctype ender()
{
	byte t;

	stopping = 1;
	do
	:: t < THREADS ->
		if
		:: d_step { word[t] == AWAITED -> word[t] = REVOKED; told[t] = 1 };
#	ifndef END_NO_WAKE
			sleeps[t] = 0
#	endif
		:: d_step { word[t] != AWAITED -> word[t] = REVOKED; told[t] = 1 }
		fi;
		parker[t] = 1;
		t++
	:: else -> break
	od
}
#endif

init
{
	byte i;

	atomic {
		do
		:: i < TASKS -> queue!0; i++
		:: else -> break
		od;
		i = 0;
		do
		:: i < THREADS ->
			inside[i] = 1;
			if
			:: i < PROCESSORS -> hand(i, i)
			:: else -> is_idle[i] = 1
			fi;
			run thread(i);
			run cpu(i);
			i++
		:: else -> break
		od;
		i = 0;
		run monitor();
#ifdef ASKS
		run asker();
#endif
#ifdef ENDS
		run ender()
#endif
	}
}

#ifdef LIVE
ltl served { [] (waits[0] -> <> !waits[0]) && [] (waits[1] -> <> !waits[1]) }
ltl woken { [] (sleeps[0] -> <> !sleeps[0]) && [] (sleeps[1] -> <> !sleeps[1]) }
/* At the end a thread sleeps in its parker only if it was not notified, and is then at "park". */
#endif
