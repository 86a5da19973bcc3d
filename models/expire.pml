/* SPDX-License-Identifier: MIT */
/*
 * A thread is asked to lend its processor: "lending" in src/sched/lease.h.
 *
 * What is modelled, by the names of the C code:
 *   thread()   thread 0: sn_runtime_enter() and sn_runtime_leave() of a task that never parks, or
 *              of several that yield; sn_private_lease_lost(), lend_if_expired(),
 *              sn_processor_lend(), sn_processor_regain()
 *   monitor()  end_hog(): sn_lease_revoke(), sn_lease_expire(); sn_processor_give()
 *   asker()    sn_lease_ask(), once
 *   ender()    with ENDS: stop() of src/run/run.c, sn_lease_end()
 * The states of the lease word are enum sn_lease. lease.pml has everything between HELD and
 * REVOKED, with the store buffers. Here lease.pml justifies that the monitor finds the thread
 * inside or outside in one step; what the monitor does after that takes several.
 *
 * Abstracted:
 *   - Ticks are 1 to TICKS. Each task holds the processor for one tick. The clock is the monitor's:
 *     it may find at any moment that a tick has lasted for too long.
 *   - Something always waits for the processor. A processor that is given away is idle, and others
 *     use it as they like (other()). idle.pml and retire.pml show what really happens to it.
 *   - All accesses are sequentially consistent: expired, asked and the word are atomics of that
 *     kind.
 *
 * Safety (assertions): no thread has a processor that another thread has; when the word of a thread
 * is HELD, and no party is between two steps that belong together, nothing that the thread was
 * asked for is left undone, so its next entry need not take the slow path (not lost); a thread that
 * was asked to lend in the present tick lends its processor at the first entry that begins after
 * that (at_once); a thread that enters with a later tick than it was asked for does not lend
 * (stale); after the end of the runtime no thread continues.
 *
 * Variants: ENDS.
 *
 * Mutants, each of which must be caught:
 *   STORE_ZERO        lend_if_expired() takes what it finds by a load and a store
 *   DECIDE_FORGETS    a revocation that fails checks asked only when it makes the word HELD again
 *   REGAIN_FORGETS    a thread that has regained a processor does not check for a request that came
 *                     while it waited
 *   ASKED_LAST        the monitor changes the word first and then sets expired
 *   ASK_SERVES_ALL    the slow path checks asked first, and if it is set, nothing else
 *   STALE_LENDS       a thread lends whatever the tick
 *   KEEPS             lend forgets that the processor is no longer its own
 *   NO_CHECK          with ENDS: after lending, the thread does not check for the end of the
 *                     runtime
 */
#ifndef TICKS
#	define TICKS 2
#endif
#define THREADS 2
#define PROCESSORS 2
#define NONE 255

#define HELD 0
#define REVOKING 1
#define REVOKED 3
#define ASKED 5

byte word[THREADS] = HELD;
bool inside[THREADS];
byte expired[THREADS];      /* 0: no request */
bool asked[THREADS];
byte processor[THREADS] = NONE;
byte tick[PROCESSORS] = 1;
bool idle[PROCESSORS];
bool stopping;

/* Only in the model, not in the code. */
byte open[THREADS];         /* a party is between two steps that belong together */
byte told[THREADS];         /* the tick of the last complete expiry; 0 if that is void */
bool serves[THREADS];

inline assign(t, p)
{
	d_step {
		assert(processor[t] == NONE);
		assert(processor[0] != p && processor[1] != p && !idle[p]);
		processor[t] = p
	}
}

inline give(p)
{
	d_step {
		assert(!idle[p] && processor[0] != p && processor[1] != p);
		idle[p] = 1
	}
}

/* Another thread may run something on the processor in between. */
inline take_idle(t)
{
	atomic {
		if
		:: idle[0] -> idle[0] = 0; assign(t, 0)
		:: idle[1] -> idle[1] = 0; assign(t, 1)
		:: stopping && !idle[0] && !idle[1]
		fi;
		if
		:: processor[t] != NONE && tick[processor[t]] < TICKS -> tick[processor[t]]++
		:: else
		fi
	}
}

/* While the thread's word lets it take the fast path, no request to the thread is unserved. */
#define NOT_LOST(t) (word[t] != HELD || open[t] || serves[t] || !(asked[t] || expired[t]))

proctype thread(byte t)
{
	byte w, e, p;

outside:
	inside[t] = 0;
	assert(NOT_LOST(t));
	d_step {
		inside[t] = 1;
		w = word[t];
		p = (open[t] -> 0 : told[t])
	}
	if
	:: w == HELD ->
		/* The request came before this entry began, in the present tick, so the thread
		 * should be in the slow path. */
		assert(p == 0 || processor[t] == NONE || p != tick[processor[t]]);
		goto entered
	:: else
	fi;

	/* sn_private_lease_lost() */
slow:	skip;
	d_step { word[t] != REVOKING -> w = word[t] };
	if
	:: w == ASKED ->
		d_step {
			if
			:: word[t] == ASKED -> word[t] = HELD; serves[t] = 1
			:: else -> w = NONE
			fi
		}
		if
		:: w == NONE -> goto slow
		:: else
		fi
	:: w == REVOKED ->
		if
		:: stopping -> goto abandon
		:: else
		fi;
		take_idle(t);
		if
		:: processor[t] == NONE -> goto abandon
		:: else
		fi;
		d_step { word[t] = HELD; serves[t] = 1 }
		if
		:: stopping -> goto abandon
		:: else
		fi;
#ifdef REGAIN_FORGETS
		serves[t] = 0;
		goto entered
#endif
	:: w == HELD -> serves[t] = 1
	fi;
	w = 0;
#ifdef ASK_SERVES_ALL
	if
	:: asked[t] -> asked[t] = 0; goto served
	:: else
	fi;
#endif
	/* lend_if_expired() */
	e = 0;
	if
#ifdef STORE_ZERO
	:: expired[t] -> d_step { e = expired[t]; told[t] = 0 }; expired[t] = 0
#else
	:: expired[t] -> d_step { e = expired[t]; told[t] = 0; expired[t] = 0 }
#endif
	:: else
	fi;
	/* The request that came before the thread entered, and that it did not see. */
	assert(e || p == 0 || p != tick[processor[t]] || told[t] != p);
	if
#ifdef STALE_LENDS
	:: e ->
#else
	:: e && e == tick[processor[t]] ->
#endif
		assert(e == tick[processor[t]]);
		/* sn_processor_lend() */
		d_step {
			p = processor[t];
#ifndef KEEPS
			processor[t] = NONE
#endif
		}
		give(p);
		p = 0;
#ifdef KEEPS
		processor[t] = NONE;
#endif
		take_idle(t);
#ifndef NO_CHECK
		if
		:: processor[t] == NONE || stopping -> goto abandon
		:: else
		fi
#endif
	:: else
	fi;
	e = 0;
	if
	:: asked[t] -> asked[t] = 0
	:: else
	fi;
served:	serves[t] = 0;
	p = 0;

entered: /* runtime code on behalf of the task */
	skip;
	d_step { assert(processor[t] != NONE); p = 0; e = 0 }
	if
	:: goto outside
	:: d_step { tick[processor[t]] < TICKS -> tick[processor[t]]++ }; goto outside /* another task */
#ifdef ENDS
	:: stopping -> goto abandon
#endif
	fi;
abandon:
	skip;
	d_step {
		serves[t] = 1; p = 0; e = 0; w = 0;
		if
		:: processor[t] != NONE -> idle[processor[t]] = 1; processor[t] = NONE
		:: else
		fi
	}
}

/* A thread that has the processor which the other thread has lost. */
proctype other()
{
end:	do
	:: atomic { processor[1] == NONE && idle[0] -> idle[0] = 0; assign(1, 0) }
	:: atomic { processor[1] == NONE && idle[1] -> idle[1] = 0; assign(1, 1) }
	:: d_step { processor[1] != NONE -> idle[processor[1]] = 1; processor[1] = NONE }
	:: d_step { processor[1] != NONE && tick[processor[1]] < TICKS -> tick[processor[1]]++ }
	od
}

proctype monitor()
{
	byte t, p, now, taken;

look:	if
	:: stopping -> goto ended
	:: else
	fi;
	/* look_at() */
	d_step {
		p = processor[t];
		if
		:: p != NONE -> now = tick[p]
		:: else
		fi
	}
	if
	:: p == NONE -> goto look
	:: else
	fi;
	/* end_hog(): sn_lease_revoke() */
	d_step {
		taken = 0;
		if
		:: word[t] == HELD || word[t] == ASKED -> word[t] = REVOKING; taken = 1; open[t]++
		:: else
		fi
	}
	if
	:: taken == 0 -> goto expire
	:: else
	fi;
	taken = 0;
	/* The membarrier, and decide() */
	if
	:: d_step { inside[t] || processor[t] != p ->
		if
		:: word[t] == REVOKING -> word[t] = HELD
		:: else /* the end of the runtime came first */
		fi }
#ifdef DECIDE_FORGETS
		if
		:: asked[t] ->
#else
		if
		:: asked[t] || expired[t] ->
#endif
			d_step { if :: word[t] == HELD -> word[t] = ASKED :: else fi }
		:: else
		fi;
		open[t]--
	:: d_step { !inside[t] && processor[t] == p -> processor[t] = NONE; taken = 1 };
		d_step {
			if
			:: word[t] == REVOKING -> word[t] = REVOKED
			:: else
			fi;
			open[t]--;
			told[t] = 0
		}
		give(p);
		taken = 0;
		goto look
	fi;
expire:	/* sn_lease_expire() */
	taken = 0;
#ifdef ASKED_LAST
	d_step { if :: word[t] == HELD -> word[t] = ASKED :: else fi };
	expired[t] = now;
	told[t] = now;
#else
	d_step { expired[t] = now; open[t]++ };
	d_step {
		if
		:: word[t] == HELD -> word[t] = ASKED
		:: else
		fi;
		open[t]--;
		if
		:: expired[t] == now -> told[t] = now
		:: else
		fi
	}
#endif
	now = 0;
	goto look;
ended:	skip
}

proctype asker()
{
	d_step { asked[0] = 1; open[0]++ };
	d_step { if :: word[0] == HELD -> word[0] = ASKED :: else fi; open[0]-- }
}

#ifdef ENDS
proctype ender()
{
	stopping = 1;
	word[0] = REVOKED
}
#endif

init
{
	atomic {
		processor[0] = 0;
		processor[1] = 1;
		run thread(0);
		run other();
		run monitor();
		run asker();
#ifdef ENDS
		run ender()
#endif
	}
}
