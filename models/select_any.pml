/* SPDX-License-Identifier: MIT */
/*
 * A select over a channel, a task's end and a descriptor, with a deadline: src/io/select_any.c.
 *
 * What is modelled, by the names of the C code:
 *   selecting()   select_cases(): look(), wait_once() with sn_select_enter(), begin_others(),
 *                 sn_waiter_park(), end_all(). It continues until each of the three was selected
 *                 once, and selects only among the rest
 *   partner()     a send: it meets the node in the channel's queue, or leaves its element in the
 *                 buffer
 *   ending()      commit_end(), end_joined()
 *   poller()      sn_watch_event(), of a descriptor that becomes ready and stays so until read
 *   timer()       the deadline of the wait, which comes at most once
 *
 * Abstracted: the park itself, which is in waiter.pml; any case that is ready may be chosen. The
 * epoll side of a watch is in watch.pml: here the poller comes once the wait is in the list. The
 * watch of a scope is like that of a descriptor here. A cancellation is like the timer. ending()
 * stores ENDED where the code compares and swaps: both hold the lock.
 *
 * Safety (assertions): the wait's memory is not touched after the select has left it; one wait
 * executes at most one case; the element is received once, the task joined once. At the end no task
 * waits, so no element, end or event was lost.
 *
 * Mutants, each of which must be caught:
 *   NO_SELF_CLAIM    a case that is ready while the wait begins is executed without the waiter's
 *                    claim
 *   OTHERS_FIRST     the select registers for the task's end before it enters the channel
 *   ENDING_FORGETS   the ending task does not change the word when it does not get the claim
 *   LEAVE_UNLOCKED   the join word is left without the task's lock
 *   NO_PARK          when the claim is gone, the select does not wait until the wait has been ended
 *   EVENT_COUNTS     an event is reported instead of the element that was received
 *   KEEPS_NODE       the node stays in the channel's queue
 */
#define RUNNING 0
#define ENDED 1
#define WAIT 2
#define TAKEN 3

byte word = RUNNING;
bool filled, queued;     /* the channel: its buffer, the node in its queue */
bool readable, listed; /* the descriptor, the wait in its watch */
bool armed;
bool chan_lock, join_lock, watch_lock, heap_lock;

/* On the stack of the select. */
bool alive, claimed, done;
bool moved, handed, got; /* results of the three waits: status, ended, got */

byte received, joined, events;

#define USED assert(alive)

inline lock(l)
{
	atomic { !l -> l = 1 }
}
inline unlock(l)
{
	l = 0
}
inline claim()
{
	d_step { USED; won = !claimed; claimed = 1 }
}
inline finish()
{
	d_step { USED; assert(claimed && !done); done = 1 }
}

inline sn_join_begin()
{
	if
	:: joined -> skip
	:: else ->
		atomic {
			if
			:: word == RUNNING -> word = WAIT; begun = 1
			:: else -> again = 1
			fi
		}
	fi
}

/* Takes the element in the buffer, if there is one. Sets taken. */
inline attempt_channel()
{
	if
	:: filled -> filled = 0; received++; taken = 1
	:: else
	fi
}

proctype selecting()
{
	bool won, begun, again, taken, in_queue;

	do
	:: joined && received && events -> break
	:: else ->
		/* look() */
		taken = 0;
		if
		:: !received && filled ->
			lock(chan_lock);
			attempt_channel();
			unlock(chan_lock)
		:: !joined && word == ENDED -> word = TAKEN; joined++; taken = 1
		:: !events && readable -> events = 1; taken = 1
		:: else
		fi;
		if
		:: taken -> goto next
		:: else
		fi;
		/* wait_once() */
		d_step {
			alive = 1; claimed = 0; done = 0; moved = 0; handed = 0; got = 0;
			begun = 0; again = 0; in_queue = 0
		};
#ifdef OTHERS_FIRST
		sn_join_begin();
#endif
		if
		:: !received ->
			lock(chan_lock);
			attempt_channel();
			if
			:: taken
			:: else -> queued = 1; in_queue = 1
			fi;
			unlock(chan_lock)
		:: else
		fi;
#ifdef OTHERS_FIRST
		/* The mutant at its best: it claims the wait, unless the task's end came first. */
		if
		:: taken ->
			claim();
			if
			:: won
			:: else -> done
			fi;
			goto ended
		:: else
		fi;
#else
		if
		:: taken -> alive = 0; goto next
		:: else
		fi;
		sn_join_begin();
#endif
		if
		:: !again && !events ->
			lock(watch_lock);
			listed = 1;
			unlock(watch_lock)
		:: else
		fi;
		won = 0;
		if
		:: again ->
#ifdef NO_SELF_CLAIM
			won = 1;
			if
			:: word == ENDED -> word = TAKEN; joined++; taken = 1
			:: else
			fi
#else
			claim()
#endif
		:: else
		fi;
		if
		:: !won ->
			lock(heap_lock); armed = 1; unlock(heap_lock);
#ifdef NO_PARK
			if
			:: again
			:: else -> done
			fi;
#else
			done;
#endif
			lock(heap_lock); armed = 0; unlock(heap_lock)
		:: else
		fi;
ended:
		/* end_all() */
		if
		:: in_queue && moved -> received++; assert(!taken); taken = 1
		:: in_queue && !moved ->
#ifndef KEEPS_NODE
			lock(chan_lock);
			queued = 0;
			unlock(chan_lock)
#else
			skip
#endif
		:: else
		fi;
		if
		:: begun && handed -> word = TAKEN; joined++; assert(!taken); taken = 1
		:: begun && !handed ->
#ifndef LEAVE_UNLOCKED
			lock(join_lock);
#endif
			atomic {
				if
				:: word == WAIT -> word = RUNNING
				:: else
				fi
			};
#ifndef LEAVE_UNLOCKED
			unlock(join_lock)
#endif
		:: else
		fi;
		lock(watch_lock);
		listed = 0;
		unlock(watch_lock);
		if
#ifdef EVENT_COUNTS
		:: got && taken && in_queue && moved -> received--; events = 1
#endif
		:: got && !taken -> events = 1
		:: else
		fi;
		alive = 0;
next:
		skip
	od;
	assert(received == 1 && joined == 1 && word == TAKEN && !filled)
}

proctype partner()
{
	bool won;

	lock(chan_lock);
	won = 0;
	if
	:: queued -> queued = 0; claim()
	:: else
	fi;
	if
	:: won -> moved = 1
	:: else -> filled = 1
	fi;
	unlock(chan_lock);
	if
	:: won -> finish()
	:: else
	fi
}

proctype ending()
{
	bool won, seen;

	atomic {
		if
		:: word == RUNNING -> word = ENDED; seen = 1
		:: else
		fi
	};
	if
	:: seen
	:: else ->
		lock(join_lock);
		do
		:: word == WAIT ->
			claim();
			if
			:: won -> handed = 1; finish(); break
#ifdef ENDING_FORGETS
			:: else -> break
#else
			:: else -> word = ENDED; break
#endif
			fi
		:: atomic { word == RUNNING -> word = ENDED }; break
		od;
		unlock(join_lock)
	fi
}

proctype poller()
{
	bool won;

	readable = 1;
	do
	:: events -> break
	:: atomic { listed && !watch_lock -> watch_lock = 1 };
		got = 1;
		claim();
		if
		:: won -> finish()
		:: else
		fi;
		listed = 0;
		unlock(watch_lock)
	od
}

proctype timer()
{
	bool won;

	if
	:: atomic { armed && !heap_lock -> heap_lock = 1 };
		armed = 0;
		claim();
		if
		:: won -> finish()
		:: else
		fi;
		unlock(heap_lock)
	:: events && received && joined
	fi
}

init
{
	atomic {
		run selecting();
		run partner();
		run ending();
		run poller();
		run timer()
	}
}
