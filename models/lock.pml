/* SPDX-License-Identifier: MIT */
/*
 * The lock of the runtime: src/wait/lock.h and .c.
 *
 * What is modelled, by the names of the C code:
 *   thread()   sn_lock() with sn_lock_slow(), and sn_unlock() with sn_unlock_slow(), several times
 *   lease()    sn_lock_registered(), at any time after the kernel has registered the process
 * Plain stores (there is only one, to the word) wait in the thread's store buffer until a
 * read-modify-write or a fence of its own, a membarrier of another thread, or a system call, or
 * until the buffer drains by itself.
 *
 * Abstracted: the spinning before the sleep. The futex compares and sleeps in one step, and also
 * wakes for its own reasons, but not at rest.
 *
 * Safety (assertions): one thread holds the lock at a time. At rest: no thread sleeps, and all are
 * done.
 *
 * Mutants, each of which must be caught:
 *   NO_BARRIER     a thread that is about to sleep issues no membarrier
 *   LATE_COUNT     it counts itself after the membarrier
 *   NEVER_FENCED   a thread that unlocks executes no fence before the registration either
 *   LOOK_FIRST     a thread that unlocks reads the count before it stores
 *   KNOWN_EARLY    sn_lock_registered() before the kernel has the registration
 */
#define THREADS 3
#ifndef ROUNDS
#	define ROUNDS 2
#endif

bool word;               /* whether the lock is held, according to memory */
bool buffered[THREADS];  /* this thread's store of "free" is in its buffer */
byte sleepers;
bool registered;         /* in the kernel */
bool asymmetric;
bool asleep[THREADS];
byte holders;
byte done;

inline drain(i)
{
	if
	:: buffered[i] -> word = 0; buffered[i] = 0
	:: else
	fi
}

/* A compare-and-swap drains the buffer first. */
inline try_lock()
{
	d_step {
		drain(me);
		got = !word;
		word = 1
	}
}

proctype cpu(byte i)
{
end:	do
	:: d_step { buffered[i] -> word = 0; buffered[i] = 0 }
	od
}

inline sn_lock_slow()
{
#ifndef LATE_COUNT
	d_step { drain(me); sleepers++ };
#endif
	/* barrier_everywhere() */
#ifndef NO_BARRIER
	d_step {
		drain(me);
		if
		:: registered -> drain(0); drain(1); drain(2)
		:: else
		fi
	};
#endif
#ifdef LATE_COUNT
	d_step { drain(me); sleepers++ };
#endif
	do
	:: try_lock();
		if
		:: got -> break
		:: else
		fi;
		/* sn_futex_wait() */
		d_step {
			drain(me);
			asleep[me] = word
		};
end_asleep:	!asleep[me]
	od;
	skip; /* spin has no jump into a d_step */
	d_step { drain(me); sleepers-- }
}

inline sn_unlock()
{
#ifdef LOOK_FIRST
	seen = sleepers;
#endif
	assert(!buffered[me]);
	buffered[me] = 1;
#ifdef NEVER_FENCED
	skip;
#else
	if
	:: asymmetric
	:: !asymmetric -> d_step { drain(me) }
	fi;
#endif
#ifndef LOOK_FIRST
	seen = sleepers;
#endif
	if
	:: seen > 0 ->
		/* sn_unlock_slow(): wakes a thread, if any sleeps */
		d_step { drain(me) };
		if
		:: d_step { asleep[0] -> asleep[0] = 0 }
		:: d_step { asleep[1] -> asleep[1] = 0 }
		:: d_step { asleep[2] -> asleep[2] = 0 }
		:: d_step { !asleep[0] && !asleep[1] && !asleep[2] -> skip }
		fi
	:: else
	fi
}

proctype thread(byte me)
{
	bool got;
	byte n, seen;

	do
	:: n < ROUNDS ->
		n++;
		try_lock();
		if
		:: got
		:: else -> sn_lock_slow()
		fi;
		holders++;
		assert(holders == 1);
		holders--;
		sn_unlock();
		d_step { got = 0; seen = 0 }
	:: n == ROUNDS -> break
	od;
	done++
}

proctype lease()
{
#ifdef KNOWN_EARLY
	asymmetric = 1;
	registered = 1
#else
	/* The registration itself is a barrier for every thread. */
	d_step { drain(0); drain(1); drain(2); registered = 1 };
	asymmetric = 1
#endif
}

init
{
	atomic {
		run thread(0);
		run thread(1);
		run thread(2);
		run cpu(0);
		run cpu(1);
		run cpu(2);
		run lease()
	};
	timeout;
	assert(!asleep[0] && !asleep[1] && !asleep[2]);
	assert(done == THREADS && !word && sleepers == 0)
}
