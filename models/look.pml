/* SPDX-License-Identifier: MIT */
/*
 * What a hooked call does before it waits, while it waits and afterwards: it looks, asks epoll,
 * parks, looks again, tries again, and in the end may block. src/io/poll.c, src/hooks/call.h.
 *
 * What is modelled, by the names of the C code:
 *   task()      a hooked call that takes an event: the attempt, sn_hook_another_round(), then
 *               sn_fd_wait() with wait_for() and wait_once(), or the call that blocks
 *   poller()    sn_watch_event()
 *   timers()    sn_watch_look() of a wait that has lasted; the deadline of a call
 *   program()   closes the descriptor without notice to sennit, perhaps while it stays open under
 *               another number; and perhaps another descriptor, B, gets the number
 *   source(), canceller()
 *
 * Abstracted: each operation of a watch is one step, because watch.pml models its parts. A look
 * comes when it would find that the descriptor was closed, and LOOKS more times. With ODD the
 * descriptor is ready for poll() only, such as one in select()'s special set whose peer is gone.
 *
 * Safety: a wait ends for what is reported to it (got), because its descriptor was closed, or
 * because its deadline or its scope has ended, and not for a look. A look that finds that the
 * number belongs to another descriptor ends the wait. A call blocks only if poll() has reported the
 * descriptor as ready a certain number of times in a row, and no call repeats its round more often
 * than that without an event. At rest no call waits while an event is there for it, or for a
 * descriptor that was closed, or in a scope that was cancelled.
 *
 * Variants: EVENTS, LOOKS, DEADLINE, CANCEL, ODD, CLOSES (each 0 or 1, or how many).
 *
 * Mutants, each of which must be caught:
 *   NO_LOOK         with CLOSES: a wait does not look while it lasts
 *   LOOK_LATE       with CLOSES: a wait leaves the list, then looks
 *   ASK_BLIND       epoll reports what comes after it was asked, not what is there already
 *   ASK_FIRST       epoll is asked before the wait is in the list
 *   LOOK_IS_LATE    with LOOKS: a call mistakes the time of a look for its deadline
 *   SCOPE_IS_LOOK   with CANCEL: it mistakes the end of its scope for a look
 *   NO_ROUNDS       with ODD: it never gives up
 */
#ifndef EVENTS
#	define EVENTS 2
#endif
#ifndef LOOKS
#	define LOOKS 0
#endif
#ifndef DEADLINE
#	define DEADLINE 0
#endif
#ifndef CANCEL
#	define CANCEL 0
#endif
#ifndef ODD
#	define ODD 0
#endif
#ifndef CLOSES
#	define CLOSES 0
#endif

#define MOST_ROUNDS 2
/* A number that has no descriptor for a moment is not ready, so its rounds begin again. */
#define MOST_TURNS (2 * EVENTS + (MOST_ROUNDS + 1) * (1 + CLOSES))
#define A 0
#define B 1
#define NOTHING 2
#define NOBODY 3

/* The kernel. */
byte is = A;         /* what the number means */
bool lives_on;       /* A is still open under another number */
byte events[2];      /* events that can be taken */
bool known[2], asked[2];

/* The watch. */
byte registered = NOBODY;
bool in[2], got[2], closed[2];

bool parked[2], ended[2];  /* the waiter was ended by an event or by a close */
bool timed_out[2];         /* it was ended by a look, a deadline or a cancellation */
bool late, cancelled;
byte looks = LOOKS;

/* Only in the model, not in the code. */
byte meant[2] = NOBODY;    /* the descriptor that the wait is for */
bool must_end[2];
bool blocks[2];

#define IS_READY(file) ((file) != NOTHING && (ODD || events[file] > 0))

inline finish(wait)
{
	in[wait] = 0;
	ended[wait] = 1
}

/* sn_watch_add() */
inline add(t)
{
#ifdef ASK_FIRST
	atomic {
		if
		:: is != NOTHING -> known[is] = 1; asked[is] = 1; registered = is
		:: else
		fi
	};
#endif
	atomic {
		assert(!must_end[t]);
		ended[t] = 0;
		got[t] = 0;
		closed[t] = 0;
		timed_out[t] = 0;
		if
		:: is == NOTHING -> closed[t] = 1
		:: is != NOTHING ->
			/* the earlier waits, if the number now belongs to another descriptor */
			if
			:: in[1 - t] && meant[1 - t] != is -> closed[1 - t] = 1; finish(1 - t)
			:: else
			fi;
			in[t] = 1;
			meant[t] = is;
#ifndef ASK_FIRST
			known[is] = 1;
			registered = is;
#	ifdef ASK_BLIND
			asked[is] = !IS_READY(is)
#	else
			asked[is] = 1
#	endif
#endif
		fi
	}
}

/* sn_watch_look(): epoll does not know the number with this descriptor. */
inline look(t)
{
	d_step {
		must_end[t] = (meant[t] != is);
		if
		:: registered != is || is == NOTHING ->
			if
			:: in[0] -> closed[0] = 1; finish(0)
			:: else
			fi;
			if
			:: in[1] -> closed[1] = 1; finish(1)
			:: else
			fi
		:: else
		fi
	}
}

inline remove(t)
{
	d_step { in[t] = 0; meant[t] = NOBODY }
}

proctype task(byte t)
{
	byte rounds, turns;
	bool looked;

again:	/* the attempt */
	if
	:: atomic { is == NOTHING -> goto over }
	:: atomic { is != NOTHING && !ODD && events[is] > 0 -> events[is]--; goto over }
	:: atomic { is != NOTHING && (ODD || events[is] == 0) -> skip }
	fi;
	/* sn_hook_another_round() */
	turns++;
	assert(turns <= MOST_TURNS);
#ifndef NO_ROUNDS
	if
	:: atomic { rounds > 0 && !IS_READY(is) -> rounds = 0 }
	:: rounds == 0 || IS_READY(is)
	fi;
	if
	:: rounds < MOST_ROUNDS -> rounds++
	:: rounds == MOST_ROUNDS -> goto block
	fi;
#endif
	/* wait_for() */
#if CANCEL
	if
	:: cancelled -> goto over
	:: !cancelled
	fi;
#endif
	do
	:: atomic {
		/* sn_sys_poll_now() */
		if
		:: is == NOTHING -> goto over
		:: IS_READY(is) -> goto again
		:: !IS_READY(is)
		fi };
#if DEADLINE
		if
		:: late -> goto over
		:: !late
		fi;
#endif
		/* wait_once() */
		add(t);
		if
		:: closed[t] || ended[t] || cancelled
		:: d_step { !closed[t] && !ended[t] && !cancelled -> parked[t] = 1 };
end_parked:		atomic { ended[t] || timed_out[t] -> parked[t] = 0 }
		fi;
#ifdef LOOK_LATE
		d_step {
			in[t] = 0;
			must_end[t] = (timed_out[t] && meant[t] != is);
			meant[t] = NOBODY
		};
#endif
		looked = 0;
#ifdef SCOPE_IS_LOOK
		if
		:: timed_out[t] || (cancelled && !ended[t]) -> looked = 1; look(t)
		:: else
		fi;
#else
		if
		:: timed_out[t] && !cancelled -> looked = 1;
#	ifndef LOOK_LATE
			look(t)
#	endif
		:: else
		fi;
#endif
#ifndef LOOK_LATE
		remove(t);
#endif
		if
		:: got[t] -> must_end[t] = 0; goto again
		:: !got[t] && closed[t] -> goto over
		:: !got[t] && !closed[t] && !looked -> assert(cancelled); goto over
		:: !got[t] && !closed[t] && looked ->
#ifdef LOOK_IS_LATE
			assert(late);
			goto over
#endif
#ifdef SCOPE_IS_LOOK
			turns++;
			assert(turns <= MOST_TURNS)
#endif
		fi
	od;

block:	assert(ODD || EVENTS >= MOST_ROUNDS);
	blocks[t] = 1;
over:	skip;
	d_step { in[t] = 0; meant[t] = NOBODY; must_end[t] = 0; parked[t] = 0 }
}

proctype poller()
{
end:	do
	:: d_step { known[A] && asked[A] && IS_READY(A) -> asked[A] = 0;
		if
		:: in[0] && meant[0] == A -> got[0] = 1; finish(0)
		:: else
		fi;
		if
		:: in[1] && meant[1] == A -> got[1] = 1; finish(1)
		:: else
		fi }
	:: d_step { known[B] && asked[B] && IS_READY(B) -> asked[B] = 0;
		if
		:: in[0] && meant[0] == B -> got[0] = 1; finish(0)
		:: else
		fi;
		if
		:: in[1] && meant[1] == B -> got[1] = 1; finish(1)
		:: else
		fi }
	od
}

#define IS_GONE(t) (parked[t] && in[t] && meant[t] != is)

proctype timers()
{
end:	do
	:: false
#ifndef NO_LOOK
	:: d_step { IS_GONE(0) && !timed_out[0] -> timed_out[0] = 1 }
	:: d_step { IS_GONE(1) && !timed_out[1] -> timed_out[1] = 1 }
	:: d_step { looks > 0 && parked[0] && !timed_out[0] -> looks--; timed_out[0] = 1 }
#endif
#if DEADLINE
	:: d_step { late && parked[0] && !timed_out[0] -> timed_out[0] = 1 }
	:: d_step { late && parked[1] && !timed_out[1] -> timed_out[1] = 1 }
#endif
#if CANCEL
	:: d_step { cancelled && parked[0] && !timed_out[0] -> timed_out[0] = 1 }
	:: d_step { cancelled && parked[1] && !timed_out[1] -> timed_out[1] = 1 }
#endif
	od
}

proctype program()
{
	byte n = EVENTS, closes = CLOSES;

end:	do
	:: n > 0 -> n--;
		if
		:: events[A]++
		:: atomic { is == B -> events[B]++ }
		fi
	:: atomic { closes > 0 ->
		closes--;
		if
		:: lives_on = 1
		:: known[A] = 0; asked[A] = 0
		fi;
		is = NOTHING };
		if
		:: is = B
		:: skip
		fi
#if DEADLINE
	:: atomic { !late -> late = 1 }
#endif
#if CANCEL
	:: atomic { !cancelled -> cancelled = 1 }
#endif
	:: break
	od
}

#define WAITS(t) (parked[t] && !ended[t] && !timed_out[t])

init
{
	atomic {
		run task(0);
		run task(1);
		run poller();
		run timers();
		run program()
	}
	timeout;
	assert(!WAITS(0) || (meant[0] == is && !IS_READY(is) && !cancelled && !late));
	assert(!WAITS(1) || (meant[1] == is && !IS_READY(is) && !cancelled && !late))
}
