/* SPDX-License-Identifier: MIT */
/*
 * The scan bit: src/sched/scan.h and scan_serve.h, src/observe/scan_ask.h, and the plain stores of
 * the status beside it.
 *
 * What is modelled, by the names of the C code:
 *   runner()   run_at_once() with sn_scan_is_free(), while another task is being left;
 *              about_to_run(), sn_scan_before_run(); the task on that thread, which may serve a
 *              request itself (sn_scan_serve_own(), handle_signal()); leave_task() and
 *              after_switch() with sn_scan_hold_left(), the commit, sn_scan_give_back();
 *              sn_exit_task() with sn_scan_ended()
 *   waker()    sn_ready(), by a thread that has found the task parked
 *   scanner()  sn_scan_own(), give_up(), sn_scan_release() with sn_requeue()
 *   asker()    sn_scan_ask(), sn_scan_withdraw(); await_served() and another look at scan,
 *              own_soon()
 *   cpu()      store buffers as in lease.pml: plain stores wait in one until they drain, at any
 *              time; an atomic read-modify-write, a fence and a membarrier drain it. TSO; with
 *              -DPSO stores to different addresses drain in any order, but a store-release after
 *              all before it.
 * There is one task, and one word for each of status, saved registers, the right to wake and the
 * queue, which are buffered, and scan, which is only changed atomically. The task parks as an
 * exclusive waiter (waiter.h): the lock of its queue is held from before the switch until the
 * commit. The other task that is being left is an exclusive waiter, too; its lock is `other`. Every
 * callback takes both locks, as a callback that calls sn_chan_try_send() may.
 *
 * Abstracted: the commit is a store-release (an unlock), and so is putting the task into a queue;
 * taking it out is atomic. The only statuses are RUNNABLE, RUNNING, PARKED and ENDED.
 *
 * Safety (assertions): a party that owns the stack finds all registers saved, and the task on no
 * thread, from beginning to end; so does a party that serves a request, unless it is on the task's
 * own thread; a request is served, refused or withdrawn once, and never forgotten, even when the
 * task ends; an asker whose request was served finds no stack that only its server has; the task is
 * never in the queue twice, and never lost; no thread waits for a lock that it holds itself, or
 * that a waiting thread holds (at the end no thread still waits).
 *
 * Variants: PSO; FENCED (no membarrier, every switch in the slow path with a fence); SCANNERS; ENDS
 * (the task ends).
 *
 * Mutants, each of which must be caught:
 *   NO_MEMBARRIER     the scanner does not wait for the other CPUs
 *   EARLY_LOAD        the runner reads scan before it stores RUNNING
 *   EARLY_LOOK        the thread that has left the task reads scan before it stores PARKED
 *   EARLY_PARKED      PARKED is stored before the registers are saved
 *   PLAIN_PARKED      with PSO: PARKED is no store-release
 *   NO_FENCE          with FENCED: the slow path without its fence
 *   STALE_WANTED      the runner sets WANTED without checking whether HELD is still there
 *   LATE_RUNNABLE     it sets the status to RUNNABLE only after it has set WANTED
 *   FORGET_WANTED     release queues no task
 *   GIVE_UP_WANTED    give_up() does not check WANTED
 *   GIVE_UP_ASKED     give_up() does not check ASKED
 *   SERVE_FIRST       the thread that has left the task serves before the commit
 *   HOLD_LATE         it takes HELD only after the commit
 *   HOLD_TWICE        it takes HELD although another party has it
 *   SERVE_PICKED      the next task's request is served while the commit of the previous task is
 *                     due
 *   NO_LOOK           the thread that has left the task does not read scan
 *   END_NO_LOOK       with ENDS: the end does not read scan
 *   NO_SERVE          release serves no request
 *   EARLY_DONE        a request is completed before its server gives the stack up
 *   NO_ASK_BARRIER    the asker leaves the barrier to sn_scan_own()
 */
#ifndef ROUNDS
#	define ROUNDS 2
#endif
#ifndef SCANNERS
#	define SCANNERS 1
#endif

#define RUNNABLE 1
#define RUNNING 2
#define PARKED 3
#define ENDED 4

/* Indices of the buffered words. */
#define STATUS 0
#define SAVED 1
#define MAY_WAKE 2
#define QUEUED 3
#define LOCK 4 /* of the queue that the task waits in */
byte memory[5];

bool HELD, WANTED, ASKED; /* bits of the scan word: each test-and-set is one d_step */
bool other;               /* the lock of the queue that the other task waits in */
byte request;             /* 0: none yet; 1: asked; 2: completed; 3: refused or withdrawn */

/* Only in the model, not in the code. */
byte on;       /* how many threads have the task: 0 or 1 */
byte owners;   /* how many parties own the stack */
bool scans;    /* a scanner or an asker has HELD, for more than to serve a request */
byte rounds;
bool finished; /* the task has ended, or sleeps forever */

/* Threads: 0 and 1 are runners, 2 is the waker. */
#define DEPTH 3
byte buffered[3];
byte buffer_at[9];
byte buffer_value[9];
bool buffer_release[9];
hidden byte s;

inline drain_entry(t, i)
{
	memory[buffer_at[(t) * DEPTH + i]] = buffer_value[(t) * DEPTH + i];
	s = i;
	do
	:: s + 1 < buffered[t] ->
		buffer_at[(t) * DEPTH + s] = buffer_at[(t) * DEPTH + s + 1];
		buffer_value[(t) * DEPTH + s] = buffer_value[(t) * DEPTH + s + 1];
		buffer_release[(t) * DEPTH + s] = buffer_release[(t) * DEPTH + s + 1];
		s++
	:: else -> break
	od;
	buffered[t]--;
	buffer_at[(t) * DEPTH + buffered[t]] = 0;
	buffer_value[(t) * DEPTH + buffered[t]] = 0;
	buffer_release[(t) * DEPTH + buffered[t]] = 0;
	s = 0
}

inline drain(t)
{
	do
	:: buffered[t] > 0 -> drain_entry(t, 0)
	:: else -> break
	od
}

inline store(t, at, value, release)
{
	atomic {
		buffered[t] < DEPTH;
		buffer_at[(t) * DEPTH + buffered[t]] = at;
		buffer_value[(t) * DEPTH + buffered[t]] = value;
		buffer_release[(t) * DEPTH + buffered[t]] = release;
		buffered[t]++
	}
}

#define CAN_OVERTAKE(t, i) (buffered[t] > i && !buffer_release[(t) * DEPTH + i] && \
	buffer_at[(t) * DEPTH + i] != buffer_at[(t) * DEPTH] && \
	(i == 1 || buffer_at[(t) * DEPTH + i] != buffer_at[(t) * DEPTH + 1]))

proctype cpu(byte t)
{
end:	do
	:: d_step { buffered[t] > 0 -> drain_entry(t, 0) }
#ifdef PSO
	:: d_step { CAN_OVERTAKE(t, 1) -> drain_entry(t, 1) }
	:: d_step { CAN_OVERTAKE(t, 2) -> drain_entry(t, 2) }
#endif
	od
}

inline sn_barrier_everywhere()
{
#if !defined(NO_MEMBARRIER) && !defined(FENCED)
	d_step { drain(0); drain(1); drain(2) }
#endif
	skip
}

inline stands_still()
{
	assert(on == 0 && memory[SAVED] == 1)
}

/* seen: whether to check; afterwards, whether HELD was taken. */
inline hold_left()
{
	if
	:: seen ->
		d_step { /* a fence, and compare-and-swap */
			drain(t);
			if
#ifdef HOLD_TWICE
			:: ASKED -> HELD = 1; owners++; assert(owners == 1)
#else
			:: ASKED && !HELD -> HELD = 1; owners++; assert(owners == 1)
#endif
			:: else -> seen = 0
			fi
		}
	:: else
	fi
}

/* Called by a party with the right to the stack, other than the task's thread. It waits for both
 * locks. served: the request has to be completed. */
inline serve()
{
	if
	:: d_step { ASKED -> ASKED = 0; stands_still(); assert(request == 1) };
		memory[LOCK] == 0;
		!other;
#ifdef EARLY_DONE
		d_step { stands_still(); request = 2 }
#else
		d_step { stands_still(); served = 1 }
#endif
	:: !ASKED
	fi
}

inline complete()
{
	if
	:: served -> d_step { served = 0; assert(request == 1); request = 2 }
	:: else
	fi
}

inline sn_requeue()
{
	assert(memory[QUEUED] == 0);
	memory[QUEUED] = 1
}

/* sn_scan_release(), of a task that is owned and counted in owners */
inline release()
{
	do
	::
#ifndef NO_SERVE
		if
		:: ASKED -> serve()
		:: else
		fi;
#endif
		/* compare-and-swap */
		d_step {
			wanted = 0;
			done = 0;
			if
#ifdef NO_SERVE
			:: true ->
#else
			:: !ASKED ->
#endif
				done = 1; wanted = WANTED; WANTED = 0; HELD = 0; scans = 0; owners--
			:: else
			fi
		};
		if
		:: done -> break
		:: else
		fi
	od;
	done = 0;
	complete();
	if
#ifdef FORGET_WANTED
	:: wanted
#else
	:: wanted -> d_step { sn_requeue(); memory[STATUS] = RUNNABLE }
#endif
	:: else
	fi;
	wanted = 0
}

proctype runner(byte t)
{
	byte seen;
	bool wanted, done, served;
#ifdef SERVE_PICKED
	bool picking;
#endif

take:	if
	:: d_step { memory[QUEUED] == 1 && !finished -> drain(t); memory[QUEUED] = 0 }
	:: finished -> goto ended
	fi;
	if
	:: true
	:: d_step { !other -> other = 1 };
		/* run_at_once() while the other task is being left, which holds its lock until its
		 * commit */
#ifndef SERVE_PICKED
		store(t, STATUS, RUNNING, 1);
#	ifdef FENCED
		d_step { drain(t) }
#	endif
		seen = HELD || ASKED;
		if
		:: seen == 0 -> other = 0; goto go_on
		:: else -> seen = 0; store(t, STATUS, RUNNABLE, 1)
		fi;
		/* self->picked */
		other = 0
#else
		picking = 1
#endif
	fi;
	/* about_to_run() */
#ifdef EARLY_LOAD
	seen = HELD + 2 * ASKED;
#endif
	store(t, STATUS, RUNNING, 1);
#ifndef EARLY_LOAD
	seen = HELD + 2 * ASKED;
#endif
	if
#ifndef FENCED
	:: seen == 0 -> goto go_on
#endif
	:: else
	fi;
slow:	skip; /* sn_scan_before_run() */
#ifndef NO_FENCE
	d_step { drain(t) }
#endif
	seen = HELD;
	if
	:: seen == 0 -> serve(); complete(); goto go_on
	:: else
	fi;
#ifndef LATE_RUNNABLE
	store(t, STATUS, RUNNABLE, 1);
#endif
	d_step { /* compare-and-swap */
		drain(t);
#ifndef STALE_WANTED
		seen = 0;
		if
		:: HELD -> WANTED = 1; seen = 1
		:: else
		fi
#else
		WANTED = 1; seen = 1
#endif
	}
	if
	:: seen ->
#ifdef LATE_RUNNABLE
		store(t, STATUS, RUNNABLE, 1);
#endif
		seen = 0;
#ifdef SERVE_PICKED
		if
		:: picking -> picking = 0; other = 0
		:: else
		fi;
#endif
		goto take
	:: else
	fi;
	store(t, STATUS, RUNNING, 1);
	goto slow;

go_on:	seen = 0;
#ifdef SERVE_PICKED
	if
	:: picking -> picking = 0; other = 0
	:: else
	fi;
#endif
	d_step { assert(owners == 0 && on == 0); on = 1; memory[SAVED] = 0 }
	if
	:: d_step { ASKED -> ASKED = 0; assert(request == 1); request = 2 } /* at an entry, or by signal */
	:: true
	fi;
	d_step { assert(owners == 0); rounds++; on = 0 }
	if
#ifdef ENDS
	:: rounds >= ROUNDS ->
		store(t, STATUS, ENDED, 1);
#	ifndef END_NO_LOOK
#		ifdef FENCED
#			ifndef NO_FENCE
		d_step { drain(t) }
#			endif
#		endif
		d_step { if :: ASKED -> ASKED = 0; assert(request == 1); request = 3 :: else fi }
#	endif
		finished = 1; goto ended
#endif
	:: else
	fi;
	/* Takes the queue's lock; the switch; then after_switch() */
	d_step { memory[LOCK] == 0 -> drain(t); memory[LOCK] = 1 }
#ifdef EARLY_PARKED
	store(t, STATUS, PARKED, 1);
	store(t, SAVED, 1, 0);
#else
	store(t, SAVED, 1, 0);
#	ifdef EARLY_LOOK
	seen = ASKED;
#	endif
#	ifdef PLAIN_PARKED
	store(t, STATUS, PARKED, 0);
#	else
	store(t, STATUS, PARKED, 1);
#	endif
#endif
#ifdef FENCED
#	ifndef NO_FENCE
	d_step { drain(t) }
#	endif
#endif
#if !defined(EARLY_LOOK) && !defined(NO_LOOK)
	seen = ASKED;
#endif
#ifdef SERVE_FIRST
	if
	:: seen -> d_step { drain(t) }; serve(); complete()
	:: else
	fi;
	seen = 0;
#elif !defined(HOLD_LATE)
	hold_left();
#endif
	/* The commit */
#ifndef ENDS
	if
	:: rounds >= ROUNDS -> finished = 1
	:: else -> store(t, MAY_WAKE, 1, 0)
	fi;
#else
	store(t, MAY_WAKE, 1, 0);
#endif
	store(t, LOCK, 0, 1);
#ifdef HOLD_LATE
	hold_left();
#endif
	if
	:: seen -> seen = 0; release()
	:: else
	fi;
	goto take;
ended:	skip
}

proctype waker()
{
	do
	:: d_step { memory[LOCK] == 0 && memory[MAY_WAKE] == 1 -> drain(2); memory[MAY_WAKE] = 0 } ->
		store(2, STATUS, RUNNABLE, 1);
		assert(memory[QUEUED] == 0);
		store(2, QUEUED, 1, 1)
	:: finished -> break
	od
}

/* got: 1: owned; 0: not owned; 2: another party has it */
inline own()
{
	do
	::	d_step { if :: HELD -> got = 2 :: else -> HELD = 1; scans = 1; got = 0 fi };
		if
		:: got == 2 -> break
		:: else
		fi;
		sn_barrier_everywhere();
		if
		:: memory[STATUS] == PARKED || memory[STATUS] == RUNNABLE -> got = 1; break
		:: else ->
			/* give_up() */
#ifdef GIVE_UP_WANTED
			d_step { again = ASKED; HELD = 0; scans = 0; WANTED = 0 };
#else
			d_step {
				wanted = WANTED;
				again = ASKED;
				if
				:: !wanted -> HELD = 0; scans = 0
				:: else
				fi
			};
			if
			:: wanted -> wanted = 0; d_step { stands_still(); owners++ }; release(); break
			:: else
			fi;
#endif
#ifdef GIVE_UP_ASKED
			break
#else
			if
			:: again && (memory[STATUS] == PARKED || memory[STATUS] == RUNNABLE)
			:: else -> break
			fi
#endif
		fi
	od;
	again = 0
}

proctype scanner()
{
	byte got;
	bool again, wanted, done, served;

	own();
	if
	:: got == 1 ->
		d_step { stands_still(); owners++; assert(owners == 1) };
		stands_still();
		release()
	:: else
	fi;
	got = 0
}

proctype asker()
{
	byte got;
	bool again, wanted, done, served;

	d_step { request = 1; ASKED = 1 };
#ifndef NO_ASK_BARRIER
	sn_barrier_everywhere();
#endif
	own();
	if
	:: got == 1 ->
		d_step { stands_still(); owners++; assert(owners == 1) };
		release()
	:: got != 1 && memory[STATUS] == ENDED -> d_step { if :: ASKED -> ASKED = 0; request = 3 :: else fi }
	:: else
	fi;
	got = 0;
	d_step { request >= 2 -> assert(!HELD || scans) }
}

init
{
	byte i;

	atomic {
		memory[STATUS] = RUNNABLE;
		memory[SAVED] = 1;
		memory[QUEUED] = 1;
		run runner(0);
		run runner(1);
		run waker();
		run cpu(0);
		run cpu(1);
		run cpu(2);
		i = 0;
		do
		:: i < SCANNERS -> run scanner(); i++
		:: else -> break
		od;
		i = 0;
		run asker()
	};
	timeout;
	assert(!other && memory[LOCK] == 0);
	assert(finished && !HELD && !WANTED && !ASKED && request >= 2 && owners == 0);
#ifndef ENDS
	assert(request == 2)
#endif
}
