/* SPDX-License-Identifier: MIT */
/*
 * Waiting in channels: src/task/waiter.h and .c, src/sync/channel.c and select.c.
 *
 * What is modelled, by the names of the C code:
 *   selecting()  sn_select() over two unbuffered channels: the attempts, first with one lock at a
 *                time, then with both; the queues; sn_waiter_park() with park_shared();
 *                leave_queue(). One task receives from 0 or sends to 1, and has a deadline and a
 *                scope; another one does the opposite, so that they can serve each other through
 *                both channels.
 *   sending()    sn_chan_send() to 0 of an exclusive waiter, with commit_exclusive()
 *   timers()     sn_timers_run() with deadline_fire()
 *   canceller()  a scope's reason and sn_cancel_take()
 *   closer()     with CLOSES, instead of the canceller: sn_chan_close() of 1
 * With FAR the deadline does not come, and there are no other parties. With FOREVER there is
 * neither a deadline nor a scope. A waiter's bits are CLAIMED, DONE and PARKED. A node is
 * identified by its owner and its channel.
 *
 * Abstracted: memory order. Every access to the bits is a read-modify-write, everything else in a
 * channel is under its lock, and the rest passes from thread to thread through a run queue. The
 * element of a sender is its number.
 *
 * Safety (assertions): a waiter is not touched after its owner has returned; a task is made
 * runnable only when its registers are saved, and once; a call that returns has succeeded in one
 * channel, or has failed with a reason. At rest: no lock is held; what was sent was received, once;
 * in no channel does a sender wait beside a receiver, unless they are the same select; nothing
 * waits in a closed channel, or past its deadline.
 *
 * Mutants, each of which must be caught:
 *   NO_CLAIM        a party that finds a node ends its wait without the claim
 *   NODE_STAYS      a select returns without leaving its other queue
 *   ONE_BY_ONE      a select enters its queues with one lock at a time, so that it is claimed in
 *                   the first while it serves a partner in the second
 *   ANY_ORDER       the selects take the locks in the orders of their cases
 *   NO_SECOND_LOOK  with FOREVER: a select does not attempt again with the locks
 *   COMMIT_STORES   commit_park() checks for DONE and then sets PARKED
 *   EARLY_UNLOCK    an exclusive waiter's lock is released before its registers are saved
 *   STATUS_LATE     the status of a node is written after its owner is woken
 *   TIMER_STAYS     park_shared() does not stop the timer
 *   LOOK_UNLOCKED   with FAR: sn_cancel_publish() looks at the reason without the lock
 */
#define SEND 0
#define RECV 1
#define OTHER(op) (1 - (op))

#define CLAIMED 1
#define DONE 2
#define PARKED 4

#define PENDING 0
#define OK 1
#define CLOSED 2

#define NOBODY 255
#define EXCLUSIVE(p) ((p) == 2)
#define Q(c, op) queue[2 * (c) + (op)]
#define NODE(p, c) (2 * (p) + (c))

bool locked[2];
bool closed[2];
chan queue[4] = [3] of { byte };

byte bits[3];
bool there[3];    /* the waiter is on its owner's stack */
bool failed[3];   /* its result is an error */
bool saved[3];    /* the registers are saved */
bool runnable[3];
byte status[6];
bool queued[6];

byte taken[3];    /* how often the element of a sender was copied */
byte sent[3];     /* how often the sender reports that it was sent */
bool returned[3];

bool timer;       /* the timer is in the heap */
bool heap_locked;
bool reason, in_waiter, cancel_locked;

inline sn_lock(c)
{
	d_step { !locked[c] -> locked[c] = 1 }
}

inline sn_unlock(c)
{
	d_step { assert(locked[c]); locked[c] = 0 }
}

inline sn_ready(w)
{
	d_step { assert(saved[w] && !runnable[w]); runnable[w] = 1 }
}

/* sn_waiter_claim() */
inline claim(w)
{
	d_step {
		assert(there[w]);
		if
		:: EXCLUSIVE(w) -> took = 1
		:: else ->
#ifdef NO_CLAIM
			took = 1;
#else
			took = !(bits[w] & CLAIMED);
#endif
			bits[w] = bits[w] | CLAIMED
		fi
	}
}

/* done(): whichever comes last, this or the commit, makes the task runnable */
inline set_done(w)
{
	d_step {
		assert(there[w]);
		was = bits[w];
		bits[w] = bits[w] | DONE
	}
}

inline sn_waiter_wake(w)
{
	if
	:: EXCLUSIVE(w) -> sn_ready(w)
	:: else ->
		set_done(w);
		if
		:: was & PARKED -> sn_ready(w)
		:: else
		fi
	fi
}

/* sn_chan_attempt(), with the lock held. Sets met, or over if the channel is closed. */
inline attempt(me, c, op)
{
	met = NOBODY;
	over = closed[c];
	do
	:: d_step { !over && met == NOBODY && nempty(Q(c, OTHER(op))) ->
			Q(c, OTHER(op))?met;
			queued[NODE(met, c)] = 0
		};
		claim(met);
		if
		:: took
		:: !took -> met = NOBODY
		fi
	:: over || met != NOBODY || empty(Q(c, OTHER(op))) -> break
	od;
	if
	:: met != NOBODY ->
		d_step {
			assert(there[met]);
			if
			:: op == SEND -> taken[me]++
			:: op == RECV -> taken[met]++
			fi;
#ifndef STATUS_LATE
			status[NODE(met, c)] = OK
#endif
		}
	:: else
	fi
}

inline wake_met(c)
{
	if
	:: met != NOBODY ->
		sn_waiter_wake(met);
#ifdef STATUS_LATE
		assert(there[met]);
		status[NODE(met, c)] = OK
#endif
	:: else
	fi
}

inline succeed(me, op)
{
	if
	:: op == SEND && !over -> sent[me]++
	:: else
	fi
}

inline enqueue(me, c, op)
{
	d_step {
		Q(c, op)!me;
		queued[NODE(me, c)] = 1;
		status[NODE(me, c)] = PENDING
	}
}

inline leave_queue(me, c, op)
{
	if
	:: status[NODE(me, c)] == PENDING ->
#ifndef NODE_STAYS
		sn_lock(c);
		d_step {
			if
			:: queued[NODE(me, c)] -> Q(c, op)??eval(me); queued[NODE(me, c)] = 0
			:: else
			fi
		};
		sn_unlock(c)
#endif
	:: else
	fi
}

inline park_shared(me, deadline)
{
	if
	:: deadline ->
		/* sn_cancel_publish() */
#ifdef LOOK_UNLOCKED
		over = reason;
		d_step { !cancel_locked -> in_waiter = !over };
#else
		d_step { !cancel_locked -> over = reason; in_waiter = !over };
#endif
		if
		:: !over -> timer = 1
		:: over ->
			/* end_self() */
			claim(me);
			if
			:: took -> failed[me] = 1; set_done(me)
			:: else
			fi
		fi
	:: else
	fi;
	over = 0;
	if
	:: bits[me] & DONE
	:: else ->
		saved[me] = 1;
		/* commit_park() */
#ifdef COMMIT_STORES
		was = bits[me];
		bits[me] = bits[me] | PARKED;
#else
		d_step { was = bits[me]; bits[me] = bits[me] | PARKED };
#endif
		if
		:: was & DONE -> sn_ready(me)
		:: else
		fi;
end_parked:	d_step { runnable[me] -> runnable[me] = 0; saved[me] = 0 }
	fi;
	if
	:: deadline ->
#ifndef TIMER_STAYS
		d_step { !heap_locked -> timer = 0 };
#endif
		d_step { !cancel_locked -> in_waiter = 0 }
	:: else
	fi
}

/* The case of channel 0 is op, that of channel 1 is the opposite. */
proctype selecting(byte me; byte op; bool deadline)
{
	byte met, was;
	bool took, over;

	/* choose() may consider either ready, or neither. */
	do
	:: sn_lock(0); attempt(me, 0, op); sn_unlock(0);
		if
		:: met != NOBODY || over -> wake_met(0); succeed(me, op); goto out
		:: else -> break
		fi
	:: sn_lock(1); attempt(me, 1, OTHER(op)); sn_unlock(1);
		if
		:: met != NOBODY || over -> wake_met(1); succeed(me, OTHER(op)); goto out
		:: else -> break
		fi
	:: break
	od;

	/* wait() */
#ifdef ONE_BY_ONE
	sn_lock(0);
	attempt(me, 0, op);
	if
	:: met != NOBODY || over -> sn_unlock(0); wake_met(0); succeed(me, op); goto out
	:: else
	fi;
	d_step { there[me] = 1; bits[me] = 0 };
	enqueue(me, 0, op);
	sn_unlock(0);
	sn_lock(1);
	attempt(me, 1, OTHER(op));
	if
	:: met != NOBODY || over ->
		sn_unlock(1);
		wake_met(1);
		succeed(me, OTHER(op));
		leave_queue(me, 0, op);
		there[me] = 0;
		goto out
	:: else
	fi;
	enqueue(me, 1, OTHER(op));
	sn_unlock(1);
#else
#	ifdef ANY_ORDER
	if
	:: op == RECV -> sn_lock(0); sn_lock(1)
	:: else -> sn_lock(1); sn_lock(0)
	fi;
#	else
	sn_lock(0);
	sn_lock(1);
#	endif
#	ifndef NO_SECOND_LOOK
	attempt(me, 0, op);
	if
	:: met != NOBODY || over ->
		sn_unlock(0);
		sn_unlock(1);
		wake_met(0);
		succeed(me, op);
		goto out
	:: else
	fi;
	attempt(me, 1, OTHER(op));
	if
	:: met != NOBODY || over ->
		sn_unlock(0);
		sn_unlock(1);
		wake_met(1);
		succeed(me, OTHER(op));
		goto out
	:: else
	fi;
#	endif
	d_step { there[me] = 1; bits[me] = 0 };
	enqueue(me, 0, op);
	enqueue(me, 1, OTHER(op));
	sn_unlock(0);
	sn_unlock(1);
#endif
	park_shared(me, deadline);
	leave_queue(me, 0, op);
	leave_queue(me, 1, OTHER(op));
	d_step {
		there[me] = 0;
		/* Exactly one party has ended the wait. */
		assert((status[NODE(me, 0)] != PENDING) + (status[NODE(me, 1)] != PENDING) +
		       failed[me] == 1)
		if
		:: status[NODE(me, 0)] == OK && op == SEND -> sent[me]++
		:: status[NODE(me, 1)] == OK && OTHER(op) == SEND -> sent[me]++
		:: else
		fi
	}
out:	returned[me] = 1
}

proctype sending(byte me)
{
	byte met, was;
	bool took, over;

	sn_lock(0);
	attempt(me, 0, SEND);
	if
	:: met != NOBODY || over -> sn_unlock(0); wake_met(0); succeed(me, SEND)
	:: else ->
		there[me] = 1;
		enqueue(me, 0, SEND);
#ifdef EARLY_UNLOCK
		sn_unlock(0);
		saved[me] = 1;
#else
		saved[me] = 1;
		sn_unlock(0); /* commit_exclusive() */
#endif
end_parked:	d_step { runnable[me] -> runnable[me] = 0; saved[me] = 0 };
		d_step {
			there[me] = 0;
			assert(status[NODE(me, 0)] != PENDING);
			if
			:: status[NODE(me, 0)] == OK -> sent[me]++
			:: else
			fi
		}
	fi;
	returned[me] = 1
}

proctype timers()
{
	byte was;
	bool took;

end:	d_step { timer -> timer = 0; heap_locked = 1 };
	/* deadline_fire() */
	claim(0);
	was = 0;
	if
	:: took -> failed[0] = 1; set_done(0)
	:: else
	fi;
	heap_locked = 0;
	if
	:: was & PARKED -> sn_ready(0)
	:: else
	fi
}

proctype canceller()
{
	byte was;
	bool took;

	reason = 1;
	d_step { !cancel_locked -> cancel_locked = 1 };
	/* sn_cancel_take() */
	if
	:: in_waiter ->
		claim(0);
		if
		:: took -> failed[0] = 1; set_done(0)
		:: else
		fi
	:: else
	fi;
	cancel_locked = 0;
	if
	:: was & PARKED -> sn_ready(0)
	:: else
	fi
}

inline end_all(op)
{
	do
	:: d_step { nempty(Q(1, op)) -> Q(1, op)?met; queued[NODE(met, 1)] = 0 };
		claim(met);
		if
		:: took -> status[NODE(met, 1)] = CLOSED; ended!met
		:: else
		fi
	:: empty(Q(1, op)) -> break
	od
}

proctype closer()
{
	byte met, was;
	bool took;
	chan ended = [2] of { byte };

	sn_lock(1);
	closed[1] = 1;
	end_all(RECV);
	end_all(SEND);
	sn_unlock(1);
	do
	:: ended?met -> sn_waiter_wake(met)
	:: empty(ended) -> break
	od
}

#define WAITS(p, c) (queued[NODE(p, c)])

init
{
	atomic {
#ifndef FAR
		run selecting(1, SEND, 0);
		run sending(2);
#endif
#ifdef FOREVER
		run selecting(0, RECV, 0)
#else
		run selecting(0, RECV, 1);
#	ifndef FAR
		run timers();
#	endif
#	ifdef CLOSES
		run closer()
#	else
		run canceller()
#	endif
#endif
	};
	timeout;
	assert(!locked[0] && !locked[1] && !heap_locked && !cancel_locked);
	assert(sent[0] == taken[0] && sent[1] == taken[1] && sent[2] == taken[2]);
	assert(sent[0] <= 1 && sent[1] <= 1 && sent[2] <= 1);
	/* The first receives from 0 and sends to 1, the second sends to 0 and receives from 1. */
	assert(!(WAITS(0, 0) && (WAITS(1, 0) || WAITS(2, 0))));
	assert(!(WAITS(0, 1) && WAITS(1, 1)));
	assert(!closed[1] || (!WAITS(0, 1) && !WAITS(1, 1)));
#ifdef FOREVER
	assert(returned[0] || (WAITS(0, 0) && WAITS(0, 1)));
#else
	assert(returned[0]);
#endif
#ifndef FAR
	assert(returned[1] || (WAITS(1, 0) && !closed[1]));
	assert(returned[2] || WAITS(2, 0))
#endif
}
