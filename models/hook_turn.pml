/* SPDX-License-Identifier: MIT */
/*
 * Turns of hooked calls that would block because they have no flag against it: src/hooks/turn.h and
 * .c.
 *
 * What is modelled, by the names of the C code:
 *   task()     calls that take one event each: sn_hook_turn_take(), the call, sn_hook_turn_give()
 *   source()   events that arrive
 *   thief()    takes an event without a turn: another process, or a task without hooks
 *   closer()   sn_hook_turns_forget(): the descriptor is closed, and another one gets its number.
 *              In the model, calls that wait for the old descriptor then wait for the new one: a
 *              call that blocks keeps an event of its own.
 *
 * Abstracted: a wait for the descriptor ends when an event is there, and may find it gone. A task
 * yields and sleeps while another one has the turn. Only the end of that matters: the turn is free,
 * the descriptor is no longer ready, or the task has waited long enough, which may be at any time
 * while an owner blocks, and never otherwise.
 *
 * Safety: a call in turn does not block, unless a thief or a closer came in between; there is one
 * owner at a time, unless a closer came. At rest no task waits, in any way, while there is an
 * event; and only a task that blocks in its call has the turn.
 *
 * Variants: EVENTS; THIEF, CLOSER; STUCK, 1: a call blocks forever although poll() says that it
 * need not, such as a write() to an eventfd of more than there is room for.
 *
 * Mutants, each of which must be caught:
 *   NO_TURN      a task that sees the event makes the call although another one may have the turn
 *   LOOK_FIRST   a task looks before it takes the turn
 *   KEEP         a task that finds nothing in its turn waits with it
 *   GIVE_BLIND   with CLOSER: sn_hook_turn_give() frees the word although another task may have the
 *                turn
 *   NO_PASS      with STUCK: a task waits for the turn for as long as another has it
 */
#ifndef EVENTS
#	define EVENTS 2
#endif
#ifndef STUCK
#	define STUCK 0
#endif

#define TASKS 3
#define NOBODY 255

byte word = NOBODY;
byte events;
byte blocked;           /* tasks that block in their calls, with the turn */
byte owners;            /* tasks between taking and giving the turn */
byte stuck = STUCK;
bool disturbed;         /* a thief or a closer has come */

inline give()
{
	atomic {
#ifdef GIVE_BLIND
		assert(word == NOBODY || word == t);
		word = NOBODY;
#else
		if
		:: word == t -> word = NOBODY
		:: else
		fi;
#endif
		owners--
	}
}

proctype task(byte t)
{
	bool taken, ready;

again:
#ifdef LOOK_FIRST
	ready = events > 0;
#endif
	atomic {
		taken = word == NOBODY;
		if
		:: taken -> word = t; owners++; assert(owners == 1 || disturbed)
		:: !taken
		fi
	};
#ifndef LOOK_FIRST
	ready = events > 0;
#endif
#ifdef NO_TURN
	if
	:: ready && !taken -> goto call
	:: !ready || taken
	fi;
#endif
	if
	:: taken && ready -> goto call
	:: taken && !ready ->
#ifndef KEEP
		give();
#endif
		goto await
	:: !taken && ready -> goto await_turn
	:: !taken && !ready -> goto await
	fi;

await:
endwait: events > 0;
	goto again;

await_turn:
	if
	:: word == NOBODY || events == 0 -> goto again
#ifndef NO_PASS
	/* PASS: makes the call without a turn. */
	:: blocked > 0 && events > 0 -> taken = 0; goto pass
#endif
	fi;

call:	if
	:: atomic { stuck > 0 -> stuck--; blocked++ };
endstuck:	false
	:: atomic { events > 0 -> events-- }
	:: atomic { events == 0 -> assert(disturbed); blocked++ };
endcall:	atomic { events > 0 -> events--; blocked-- }
	fi;
	give();
	goto done;

pass:
endpass: atomic { events > 0 -> events-- };

done:	skip
}

proctype source()
{
	byte n = EVENTS;

	do
	:: n > 0 -> n--; events++
	:: n == 0 -> break
	od
}

proctype thief()
{
	if
	:: d_step { events > 0 -> events--; disturbed = 1 }
	:: true
	fi
}

proctype closer()
{
	d_step { word = NOBODY; disturbed = 1 }
}

init
{
	atomic {
		run task(0);
		run task(1);
		run task(2);
		run source()
#ifdef THIEF
		;
		run thief()
#endif
#ifdef CLOSER
		;
		run closer()
#endif
	}
	timeout;
	assert(events == 0 || EVENTS > TASKS);
	assert(word == NOBODY || blocked > 0)
}
