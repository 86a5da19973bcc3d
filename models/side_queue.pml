/* SPDX-License-Identifier: MIT */
/*
 * Several tasks that wait on one side of a descriptor: src/io/side_queue.h and .c.
 *
 * What is modelled, by the names of the C code:
 *   task()      calls that receive one datagram each, from sn_side_queue_begin() to
 *               sn_side_queue_end(): tries, lead(), queue_up(), sn_fd_await(),
 *               sn_side_queue_give(). Task 0 is in a scope.
 *   kernel()    datagrams that arrive, each with an edge some time later
 *   poller()    side_event(), for an edge
 *   sender()    note_error(): an error, and a wake-up of the side
 *   cancel()    the scope's reason, and then sn_cancel_take()
 *   end_with()  sn_fd_end_with(), or a deadline that passes: here only sn_fd_await() looks for it.
 *               (For a close and the like, sn_side_queue_wait() also looks before a try.)
 * The word consists of lead and queued. Instead of the number of leads that have ended, it has a
 * bit for each task: whether the number has changed since the task read it. The side's word is
 * NONE, READY or the task.
 *
 * Abstracted: one side, and its edges: a task parks there in one step, unless the side is ready or
 * something prevents the wait (models/side.pml). The claim of a waiter and its result are one step,
 * and so are the commit of its park and the release of the lock (models/waiter.pml). Memory order:
 * a task that reads the number acquires what the last leader released, and everything else is
 * sequentially consistent, or under the lock. The number does not wrap around. The kernel's queue
 * is never full. That a side may ask for its edges only while it has a leader (sn_fd_want_room())
 * is left out: asking is an edge if there is room.
 *
 * Safety (assertions): only the leader is on the side and takes edges; the lead is handed to a task
 * that waits for it, once; the store of sn_side_queue_give() overwrites nothing. At rest: a task
 * waits in the list only while another is on the side; no task waits in either place while there is
 * a datagram or an error, or anything that ends its wait.
 *
 * Variants: CALLS (of each task), DATAGRAMS, ERRORS (of the sender): at most so many; NO_CANCEL;
 * NO_END.
 *
 * Mutants, each of which must be caught:
 *   NO_NUMBER      a task that takes a free lead does not compare the numbers
 *   READ_LATE      a task reads the number after its try
 *   COUNT_TAKEN    the number counts the leads that were taken
 *   NO_HAND_OVER   a leader that leaves only frees the lead
 *   LOSE_LEAD      a task that was handed the lead, and is cancelled, leaves without giving it
 *   NO_TRY         a task that was handed the lead waits on the side immediately
 *   LOSE_QUEUED    sn_side_queue_give() clears QUEUED although there are more tasks in the list
 *   NOT_QUEUED     announce() does not set QUEUED
 *   NO_LEADER      announce() does not fail without LEAD
 *   GIVE_UNLOCKED  sn_side_queue_give() looks at the list without the lock
 *   NO_CLAIM       sn_side_queue_give() hands the lead to a wait that a cancellation has ended
 */
#ifndef CALLS
#	define CALLS 2
#endif
#ifndef DATAGRAMS
#	define DATAGRAMS 2
#endif
#ifndef ERRORS
#	define ERRORS 0
#endif

#define TASKS 3
#define NOBODY 3

/* The side's word. */
#define NONE 4
#define READY 5

byte datagrams;            /* in the kernel's queue */
bool edge;                 /* an edge that has not been reported yet */
bool error;                /* an error that a sender has noted */
bool ended, cancelled;

byte side = NONE;
bool lead, queued, changed[TASKS];
bool locked;
chan list = [TASKS] of { byte };

/* The waits. */
bool published;            /* of task 0: its canceller can find its wait in the list */
bool claimed[TASKS], in_list[TASKS];
bool parked[TASKS], woken[TASKS], refused[TASKS];

#define CANCELLED(t) ((t) == 0 && cancelled)

inline wake(t)
{
	assert(parked[t] && !woken[t]);
	woken[t] = 1
}

inline count_lead()
{
	changed[0] = 1;
	changed[1] = 1;
	changed[2] = 1
}

/* sn_side_ready() */
inline make_ready()
{
	d_step {
		if
		:: side < TASKS -> wake(side)
		:: else
		fi;
		side = READY
	}
}

/* leads, again and next are variables of the caller. */
inline take_lead()
{
	d_step {
		assert(side >= TASKS);
		lead = 1;
		leads = 1;
#ifdef COUNT_TAKEN
		again = changed[me];
		count_lead();
#elif defined(NO_NUMBER)
		again = 0;
#else
		again = changed[me];
#endif
		changed[me] = 0
	}
}

inline acquire()
{
	d_step { !locked -> locked = 1 }
}

/* Puts the wait that will get the lead into next. */
inline claim_next()
{
	do
	:: atomic { empty(list) -> next = NOBODY; break }
	:: atomic {
		list?next ->
		in_list[next] = 0;
#ifndef NO_CLAIM
		if
		:: claimed[next]
		:: !claimed[next] -> claimed[next] = 1; break
		fi
#else
		claimed[next] = 1;
		break
#endif
	   }
	od;
	skip
}

inline sn_side_queue_give()
{
	leads = 0;
	if
#ifdef NO_HAND_OVER
	:: d_step { lead = 0; count_lead() }
#else
	:: d_step {
		!queued ->
		lead = 0;
#	ifndef COUNT_TAKEN
		count_lead();
#	endif
		skip
	   }
	:: queued ->
#	ifndef GIVE_UNLOCKED
		acquire();
#	endif
		claim_next();
		d_step {
			assert(lead && queued);
			lead = (next != NOBODY);
#	ifdef LOSE_QUEUED
			queued = 0;
#	else
			queued = (next != NOBODY && nempty(list));
#	endif
#	ifndef COUNT_TAKEN
			count_lead();
#	endif
#	ifndef GIVE_UNLOCKED
			locked = 0;
#	endif
			skip
		}
		d_step {
			if
			:: next != NOBODY -> assert(!refused[next]); wake(next)
			:: else
			fi;
			next = 0
		}
#endif
	fi
}

proctype task(byte me)
{
	byte calls, next;
	bool leads, again;

call:	if
	:: calls == CALLS || ended || CANCELLED(me) -> goto out
	:: d_step { else -> calls++; changed[me] = 0 }
	fi;

try:	if
	:: d_step { error -> error = 0 }; goto leave
	:: !error
	fi;
	if
	:: d_step { datagrams > 0 -> datagrams-- }; goto leave
	:: datagrams == 0
	fi;
#ifdef READ_LATE
	changed[me] = 0;
#endif
	if
	:: leads -> goto await
	:: else
	fi;

free:	if
	:: atomic { !lead -> take_lead() };
		if
		:: d_step { again -> again = 0 }; goto try
		:: !again -> goto await
		fi
	:: lead
	fi;

	/* queue_up() */
	acquire();
	if
#ifndef NO_LEADER
	:: d_step { !lead -> locked = 0 }; goto free
	:: d_step {
		lead ->
#else
	:: d_step {
		true ->
#endif
#ifndef NOT_QUEUED
		queued = 1;
#endif
		claimed[me] = 0
	   }
	fi;
	d_step { list!me; in_list[me] = 1; parked[me] = 1; locked = 0 };
	/* sn_cancel_publish() */
	if
	:: d_step { CANCELLED(me) && !claimed[me] -> claimed[me] = 1; refused[me] = 1; woken[me] = 1 }
	:: d_step { !CANCELLED(me) || claimed[me] -> published = published || me == 0 }
	fi;
end_list:
	d_step {
		woken[me] ->
		woken[me] = 0;
		parked[me] = 0;
		if
		:: me == 0 -> published = 0
		:: else
		fi
	}
	if
	:: d_step { refused[me] -> refused[me] = 0 };
		acquire();
		d_step {
			if
			:: in_list[me] -> list??eval(me); in_list[me] = 0
			:: else
			fi;
			locked = 0
		}
		goto leave
	:: d_step { !refused[me] -> assert(lead); leads = 1 }
	fi;
#ifdef LOSE_LEAD
	if
	:: CANCELLED(me) -> leads = 0; goto leave
	:: else
	fi;
#endif
#ifndef NO_TRY
	goto try;
#endif

	/* sn_fd_await() */
await:	if
	:: ended -> goto leave
	:: d_step { side == READY -> side = NONE }; goto try
	:: CANCELLED(me) && side != READY -> goto leave
	:: d_step {
		!ended && !CANCELLED(me) && side != READY ->
		assert(lead && side == NONE);
		side = me;
		parked[me] = 1
	   }
	fi;
end_side:
	d_step { woken[me] -> woken[me] = 0; parked[me] = 0 };
	if
	:: d_step { refused[me] -> refused[me] = 0 }; goto leave
	:: !refused[me]
	fi;
	if
	:: ended -> goto leave
	:: d_step { !ended && side == READY -> side = NONE }; goto try
	:: !ended && side != READY -> goto try
	fi;

leave:	if
	:: leads -> sn_side_queue_give()
	:: else
	fi;
	goto call;
out:	skip
}

proctype kernel()
{
	byte n;

	do
	:: n < DATAGRAMS -> n++; datagrams++; edge = 1
	:: break
	od
}

proctype poller()
{
end:	do
	:: d_step { edge -> edge = 0 }; make_ready()
	od
}

proctype sender()
{
	byte n;

	do
	:: n < ERRORS -> n++; error = 1; make_ready()
	:: break
	od
}

#ifndef NO_CANCEL
proctype cancel()
{
	if
	:: skip
	:: cancelled = 1;
		d_step {
			if
			:: published && !claimed[0] -> claimed[0] = 1; refused[0] = 1; wake(0)
			:: side == 0 -> side = NONE; refused[0] = 1; wake(0)
			:: else
			fi
		}
	fi
}
#endif

#ifndef NO_END
proctype end_with()
{
	byte taken;

	if
	:: skip
	:: ended = 1;
		d_step {
			if
			:: side < TASKS -> taken = side; side = NONE; wake(taken); taken = 0
			:: else
			fi
		}
	fi
}
#endif

init
{
	atomic {
		run task(0);
		run task(1);
		run task(2);
		run kernel();
		run poller();
		run sender();
#ifndef NO_CANCEL
		run cancel();
#endif
#ifndef NO_END
		run end_with();
#endif
	}
	timeout;
	assert(side < TASKS || (!lead && empty(list) && !parked[0] && !parked[1] && !parked[2]));
	assert(side >= TASKS || (!datagrams && !error && !ended && !(parked[0] && cancelled)))
}
